"""Lists in responses whose elements are made one by one, while they are encoded.

The response to a request with thousands of names takes long to make, and is many times larger in
memory than on the wire. With a lazy list it is made, encoded and freed element by element, and
other requests get their turn in between (`large_requests.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")

_MADE_AT_ONCE_MAX = 100


class LazyList(list[T], Generic[S, T]):
    """The results of `make` for `sources`, each made during iteration."""

    def __init__(self, make: Callable[[S], T], sources: Sequence[S]) -> None:
        super().__init__()
        self._make = make
        self._sources = sources

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._sources)


def lazy_list(make: Callable[[S], T], sources: Sequence[S]) -> list[T]:
    """The results of `make` for `sources`: made at once if few, else while they are encoded."""
    if len(sources) <= _MADE_AT_ONCE_MAX:
        return [make(source) for source in sources]
    return LazyList(make, sources)
