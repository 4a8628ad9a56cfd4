"""One segment: a file of record batches, its two indexes and its aborted transactions.

The segment ends at its `size`: bytes beyond it (from a partial write or a crash) are not part of
the log. `size` grows only after the write, so a reader never gets bytes that are not written yet.

An active segment of a few kilobytes has no index files: reading its batches is as fast, and
stopping a broker with thousands of partitions need not create two files for each
(`needs_no_index`).

To find a batch, a position is looked up in the offset index, and batch headers are read from there.
Two kinds of reader need no search: one at the end of the last append, and one that continues where
its last read ended. A small cache of batch starts has both positions (Kafka's `LogSegment`).
"""

import logging
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import RecordBatch
from ...clients.record.layout import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    OFFSET_LENGTH_AND_DELTA,
    OFFSET_LENGTH_MAGIC_AND_DELTA,
)
from ..config import LogConfig
from ..files import FileRegion, Files, ReadableBuffer
from ..log_file import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_path,
)
from .index import CorruptIndexError, MissingIndexError
from .offset_index import OffsetIndex, OffsetPosition
from .time_index import NO_TIMESTAMP, TimeIndex, TimestampAndOffset, TimestampOffset
from .transaction_index import AbortedTxn, TransactionIndex

_log = logging.getLogger(__name__)

_POSITIONS_KEPT = 64
_READ_WITHOUT_INDEX = 16_384
"""Reading this many bytes of a segment takes as long as opening two index files."""
_SCAN_BYTES = 1 << 20
_RECORDS_PER_STEP = 2_048
"""Records decoded between two pauses of a timestamp search."""
_MAGIC = 2


class BatchPosition(NamedTuple):
    """The position of a batch in its segment's file, and the offsets that it covers."""

    base_offset: int
    next_offset: int
    position: int
    size: int

    @property
    def end_position(self) -> int:
        return self.position + self.size


class LogSegment:
    """The files of the segment that starts at `base_offset`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        config: LogConfig,
        created_ms: int,
        suffix: str = "",
    ) -> None:
        self._files = files
        self.base_offset = base_offset
        self.path = file_path(directory, base_offset, LOG_SUFFIX + suffix)
        self._handle = files.open(self.path, create=True)
        self.size = self._handle.size()
        """Bytes of whole batches. Bytes after them in the file are not part of the log."""
        index_size = config.segment_index_bytes
        self.offset_index = OffsetIndex(
            files, file_path(directory, base_offset, INDEX_SUFFIX + suffix), base_offset, index_size
        )
        self.time_index = TimeIndex(
            files,
            file_path(directory, base_offset, TIME_INDEX_SUFFIX + suffix),
            base_offset,
            index_size,
        )
        self.txn_index = TransactionIndex(
            files, file_path(directory, base_offset, TXN_INDEX_SUFFIX + suffix), base_offset
        )
        self._index_interval_bytes = config.index_interval_bytes
        self.created_ms = created_ms
        self.is_deleted = False
        self._bytes_since_index_entry = 0
        self._max_timestamp: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._positions: dict[int, int] = {}
        self.index_room = 0
        """A lower bound of the entries that fit into both indexes; `has_full_index` updates it."""

    def __repr__(self) -> str:
        return f"LogSegment({self.path}, size={self.size})"

    def append(self, buffer: ReadableBuffer, batches: list[RecordBatch]) -> None:
        """Append the batches, which are in `buffer`; after OSError the segment is unchanged."""
        position = self.size
        self._handle.write_at(position, buffer)
        for batch in batches:
            self._index(batch, position)
            position += batch.size_in_bytes
        assert position == self.size + len(buffer)
        if self.size == 0 and self._first_timestamp is None:
            self._first_timestamp = batches[0].max_timestamp
        self.size = position
        self._remember(batches[-1].last_offset + 1, position)

    def _index(self, batch: RecordBatch, position: int) -> None:
        maximum = self._max_timestamp or self.max_timestamp_so_far
        if batch.max_timestamp > maximum.timestamp:
            maximum = TimestampOffset(batch.max_timestamp, batch.last_offset)
            self._max_timestamp = maximum
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._add_index_entries(batch.last_offset, position, maximum)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += batch.size_in_bytes

    def _add_index_entries(self, offset: int, position: int, youngest: TimestampOffset) -> None:
        # One append may have more batches than fit into the index, and a rebuilt index may have
        # less room than before: the index then ends early, and searches take longer.
        if not self.has_full_index():
            self.index_room -= 1
            self.offset_index.append(offset, position)
            self.time_index.maybe_append(youngest.timestamp, youngest.offset)

    def has_full_index(self) -> bool:
        """Whether the segment must be closed because one of its indexes is full."""
        if self.index_room <= 0:
            self.index_room = min(self.offset_index.room, self.time_index.room)
        return self.index_room <= 0

    def _remember(self, offset: int, position: int) -> None:
        positions = self._positions
        if len(positions) >= _POSITIONS_KEPT and offset not in positions:
            del positions[next(iter(positions))]
        positions[offset] = position

    @property
    def max_timestamp_so_far(self) -> TimestampOffset:
        """The largest timestamp and its batch's last offset; (-1, base offset) if there is none."""
        maximum = self._max_timestamp
        if maximum is None:
            maximum = self._max_timestamp = self.time_index.last
        return maximum

    @property
    def largest_timestamp(self) -> int:
        """The largest record timestamp, or the file's modification time if no record has one."""
        timestamp = self.max_timestamp_so_far.timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        return self._files.modified_ms(self.path)

    def first_batch_timestamp(self) -> int | None:
        """The largest timestamp of the first batch; the segment's age is measured from it."""
        if self._first_timestamp is None and self.size > 0:
            first = next(iter(self.batches()), None)
            self._first_timestamp = NO_TIMESTAMP if first is None else first.max_timestamp
        timestamp = self._first_timestamp
        return timestamp if timestamp is not None and timestamp >= 0 else None

    def locate(self, offset: int) -> BatchPosition | None:
        """Find the first batch that ends at or above `offset`; None if the segment ends before."""
        offset = max(offset, self.base_offset)
        position = self._positions.get(offset)
        if position is None:
            position = self._find_indexed(self.offset_index.lookup, offset).position
        for header in self._headers(position):
            if header.next_offset > offset:
                return header
        return None

    def _find_indexed(self, look_up: Callable[[int], OffsetPosition], key: int) -> OffsetPosition:
        """Look up an offset index entry; if it points to no batch, rebuild the index and retry."""
        entry = look_up(key)
        if entry.position == 0 or self._begins_batch(entry):
            return entry
        self.rebuild_indexes(f"{self.offset_index.path} names position {entry.position}")
        return look_up(key)

    def _begins_batch(self, entry: OffsetPosition) -> bool:
        """Whether a batch with a base offset up to the entry's offset begins at its position."""
        position = entry.position
        if not 0 <= position <= self.size - BATCH_OVERHEAD:
            return False
        content = self._handle.pread(position, OFFSET_LENGTH_MAGIC_AND_DELTA.size)
        if len(content) < OFFSET_LENGTH_MAGIC_AND_DELTA.size:
            raise _cut_short(position)
        header: tuple[int, int, int, int] = OFFSET_LENGTH_MAGIC_AND_DELTA.unpack(content)
        base_offset, length, magic, delta = header
        return (
            magic == _MAGIC
            and self.base_offset <= base_offset <= entry.offset
            and delta >= 0
            and BATCH_OVERHEAD <= LOG_OVERHEAD + length <= self.size - position
        )

    def known_start(self, offset: int) -> int | None:
        """The position of the batch at `offset`, if a recent append or read cached it."""
        return self._positions.get(offset)

    def position_of(self, offset: int) -> int:
        """The position of the first batch that ends at or above `offset`; `size` if none does."""
        position = self._positions.get(offset)
        if position is not None:
            return position
        location = self.locate(offset)
        if location is None:
            return self.size
        if location.base_offset >= offset:
            self._remember(offset, location.position)
        return location.position

    def end_within(self, start: BatchPosition, limit: int) -> int:
        """The end of the last whole batch from `start` on that ends at or before `limit`.

        At least the end of `start` itself. The next read will begin at this position.
        """
        if limit >= self.size:
            return self.size
        return self._last_end(max(start.end_position, self.batch_start_before(limit)), limit)

    def end_past(self, start: int, limit: int) -> int | None:
        """Like `end_within`, for a batch at the position `start`, without reading its header.

        None if the index does not show that the batch ends at or before `limit`.
        """
        position = self.batch_start_before(limit)
        return self._last_end(position, limit) if position > start else None

    def _last_end(self, position: int, limit: int) -> int:
        """The end of the last batch that ends at or before `limit`, walking from `position`."""
        for header in self._headers(position):
            if header.end_position > limit:
                self._remember(header.base_offset, header.position)
                return header.position
        return position

    def batch_start_before(self, limit: int) -> int:
        """The position of the last indexed batch that begins at or before `limit`."""
        return self._find_indexed(self.offset_index.entry_at_or_before, limit).position

    def _headers(self, position: int) -> Iterator[BatchPosition]:
        """Walk the batches from `position`, reading only their headers."""
        pread, size = self._handle.pread, self.size
        while position + BATCH_OVERHEAD <= size:
            header = pread(position, OFFSET_LENGTH_AND_DELTA.size)
            if len(header) < OFFSET_LENGTH_AND_DELTA.size:
                raise _cut_short(position)
            base_offset, length, delta = OFFSET_LENGTH_AND_DELTA.unpack(header)
            batch_size = LOG_OVERHEAD + length
            if batch_size < BATCH_OVERHEAD or position + batch_size > size or delta < 0:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{self.path} is damaged at position {position}.",
                )
            yield BatchPosition(base_offset, base_offset + delta + 1, position, batch_size)
            position += batch_size

    def region(self, position: int, size: int) -> FileRegion:
        """A range of the file to send; it stays readable when the segment is deleted."""
        assert position + size <= self.size
        return self._handle.region(position, size)

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[RecordBatch]:
        """The batches from `position` on, read in large chunks; a torn last batch is omitted.

        Raises KafkaError(CORRUPT_MESSAGE) for bytes that cannot be a batch; does not check CRCs.
        """
        for _, batch in self.positioned_batches(position, end):
            yield batch

    def positioned_batches(
        self, position: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, RecordBatch]]:
        """Like `batches`, with the position of each batch."""
        end = self.size if end is None else min(end, self.size)
        return _positioned_batches(self._handle.pread, position, end)

    def pin(self) -> "PinnedSegment":
        """Keep the present batches readable, in any thread, even after the segment is deleted."""
        return PinnedSegment(self.base_offset, self.path, self._handle.region(0, self.size))

    def find_timestamp(
        self, timestamp: int, starting_offset: int
    ) -> Generator[None, None, TimestampAndOffset | None]:
        """Find the first record at or after `starting_offset` with at least this timestamp.

        Pauses in batches of many records; the segment may be deleted during a pause.
        """
        indexed = self._indexed_time(timestamp)
        begin = max(starting_offset, indexed.offset)
        position = self._find_indexed(self.offset_index.lookup, begin).position
        for batch in self.pin().batches(position):
            if batch.max_timestamp < timestamp or batch.last_offset < starting_offset:
                continue
            records = yield from batch.record_steps()
            for number, record in enumerate(records, 1):
                if not number % _RECORDS_PER_STEP:
                    yield
                if record.timestamp >= timestamp and record.offset >= starting_offset:
                    epoch = batch.partition_leader_epoch
                    return TimestampAndOffset(record.timestamp, record.offset, epoch)
        return None

    def find_youngest(
        self, starting_offset: int
    ) -> Generator[None, None, TimestampAndOffset | None]:
        """Find the first record with the largest timestamp at or after `starting_offset`.

        Pauses like `find_timestamp`. Reads every batch: the time index only has the largest
        timestamp of the whole segment.
        """
        best: TimestampAndOffset | None = None
        position = self._find_indexed(self.offset_index.lookup, starting_offset).position
        for batch in self.pin().batches(position):
            if best is not None and batch.max_timestamp <= best.timestamp:
                continue
            records = yield from batch.record_steps()
            for number, record in enumerate(records, 1):
                if not number % _RECORDS_PER_STEP:
                    yield
                is_younger = best is None or record.timestamp > best.timestamp
                if is_younger and record.offset >= starting_offset:
                    epoch = batch.partition_leader_epoch
                    best = TimestampAndOffset(record.timestamp, record.offset, epoch)
        return best

    def _indexed_time(self, timestamp: int) -> TimestampOffset:
        """Look up a time index entry; if it is wrong, rebuild the index and look it up again."""
        entry = self.time_index.lookup(timestamp)
        following = self.time_index.next_above(entry) if self.time_index.entries else None
        is_in_order = following is None or following.offset >= entry.offset
        if is_in_order and self._is_true(entry):
            return entry
        self.rebuild_indexes(f"{self.time_index.path} has a wrong entry for offset {entry.offset}")
        return self.time_index.lookup(timestamp)

    def _is_true(self, entry: TimestampOffset) -> bool:
        """Whether the batch at the entry's offset has the entry's timestamp as its largest."""
        if entry.timestamp == NO_TIMESTAMP:
            return True
        location = self.locate(entry.offset)
        if location is None or location.base_offset > entry.offset:
            return False
        batch = next(self.batches(location.position, location.end_position), None)
        return batch is not None and batch.max_timestamp == entry.timestamp

    def upper_bound_offset(self, end_position: int) -> int | None:
        """An upper bound for the offsets of a read that ended at `end_position`."""
        entry = self.offset_index.entry_at_or_after(end_position)
        if entry is not None and not self._begins_batch(entry):
            self.rebuild_indexes(f"{self.offset_index.path} names position {entry.position}")
            entry = self.offset_index.entry_at_or_after(end_position)
        return None if entry is None else entry.offset

    def next_offset(self) -> int:
        """One past the last offset in the segment; its base offset when it is empty."""
        last = self.base_offset
        for header in self._headers(self._find_indexed(self.offset_index.lookup, 2**62).position):
            last = header.next_offset
        return last

    def check_end(self, limit: int) -> None:
        """Raises CorruptIndexError unless the file ends with a whole batch, below `limit`.

        Only batches from the last index entry on are read.
        """
        last, end = self.base_offset, 0
        for header in self._headers(self._find_indexed(self.offset_index.lookup, 2**62).position):
            last, end = header.next_offset, header.end_position
        if end != self.size or last > limit:
            raise CorruptIndexError(f"{self.path} does not end with a valid batch")

    @property
    def needs_no_index(self) -> bool:
        """Whether the segment has no index files and is small enough to be read whole instead.

        Only for the active segment: closing a segment creates its indexes.
        """
        is_small = 0 < self.size <= _READ_WITHOUT_INDEX
        return is_small and not (self.offset_index.file_exists or self.time_index.file_exists)

    def sanity_check(self, *, is_active: bool = False) -> None:
        """Raises CorruptIndexError if an index is missing or inconsistent."""
        if is_active and self.needs_no_index:
            self._read_instead_of_index()
        elif self.size > 0 and not (self.offset_index.file_exists and self.time_index.file_exists):
            raise MissingIndexError(f"The segment {self.path} lacks an index.")
        self.offset_index.sanity_check()
        self.time_index.sanity_check()
        self.txn_index.sanity_check()
        if is_active:
            self.offset_index.check_order()
            self.time_index.check_order()
        last = self.offset_index.last
        if last is not None and not self._begins_batch(last):
            raise CorruptIndexError(f"{self.offset_index.path} points to no record batch.")
        if self.size == 0 and self.time_index.entries:
            raise CorruptIndexError(
                f"The time index of {self.path} has entries, but the segment is empty."
            )
        self._check_times()
        for txn in self.txn_index:
            if not self._holds_transaction(txn):
                raise CorruptIndexError(f"{self.txn_index.path} has a wrong entry.")

    def _check_times(self) -> None:
        """Check the last time index entry, which retention relies on."""
        entry = self.max_timestamp_so_far
        if entry.timestamp == NO_TIMESTAMP:
            is_true = self.size == 0 or self._starts_without_time()
        else:
            is_true = self._is_true(entry)
        if not is_true:
            raise CorruptIndexError(f"{self.time_index.path} lacks the largest timestamp.")

    def _starts_without_time(self) -> bool:
        first = next(self.batches(), None)
        return first is None or first.max_timestamp == NO_TIMESTAMP

    def _holds_transaction(self, txn: AbortedTxn) -> bool:
        """Whether no batch in the segment contradicts an aborted transaction.

        Compaction may have removed the transaction's batches. A first offset in an earlier segment
        is not checked.
        """
        for offset, is_control in ((txn.first_offset, False), (txn.last_offset, True)):
            location = self.locate(offset) if offset >= self.base_offset else None
            if location is None or location.base_offset > offset:
                continue
            batch = next(self.batches(location.position, location.end_position))
            is_its = batch.producer_id == txn.producer_id and batch.is_transactional
            if location.base_offset != offset or not is_its or batch.is_control != is_control:
                return False
        return True

    def rebuild_indexes(self, reason: str) -> None:
        """Rebuild the offset and time indexes of a closed segment, because one is damaged."""
        _log.warning(
            "Found a corrupted index file corresponding to log file %s due to %s, rebuilding "
            "index files.",
            self.path,
            reason,
        )
        self._forget_times_and_positions()
        expected = self.base_offset
        for position, batch in self.positioned_batches():
            # Indexing stops at a batch whose header is damaged in the bytes outside the CRC.
            is_in_order = batch.base_offset >= expected and batch.last_offset_delta >= 0
            if not is_in_order or not self.offset_index.can_hold(batch.last_offset):
                break
            expected = batch.next_offset
            self._index(batch, position)
        self.become_inactive()
        self.flush_indexes()

    def _read_instead_of_index(self) -> None:
        """Compute the largest timestamp from the batches, without a time index.

        Raises CorruptIndexError if there may have been index files that were deleted: the list of
        aborted transactions would then be lost too.
        """
        try:
            if any(batch.is_control for batch in self.batches()):
                raise MissingIndexError(f"The segment {self.path} lacks an index.")
            nothing = TimestampOffset(NO_TIMESTAMP, self.base_offset)
            self._max_timestamp = self._youngest_from(nothing, 0)
        except KafkaError as error:
            raise CorruptIndexError(f"The segment {self.path} is damaged.") from error

    def begin_rebuild(self) -> None:
        """Reset all indexes; the caller then passes every batch to `rebuild_with`."""
        self.txn_index.reset()
        self._forget_times_and_positions()

    def _forget_times_and_positions(self) -> None:
        self.offset_index.reset()
        self.time_index.reset()
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._first_timestamp = None
        self._bytes_since_index_entry = 0
        self._positions.clear()
        self.index_room = 0

    def rebuild_with(self, batch: RecordBatch, position: int) -> None:
        """Index the batch at `position`."""
        self._index(batch, position)

    def put_base_offset_right(
        self, batch: RecordBatch, position: int, base_offset: int
    ) -> RecordBatch:
        """Durably correct the base offset of the batch at `position`; returns the new batch."""
        right = RecordBatch(memoryview(bytearray(batch.view)))
        right.assign(base_offset, batch.partition_leader_epoch)
        self._handle.write_at(position, right.view[:LOG_OVERHEAD])
        self._handle.flush()
        return right

    def end_rebuild(self, valid_bytes: int, *, is_active: bool) -> int:
        """Truncate after the valid batches and complete the indexes; returns the bytes cut."""
        cut = self._handle.size() - valid_bytes
        if cut > 0:
            self._handle.truncate(valid_bytes)
        self.size = valid_bytes
        if not (is_active and self.needs_no_index):
            self.become_inactive()
        return cut

    def truncate_to(self, offset: int) -> int:
        """Drop the batches that end at or above `offset`; returns the number of bytes dropped."""
        location = self.locate(offset)
        self._positions.clear()
        if location is None:
            return 0
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        dropped = self.size - location.position
        self.size = location.position
        self._handle.truncate(location.position)
        self._bytes_since_index_entry = 0
        self._max_timestamp = self._max_timestamp_after_truncation()
        if self.size == 0:
            self._first_timestamp = None
        return dropped

    def _max_timestamp_after_truncation(self) -> TimestampOffset:
        """The largest timestamp, from the last time index entry and the batches after it."""
        last_entry = self.time_index.last
        return self._youngest_from(
            last_entry, self._find_indexed(self.offset_index.lookup, last_entry.offset)[1]
        )

    def _youngest_from(self, youngest: TimestampOffset, position: int) -> TimestampOffset:
        """The largest timestamp among `youngest` and the batches from `position` on."""
        for batch in self.batches(position):
            if batch.max_timestamp > youngest.timestamp:
                youngest = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return youngest

    def _close_time_index(self) -> None:
        maximum = self.max_timestamp_so_far
        if maximum.timestamp >= 0:
            self.time_index.maybe_append(maximum.timestamp, maximum.offset, may_fill=True)

    @property
    def needs_closing(self) -> bool:
        """Whether an index file is still preallocated for more entries, or does not exist yet."""
        if self.offset_index.is_writable or self.time_index.is_writable:
            return True
        return self.size > 0 and not self.time_index.file_exists and not self.needs_no_index

    def complete_indexes(self) -> None:
        """Complete the active segment's indexes before the broker stops, if it needs any."""
        if not self.needs_no_index:
            self.become_inactive()

    def become_inactive(self) -> None:
        """Complete and trim the indexes, because the segment is closed to appends."""
        self._close_time_index()
        self.offset_index.trim()
        self.time_index.trim()

    def make_appendable(self, config: LogConfig) -> None:
        """Make the segment the active one (again), with `config`: its indexes may grow."""
        self._index_interval_bytes = config.index_interval_bytes
        self.offset_index.resize(config.segment_index_bytes)
        self.time_index.resize(config.segment_index_bytes)
        self.index_room = 0
        # Reset as in Kafka, even if the indexes were just rebuilt.
        self._bytes_since_index_entry = 0

    def flush_log(self) -> None:
        """fsync the batches and the transaction index, which could be rebuilt only from them."""
        self._handle.flush()
        self.txn_index.flush()

    def flush_indexes(self) -> None:
        """fsync the indexes of a closed segment: below the recovery point, recovery trusts them."""
        self.offset_index.flush()
        self.time_index.flush()

    def release(self) -> None:
        """Close all files as they are."""
        self._handle.close()
        self.offset_index.close()
        self.time_index.close()
        self.txn_index.close()

    def change_suffix(self, old: str, new: str) -> None:
        """Rename all files of a closed segment, the log first: startup goes by the log's name.

        After OSError, a second call renames the files that still end in `old`.
        """
        if self.path.endswith(old):
            self._rename_log(self.path.removesuffix(old) + new)
        for index in (self.offset_index, self.time_index, self.txn_index):
            if index.path.endswith(old):
                # A mapping reopens its file by the old name. The next use maps the file again.
                index.close()
                index.rename(index.path.removesuffix(old) + new)

    def rename_to_deleted(self) -> None:
        """Give all files the `.deleted` suffix, so that a restart does not load them.

        May be called again after OSError.
        """
        self.is_deleted = True
        if not self.path.endswith(DELETED_SUFFIX):
            self._rename_log(self.path + DELETED_SUFFIX)
        for index in (self.offset_index, self.time_index, self.txn_index):
            if not index.path.endswith(DELETED_SUFFIX):
                index.rename(index.path + DELETED_SUFFIX)

    def _rename_log(self, path: str) -> None:
        self._files.rename(self.path, path)
        self.path = path
        self._handle.renamed(path)

    def delete(self) -> None:
        """Remove all files; regions that are being sent stay readable."""
        self._handle.close()
        self._files.remove(self.path)
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.delete()


class PinnedSegment(NamedTuple):
    """The batches of a segment, which stay readable even after the segment is deleted."""

    base_offset: int
    path: str
    region: FileRegion

    def batches(self, position: int = 0) -> Iterator[RecordBatch]:
        """Like `LogSegment.batches`."""
        for _, batch in _positioned_batches(self._pread, position, self.region.nbytes):
            yield batch

    def _pread(self, position: int, size: int) -> bytes:
        return self.region.slice(position, size).read()


def _positioned_batches(
    pread: Callable[[int, int], bytes], position: int, end: int
) -> Iterator[tuple[int, RecordBatch]]:
    while end - position >= BATCH_OVERHEAD:
        header = pread(position, OFFSET_LENGTH_AND_DELTA.size)
        if len(header) < OFFSET_LENGTH_AND_DELTA.size:
            raise _cut_short(position)
        length = OFFSET_LENGTH_AND_DELTA.unpack(header)[1]
        read_size = max(_SCAN_BYTES, LOG_OVERHEAD + max(length, 0))
        if position + LOG_OVERHEAD + length > end:
            return
        piece = memoryview(pread(position, min(read_size, end - position)))
        consumed = 0
        while len(piece) - consumed >= BATCH_OVERHEAD:
            length = OFFSET_LENGTH_AND_DELTA.unpack_from(piece, consumed)[1]
            if length + LOG_OVERHEAD > len(piece) - consumed:
                break
            batch = RecordBatch(piece, consumed)
            yield position + consumed, batch
            consumed += batch.size_in_bytes
        if not consumed:
            raise _cut_short(position)
        position += consumed


def _cut_short(position: int) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"The segment file ends after position {position}, in the middle of a batch: another "
        "process has truncated it.",
    )
