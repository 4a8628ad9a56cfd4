"""Lists of answers whose elements are made one by one, while they are encoded.

An answer to a request that names thousands of things takes long to make and is many times larger
in memory than on the wire. With lists of this kind it is made, encoded and let go element by
element, and others get their turn in between (`large_requests.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")

_MADE_AT_ONCE_MAX = 100


class LazyList(list[T], Generic[S, T]):
    """The elements that `make` gives for `sources`, each made when it is iterated over."""

    def __init__(self, make: Callable[[S], T], sources: Sequence[S]) -> None:
        super().__init__()
        self._make = make
        self._sources = sources

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._sources)


def made_in_turn(make: Callable[[S], T], sources: Sequence[S]) -> list[T]:
    """What `make` gives for each source: at once for few, while it is encoded for many."""
    if len(sources) <= _MADE_AT_ONCE_MAX:
        return [make(source) for source in sources]
    return LazyList(make, sources)
