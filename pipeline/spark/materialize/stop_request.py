"""Ends a job that repeats by SIGTERM or Ctrl-C: after the current commit, not in its midst.

The second signal does not wait. A killed commit is no harm either (`export_state.py`).
"""

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType


class StopRequest:
    """Whether the job is to end."""

    def __init__(self) -> None:
        self.is_made = False
        self._wake: Callable[[], object] | None = None
        """Ends the wait between two rounds; None if there is none."""

    @contextmanager
    def by_signals(self) -> Generator[None]:
        """SIGTERM and Ctrl-C make the request while the context lasts."""
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = [signal.getsignal(number) for number in numbers]
        self.handle()
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def handle(self) -> None:
        """Handle the signals from now on; again after Spark has started, which handles Ctrl-C."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_made:
            raise KeyboardInterrupt
        self.is_made = True
        if self._wake is not None:
            self._wake()

    def wait(self, timeout_s: float) -> None:
        """Wait until the request is made, or for so many seconds."""
        asyncio.run(self._wait(timeout_s))

    async def _wait(self, timeout_s: float) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(event.set)
        try:
            if not self.is_made:
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), timeout_s)
        finally:
            self._wake = None
