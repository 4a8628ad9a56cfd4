"""Looks for a timestamp in the tier (ListOffsets by time; Kafka's `findOffsetByTimestamp`).

A local log and the tier give the same answer: the first record, by offset, at or above the log
start offset whose timestamp is not below the one sought. A time index entry names the last offset
of the batch that holds its timestamp, so it says where to start reading, not which records match.

Only the part of each segment that belongs to this log's epoch history is searched, epoch by epoch:
a segment of a former leader may go beyond it. Segments whose largest timestamp is too small are
skipped by their metadata alone; segments that are still local are left to the local log
(KAFKA-17498).

The record with the largest timestamp (MAX_TIMESTAMP, KIP-734) is found from the metadata, too: only
the segment that holds it is read. Kafka looks at local segments alone, and so answers differently
once that record has left the disk (docs/decisions/007).
"""

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from ...clients.errors import KafkaError
from ...clients.offset_names import MAX_TIMESTAMP
from ...clients.record.batch import Record, RecordBatch, batches
from ...storage.log.fetch_data import RemoteTimestampLookup
from ...storage.remote.remote_lineage import EpochHistory, epoch_end_offsets, epoch_of_offset
from ...storage.remote.remote_log import RemoteLog
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from ...storage.segment.time_index import TimestampAndOffset, TimestampOffset
from ..remote_storage import RemoteResourceNotFound
from .chunk_cache import ChunkCache
from .remote_batches import check_begins
from .remote_index_cache import RemoteIndexCache
from .remote_index_rebuild import SuspectIndexError, damaged_log

_PIECE_BYTES = 1024 * 1024


class _Part(NamedTuple):
    """The offsets [begin, end) of one epoch for which a segment agrees with the log's history."""

    segment: RemoteLogSegmentMetadata
    epoch: int
    begin: int
    end: int

    def may_have(self, batch: RecordBatch) -> bool:
        """Whether records of a batch may belong to this part."""
        is_beside = batch.last_offset < self.begin or batch.base_offset >= self.end
        return batch.partition_leader_epoch == self.epoch and not is_beside


class RemoteTimestampReader:
    """Looks up timestamps in remote segments."""

    def __init__(self, indexes: RemoteIndexCache, chunks: ChunkCache) -> None:
        self._indexes = indexes
        self._chunks = chunks

    async def find(
        self, lookup: RemoteTimestampLookup, remote: RemoteLog, history: EpochHistory, end: int
    ) -> TimestampAndOffset | None:
        """The first remote record at or after the timestamp, or None. `end` is the log end offset.

        For MAX_TIMESTAMP, the remote record with the largest timestamp, or None if the local one's
        is larger. Raises RemoteStorageError.
        """
        search = self._youngest if lookup.timestamp == MAX_TIMESTAMP else self._first
        try:
            return await search(lookup, list(_parts(lookup, remote, history, end)))
        except RemoteResourceNotFound:
            # Deleted between look-up and fetch: look at the current metadata.
            return await search(lookup, list(_parts(lookup, remote, history, end)))

    async def _first(
        self, lookup: RemoteTimestampLookup, parts: list[_Part]
    ) -> TimestampAndOffset | None:
        for part in parts:
            result = await self._first_in(part, lookup.timestamp)
            if result is not None:
                return result
        return None

    async def _youngest(
        self, lookup: RemoteTimestampLookup, parts: list[_Part]
    ) -> TimestampAndOffset | None:
        local, best = lookup.local_result, None
        for part in sorted(parts, key=lambda each: (-each.segment.max_timestamp_ms, each.begin)):
            highest = part.segment.max_timestamp_ms
            if (local and local.timestamp > highest) or (best and best.timestamp > highest):
                break
            if best and best.timestamp == highest and best.offset < part.begin:
                continue
            result = await self._first_in(part, highest)
            # The record with that timestamp may lie outside the part: scan the whole part.
            result = result or await self._youngest_in(part)
            if result is not None and (best is None or result.is_better_maximum(best)):
                best = result
        return None if best is None or (local and local.timestamp > best.timestamp) else best

    async def _first_in(self, part: _Part, timestamp: int) -> TimestampAndOffset | None:
        segment = part.segment
        try:
            return await self._first_in_once(part, timestamp)
        except SuspectIndexError:
            # Either an index is wrong or the chunk that it points into: first read that again.
            self._chunks.forget(segment.id)
        try:
            return await self._first_in_once(part, timestamp)
        except SuspectIndexError:
            self._chunks.forget(segment.id)
            if not self._indexes.rebuild(segment):
                raise damaged_log(segment, f"it does not fit at timestamp {timestamp}") from None
        try:
            return await self._first_in_once(part, timestamp)
        except SuspectIndexError:
            self._chunks.forget(segment.id)
            raise damaged_log(segment, f"it does not fit at timestamp {timestamp}") from None

    async def _first_in_once(self, part: _Part, timestamp: int) -> TimestampAndOffset | None:
        indexes = await self._indexes.indexes(part.segment)
        # Every record before the batch that ends at this offset has a smaller timestamp.
        indexed = indexes.time_index.lookup(timestamp)
        begin = max(indexed.offset, part.begin)
        position = indexes.offset_index.lookup(begin).position
        is_checked = indexed.timestamp < 0 or indexed.offset < part.begin
        async for batch in self._batches(part.segment, position, begin):
            if not is_checked and batch.last_offset >= indexed.offset:
                _check_time(batch, indexed, part.segment)
                is_checked = True
            if batch.base_offset >= part.end:
                return None
            if batch.max_timestamp >= timestamp and part.may_have(batch):
                for record in batch.records():
                    if record.timestamp >= timestamp and part.begin <= record.offset < part.end:
                        return _answer(record, batch)
        return None

    async def _youngest_in(self, part: _Part) -> TimestampAndOffset | None:
        """The record with the largest timestamp, found by scanning the segment from its start."""
        best: TimestampAndOffset | None = None
        async for batch in self._batches(part.segment, 0, part.segment.start_offset):
            if not part.may_have(batch):
                continue
            if best is not None and batch.max_timestamp <= best.timestamp:
                continue
            for record in batch.records():
                is_younger = best is None or record.timestamp > best.timestamp
                if is_younger and part.begin <= record.offset < part.end:
                    best = _answer(record, batch)
        return best

    async def _batches(
        self, segment: RemoteLogSegmentMetadata, position: int, offset: int
    ) -> AsyncIterator[RecordBatch]:
        """The batches from the position that the index gives for an offset."""
        pieces = _Pieces(self._chunks, segment, position)
        if position:
            await pieces.check_begins(offset)
        while piece := await pieces.next():
            for batch in piece:
                yield batch


class _Pieces:
    """Reads a segment from a position on, piece by piece, in whole batches."""

    def __init__(
        self, chunks: ChunkCache, segment: RemoteLogSegmentMetadata, position: int
    ) -> None:
        self._chunks = chunks
        self._segment = segment
        self._position = position

    async def check_begins(self, offset: int) -> None:
        """Raise SuspectIndexError unless a read of `offset` may begin here."""
        piece = await self._chunks.read(self._segment, self._position, _PIECE_BYTES)
        check_begins(piece, self._position, offset, self._segment)

    async def next(self) -> list[RecordBatch]:
        """The batches of the next piece; empty at the end.

        Raises RemoteStorageError, also for a damaged batch.
        """
        segment, size = self._segment, _PIECE_BYTES
        while self._position < segment.segment_size_bytes:
            piece = await self._chunks.read(segment, self._position, size)
            sound_batches = self._sound(piece)
            if sound_batches:
                self._position += sum(batch.size_in_bytes for batch in sound_batches)
                return sound_batches
            if len(piece) < size:
                break
            # A batch larger than the piece: read again with room for it.
            size *= 4
        return []

    def _sound(self, piece: memoryview) -> list[RecordBatch]:
        try:
            sound_batches = list(batches(piece))
            if all(batch.crc_is_valid() for batch in sound_batches):
                return sound_batches
        except KafkaError:
            # Raised below: bytes that are no batches count as damaged, like a wrong CRC.
            pass
        self._chunks.forget(self._segment.id)
        raise damaged_log(self._segment, f"no batch at or after position {self._position}")


def _check_time(
    batch: RecordBatch, indexed: TimestampOffset, segment: RemoteLogSegmentMetadata
) -> None:
    """Raise SuspectIndexError unless the time index entry names this batch.

    An entry that names a later batch would skip all records before it.
    """
    if batch.max_timestamp != indexed.timestamp or batch.base_offset > indexed.offset:
        raise SuspectIndexError(
            f"The time index of segment {segment.segment_id} has a wrong entry for timestamp "
            f"{indexed.timestamp}"
        )


def _answer(record: Record, batch: RecordBatch) -> TimestampAndOffset:
    return TimestampAndOffset(record.timestamp, record.offset, batch.partition_leader_epoch)


def _parts(
    lookup: RemoteTimestampLookup, remote: RemoteLog, history: EpochHistory, end: int
) -> Iterator[_Part]:
    """The parts that may hold a matching record, in offset order."""
    start = lookup.starting_offset
    first_epoch = epoch_of_offset(history, start)
    ends = dict(epoch_end_offsets(history, end))
    for epoch, epoch_start in history:
        if epoch < first_epoch:
            continue
        for segment in remote.segments_for_epoch(epoch):
            if (
                segment.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                or segment.max_timestamp_ms < lookup.timestamp
                or segment.start_offset >= lookup.local_log_start_offset
            ):
                continue
            # An epoch of a segment begins later than the segment if its log did (DeleteRecords).
            begin = max(start, epoch_start, dict(segment.segment_leader_epochs)[epoch])
            after = min(segment.end_offset_of_epoch(epoch) + 1, ends[epoch])
            if begin < after:
                yield _Part(segment, epoch, begin, after)
