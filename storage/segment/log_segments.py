"""The segments of one log in order of their base offsets (Kafka's `LogSegments`)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from .log_segment import LogSegment
from .transaction_index import AbortedTxn


class LogSegments:
    """A sorted collection of segments with unique base offsets and O(log n) lookups."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._by_base: dict[int, LogSegment] = {}
        self.last: LogSegment
        """The active segment, the only one to append to. Unset if the collection is empty."""
        self._last_aborted: int | None = None

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[LogSegment]:
        """Iterate from the oldest segment; the collection may change during the iteration."""
        return iter([self._by_base[base] for base in self._bases])

    @property
    def base_offsets(self) -> list[int]:
        return list(self._bases)

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._by_base.values())

    def add(self, segment: LogSegment) -> None:
        base = segment.base_offset
        assert base not in self._by_base, f"Two segments at {base}."
        self._by_base[base] = segment
        self._bases.insert(bisect_left(self._bases, base), base)
        self._last_aborted = None
        self.last = self._by_base[self._bases[-1]]

    def remove(self, segment: LogSegment) -> None:
        del self._by_base[segment.base_offset]
        del self._bases[bisect_left(self._bases, segment.base_offset)]
        self._last_aborted = None
        if self._bases:
            self.last = self._by_base[self._bases[-1]]

    @property
    def first(self) -> LogSegment:
        return self._by_base[self._bases[0]]

    def floor(self, offset: int) -> LogSegment | None:
        """The segment with the largest base offset at or below `offset`."""
        slot = bisect_right(self._bases, offset)
        return self._by_base[self._bases[slot - 1]] if slot else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """The segment that follows the one at `base_offset`."""
        slot = bisect_right(self._bases, base_offset)
        return self._by_base[self._bases[slot]] if slot < len(self._bases) else None

    def ends_later(self, offset: int, end: int) -> bool:
        """Whether records below `end` are in a later segment than `offset`.

        A read from `offset` returns what its segment has, and no more however long it waits.
        """
        following = self.higher(offset)
        return following is not None and following.base_offset < end

    def from_offset(self, offset: int) -> list[LogSegment]:
        """The segment that holds `offset` and all that follow."""
        slot = max(0, bisect_right(self._bases, offset) - 1)
        return [self._by_base[base] for base in self._bases[slot:]]

    def add_aborted(self, txn: AbortedTxn) -> None:
        """Index a transaction whose abort marker is in the active segment."""
        self.last.txn_index.append(txn)
        self._last_aborted = self.last.base_offset

    @property
    def last_aborted(self) -> int:
        """The base offset of the last segment with an aborted transaction; -1 if there is none.

        After a truncation it may be too high, never too low.
        """
        if self._last_aborted is None:
            self._last_aborted = max(
                (base for base, segment in self._by_base.items() if not segment.txn_index.is_empty),
                default=-1,
            )
        return self._last_aborted

    def starting_at_or_above(self, offset: int) -> list[LogSegment]:
        """The segments whose base offset is at or above `offset`."""
        return [self._by_base[base] for base in self._bases[bisect_left(self._bases, offset) :]]
