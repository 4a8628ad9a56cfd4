"""Work in steps: a generator works for a few milliseconds, then pauses with `yield`, so that other
work can run. Its return value is the result.

Code without I/O is written like this if the data of one caller may keep it busy for long; it does
not depend on an event loop. The caller runs it without pauses (`finished`), or lets other tasks run
at each pause (`clients/runtime/turns.py`).
"""

from collections.abc import Generator, Sequence
from heapq import merge
from typing import TypeVar, cast

T = TypeVar("T")

_SORTED_A_STEP = 256
_MERGED_A_STEP = 64


def finished(steps: Generator[None, None, T]) -> T:
    """Run all steps without a pause; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)


def sorted_steps(texts: Sequence[str]) -> Generator[None, None, list[str]]:
    """The same as `sorted(texts)`, in steps of a tenth of a millisecond."""
    if len(texts) <= _SORTED_A_STEP:
        return sorted(texts)
    runs: list[list[str]] = []
    for begin in range(0, len(texts), _SORTED_A_STEP):
        runs.append(sorted(texts[begin : begin + _SORTED_A_STEP]))
        yield
    in_order: list[str] = []
    for count, text in enumerate(merge(*runs), 1):
        in_order.append(text)
        if not count % _MERGED_A_STEP:
            yield
    return in_order
