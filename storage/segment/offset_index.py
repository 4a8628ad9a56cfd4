"""Maps an offset to the position in the segment's file from which to search for the offset.

Each entry is an offset (relative to the base offset) and a position, four bytes each, big-endian.
The index is sparse, with one entry per `index.interval.bytes` of log: a lookup returns the position
of the last indexed batch at or below the offset, and batch headers are scanned from there
(Kafka's `OffsetIndex`).
"""

from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import ClassVar, NamedTuple

from ...clients.record.layout import OFFSET_INDEX_ENTRY
from .index import CorruptIndexError, Index

_INT32_MAX = 2**31 - 1
_RELATIVE_OFFSET = Struct(">i4x")
_POSITION = Struct(">4xi")


class OffsetPosition(NamedTuple):
    """An offset and the position of the batch that contains it."""

    offset: int
    position: int


class OffsetIndex(Index):
    """The `.index` file of one segment."""

    entry: ClassVar[Struct] = OFFSET_INDEX_ENTRY

    def _entries_changed(self) -> None:
        self._last_offset = self._entry(self.entries - 1).offset if self.entries else -1

    def _entry(self, slot: int) -> OffsetPosition:
        relative, position = self.entry.unpack_from(self._buffer(), slot * 8)
        return OffsetPosition(self.base_offset + relative, position)

    @property
    def last(self) -> OffsetPosition | None:
        self._load()
        return self._entry(self.entries - 1) if self.entries else None

    @property
    def last_offset(self) -> int:
        """Offset of the last entry; the base offset when there is none."""
        last = self.last
        return self.base_offset if last is None else last.offset

    def can_hold(self, offset: int) -> bool:
        """Whether the offset, stored relative to the base offset, fits into an entry."""
        return 0 <= offset - self.base_offset <= _INT32_MAX

    def append(self, offset: int, position: int) -> None:
        """Add an entry. Offsets must grow and the index must not be full."""
        if not self._is_loaded:
            self._load()
        relative = offset - self.base_offset
        assert offset > self._last_offset, "Index offsets must grow."
        assert 0 <= relative <= _INT32_MAX
        self._append(self.entry.pack(relative, position))
        self._last_offset = offset

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below `offset`; the start of the segment if there is none."""
        last = self.last
        if last is not None and offset >= last.offset:
            return last
        slot = self._slot_above(offset) - 1
        return self._entry(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def entry_at_or_after(self, position: int) -> OffsetPosition | None:
        """The first entry at or after `position`; its offset is above all those before `position`.

        None if there is no such entry; the segment's end offset is then the bound.
        """
        self._load()
        if not self.entries:
            return None
        slot = bisect_left(self._places(), (position,), key=self._column(_POSITION))
        return self._entry(slot) if slot < self.entries else None

    def entry_at_or_before(self, position: int) -> OffsetPosition:
        """The last indexed batch that starts at or before `position`, or the segment's start."""
        self._load()
        if not self.entries:
            return OffsetPosition(self.base_offset, 0)
        slot = bisect_right(self._places(), (position,), key=self._column(_POSITION))
        return self._entry(slot - 1) if slot else OffsetPosition(self.base_offset, 0)

    def _slot_above(self, offset: int) -> int:
        """The first slot whose offset is greater than `offset`."""
        if not self.entries:
            return 0
        key = (offset - self.base_offset,)
        return bisect_right(self._places(), key, key=self._column(_RELATIVE_OFFSET))

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._load()
        self._truncate_to_entries(self._slot_above(offset - 1))

    def sanity_check(self) -> None:
        """Raises CorruptIndexError unless the size and the first and last entry are valid."""
        self._check_size()
        if self.entries and self.last_offset < self.base_offset:
            raise CorruptIndexError(f"Index {self.path} ends below its base offset.")
        if self.entries > 1 and self._entry(self.entries - 1).offset == self.base_offset:
            raise CorruptIndexError(
                f"Index {self.path} ends with empty entries: it was not closed cleanly."
            )
        if self.entries and (self._entry(0) < (self.base_offset, 0) or self._is_shrinking()):
            raise CorruptIndexError(f"Index {self.path} has entries out of order.")

    def _is_shrinking(self) -> bool:
        (first_offset, first), (last_offset, last) = self._entry(0), self._entry(self.entries - 1)
        return self.entries > 1 and (last_offset <= first_offset or last <= first)

    def check_order(self) -> None:
        """Raises CorruptIndexError unless each entry is above the one before it.

        Only for an index that will grow; entries of other indexes are checked when they are used.
        """
        entries = self.all_entries()
        for before, after in pairwise(entries):
            if after.offset <= before.offset or after.position <= before.position:
                raise CorruptIndexError(f"Index {self.path} has entries out of order.")

    def all_entries(self) -> list[OffsetPosition]:
        """Every entry, for copying and checking; O(n) in the size of the index."""
        self._load()
        return [self._entry(slot) for slot in range(self.entries)]
