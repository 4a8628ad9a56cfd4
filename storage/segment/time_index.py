"""Maps a timestamp to the first offset that may have a timestamp at least as large.

Each entry is a timestamp (eight bytes) and a relative offset (four bytes): no record up to and
including that offset has a larger timestamp. From one entry to the next, neither decreases. The
last slot is reserved for the entry added when the segment is closed (Kafka's `TimeIndex`).
"""

from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import ClassVar, NamedTuple

from ...clients.record.layout import TIME_INDEX_ENTRY
from .index import CorruptIndexError, Index


class TimestampAndOffset(NamedTuple):
    """The result of a ListOffsets query; -1 for a field without a value."""

    timestamp: int
    offset: int
    leader_epoch: int

    def is_better_maximum(self, other: "TimestampAndOffset") -> bool:
        """Whether this is the better MAX_TIMESTAMP result: a larger timestamp or lower offset."""
        return (self.timestamp, -self.offset) > (other.timestamp, -other.offset)


NO_TIMESTAMP = -1
_TIMESTAMP = Struct(">q4x")
_RELATIVE_OFFSET = Struct(">8xi")


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds and its offset."""

    timestamp: int
    offset: int


class TimeIndex(Index):
    """The `.timeindex` file of one segment."""

    entry: ClassVar[Struct] = TIME_INDEX_ENTRY

    @property
    def room(self) -> int:
        return super().room - 1

    def _entries_changed(self) -> None:
        self._last = (
            self._entry(self.entries - 1)
            if self.entries
            else TimestampOffset(NO_TIMESTAMP, self.base_offset)
        )

    def _entry(self, slot: int) -> TimestampOffset:
        timestamp, relative = self.entry.unpack_from(self._buffer(), slot * 12)
        return TimestampOffset(timestamp, self.base_offset + relative)

    @property
    def last(self) -> TimestampOffset:
        """The last entry, which has the largest timestamp; (-1, base offset) if there is none."""
        self._load()
        return self._last

    def maybe_append(self, timestamp: int, offset: int, *, may_fill: bool = False) -> None:
        """Add an entry if its timestamp is larger than the last entry's.

        `may_fill` allows the use of the slot that is reserved for closing the segment.
        """
        if not self._is_loaded:
            self._load()
        assert self.entries == 0 or offset >= self._last.offset, "Index offsets must grow."
        if timestamp <= self._last.timestamp or self.entries >= self.max_entries:
            return
        assert may_fill or self.entries < self.max_entries - 1, (
            f"Appended to the full index {self.path}."
        )
        self._append(self.entry.pack(timestamp, offset - self.base_offset))
        self._last = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below `timestamp`; (-1, base offset) if there is none."""
        last = self.last
        if timestamp >= last.timestamp:
            return last
        slot = bisect_right(self._places(), (timestamp,), key=self._column(_TIMESTAMP)) - 1
        return self._entry(slot) if slot >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def next_above(self, entry: TimestampOffset) -> TimestampOffset | None:
        """The entry that follows `entry`, which `lookup` returned; None if there is none."""
        self._load()
        slot = bisect_right(self._places(), (entry.timestamp,), key=self._column(_TIMESTAMP))
        return self._entry(slot) if slot < self.entries else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._load()
        if not self.entries:
            return
        key = (offset - self.base_offset,)
        self._truncate_to_entries(
            bisect_left(self._places(), key, key=self._column(_RELATIVE_OFFSET))
        )

    def sanity_check(self) -> None:
        """Raises CorruptIndexError unless the size and the first and last entry are valid."""
        self._check_size()
        if self.entries and self._last.timestamp < self._entry(0).timestamp:
            raise CorruptIndexError(f"Index {self.path} ends with a smaller timestamp.")
        if self.entries and self._last.offset < self.base_offset:
            raise CorruptIndexError(f"Index {self.path} ends below its base offset.")
        first = self._entry(0) if self.entries else self._last
        if self.entries > 1 and not (first[0] < self._last[0] and first[1] <= self._last[1]):
            raise CorruptIndexError(f"Index {self.path} has entries out of order.")
        if self.entries > 1 and self._last.timestamp == 0 == self._last.offset - self.base_offset:
            raise CorruptIndexError(
                f"Index {self.path} ends with empty entries: it was not closed cleanly."
            )

    def check_order(self) -> None:
        """Like `OffsetIndex.check_order`."""
        for before, after in pairwise(self.all_entries()):
            if after.timestamp <= before.timestamp or after.offset < before.offset:
                raise CorruptIndexError(f"Index {self.path} has entries out of order.")

    def all_entries(self) -> list[TimestampOffset]:
        """Every entry, for copying and checking; O(n) in the size of the index."""
        self._load()
        return [self._entry(slot) for slot in range(self.entries)]
