"""Work that pauses: a generator does a few milliseconds of it, and says with `yield` that it could
be interrupted here. Its value is the work's result.

Cores are written so where one caller's data may cost long, and know nothing of a loop. A shell has
the work done at once, or lets others have their turn at each pause (`clients/turns.py`).
"""

from collections.abc import Generator
from typing import TypeVar, cast

T = TypeVar("T")


def finished(steps: Generator[None, None, T]) -> T:
    """The result, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)
