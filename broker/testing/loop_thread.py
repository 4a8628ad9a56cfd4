"""A thread with an event loop of its own: a broker in it serves while the test's thread waits."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ..metrics.log_lines import log_loop_exception

T = TypeVar("T")

BEGINS_WITHIN_S = 30.0
"""How long a new thread may take to run its loop."""
ENDS_WITHIN_S = 30.0
"""How long the loop may take to cancel what is left and to close."""
_MAY_BEGIN_S = 1.0
"""How long a thread whose start was interrupted is waited for: its loop may still begin."""


class LoopThread:
    """Runs coroutines for other threads, from `start` to `close`.

    The thread is a daemon: a broker that was never stopped does not keep the interpreter alive.
    """

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._begun = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the thread; returns when its loop runs. Raises TimeoutError."""
        self._thread.start()
        if not self._begun.wait(BEGINS_WITHIN_S):
            raise TimeoutError(f"The thread has no event loop after {BEGINS_WITHIN_S:.0f} s.")

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            loop = self._loop = runner.get_loop()
            loop.set_exception_handler(log_loop_exception)
            loop.call_soon(self._begun.set)
            loop.run_forever()

    @property
    def has_begun(self) -> bool:
        """Whether its loop runs, or has run; also of a thread whose start was interrupted."""
        return self._begun.wait(_MAY_BEGIN_S)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; `asyncio.wrap_future` lets another loop wait for it."""
        assert self._loop is not None, "The thread is not started."
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run a coroutine on the loop and wait for it. Raises TimeoutError, and what it raises."""
        future = self.begin(work)
        try:
            return future.result(timeout_s)
        except BaseException:
            # Also at Ctrl-C: nobody waits for it any more.
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what still runs, close the loop and end the thread. Raises TimeoutError."""
        if not self.has_begun or not self._thread.is_alive():
            return
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ENDS_WITHIN_S)
        if self._thread.is_alive():
            raise TimeoutError(f"The thread has not ended after {ENDS_WITHIN_S:.0f} s.")
