"""Work in steps: a generator works for a few milliseconds, then pauses with `yield`, so that other
work can run. Its return value is the result.

Code without I/O is written like this if the data of one caller may keep it busy for long; it does
not depend on an event loop. The caller runs it without pauses (`finished`), or lets other tasks run
at each pause (`clients/turns.py`).
"""

from collections.abc import Generator
from typing import TypeVar, cast

T = TypeVar("T")


def finished(steps: Generator[None, None, T]) -> T:
    """Run all steps without a pause; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)
