"""A fault that a test has set, and the bell that rings when something has met one."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

WAITS_S = 30.0
"""How long `Fault.wait` waits unless another time is given."""


class Fault:
    """A fault that holds until it ends: by `end()`, or where a `with` block ends.

    Its methods may be called from any thread.
    """

    def __init__(
        self,
        sentence: str,
        met: Callable[[], int],
        end: Callable[[], None],
        bell: threading.Condition,
    ) -> None:
        self._sentence = sentence
        self._met = met
        self._end = end
        self._bell = bell

    def __repr__(self) -> str:
        return f"<Fault: {self._sentence}, met {self.count} times>"

    @property
    def count(self) -> int:
        """How many requests, or operations of the tier, have met it."""
        return self._met()

    def wait(self, times: int = 1, timeout_s: float = WAITS_S) -> None:
        """Wait until it was met that often. Raises TimeoutError.

        It blocks: in a coroutine, `await asyncio.to_thread(fault.wait)`.
        """
        with self._bell:
            if not self._bell.wait_for(lambda: self._met() >= times, timeout_s):
                raise TimeoutError(
                    f"After {timeout_s:g} s it was met {self._met()} times, not {times}: "
                    f"{self._sentence}."
                )

    def end(self) -> None:
        """End it: nothing meets it any more. Idempotent."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
