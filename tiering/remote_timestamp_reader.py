"""Looks for a timestamp in the tier (ListOffsets by time; Kafka's `findOffsetByTimestamp`).

Segments of this log's own history are asked in offset order, those that end below the timestamp are
passed over by their metadata alone, and a segment that is still local is left to the local log
(KAFKA-17498).

The youngest record of all (MAX_TIMESTAMP, KIP-734) is found from the metadata as well: only the
segment that holds it is read. Kafka looks at local segments alone, and so answers something else
as soon as the youngest record has left the disk (docs/decisions/007).
"""

from collections.abc import Iterator

from ..clients.offset_names import MAX_TIMESTAMP
from ..clients.record.batch import Record, RecordBatch, batches
from ..storage.fetch_data import RemoteTimestampLookup, TimestampAndOffset
from ..storage.remote_lineage import EpochHistory, epoch_of_offset, is_within_leader_epochs
from ..storage.remote_log import RemoteLog
from ..storage.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from .chunk_cache import ChunkCache
from .remote_index_cache import RemoteIndexCache
from .remote_storage import RemoteResourceNotFound, RemoteStorageError

_PIECE_BYTES = 1024 * 1024


class RemoteTimestampReader:
    """Timestamp look-ups in remote segments."""

    def __init__(self, indexes: RemoteIndexCache, chunks: ChunkCache) -> None:
        self._indexes = indexes
        self._chunks = chunks

    async def find(
        self, lookup: RemoteTimestampLookup, remote: RemoteLog, history: EpochHistory, end: int
    ) -> TimestampAndOffset | None:
        """The first remote record that is as young, or None. `end` is the log end offset.

        For MAX_TIMESTAMP the youngest remote record, or None if the local one is younger. Raises
        RemoteStorageError.
        """
        search = self._youngest if lookup.timestamp == MAX_TIMESTAMP else self._first
        try:
            return await search(lookup, list(_candidates(lookup, remote, history, end)))
        except RemoteResourceNotFound:
            # Deleted between look-up and fetch: what the metadata says now decides.
            return await search(lookup, list(_candidates(lookup, remote, history, end)))

    async def _first(
        self, lookup: RemoteTimestampLookup, segments: list[RemoteLogSegmentMetadata]
    ) -> TimestampAndOffset | None:
        for segment in segments:
            found = await self._first_in(segment, lookup.starting_offset, lookup.timestamp)
            if found is not None:
                return found
        return None

    async def _youngest(
        self, lookup: RemoteTimestampLookup, segments: list[RemoteLogSegmentMetadata]
    ) -> TimestampAndOffset | None:
        local, best = lookup.local_result, None
        for segment in sorted(
            segments, key=lambda each: (-each.max_timestamp_ms, each.start_offset)
        ):
            highest = segment.max_timestamp_ms
            if (local and local.timestamp > highest) or (best and best.timestamp >= highest):
                break
            found = await self._first_in(segment, lookup.starting_offset, highest)
            # Its youngest record may lie below the log start; of the rest nothing is known.
            found = found or await self._youngest_in(segment, lookup.starting_offset)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
        return None if best is None or (local and local.timestamp > best.timestamp) else best

    async def _first_in(
        self, segment: RemoteLogSegmentMetadata, starting_offset: int, timestamp: int
    ) -> TimestampAndOffset | None:
        indexes = await self._indexes.indexes(segment)
        indexed = indexes.time_index.lookup(timestamp)
        begin = max(indexed.offset, starting_offset)
        position = indexes.offset_index.lookup(begin).position
        pieces = _Pieces(self._chunks, segment, position)
        while found := await pieces.next():
            for batch in found:
                if batch.max_timestamp < timestamp or batch.last_offset < begin:
                    continue
                for record in batch.records():
                    if record.timestamp >= timestamp and record.offset >= begin:
                        return _answer(record, batch)
        return None

    async def _youngest_in(
        self, segment: RemoteLogSegmentMetadata, starting_offset: int
    ) -> TimestampAndOffset | None:
        best: TimestampAndOffset | None = None
        indexes = await self._indexes.indexes(segment)
        position = indexes.offset_index.lookup(starting_offset).position
        pieces = _Pieces(self._chunks, segment, position)
        while found := await pieces.next():
            for batch in found:
                if best is not None and batch.max_timestamp <= best.timestamp:
                    continue
                for record in batch.records():
                    is_younger = best is None or record.timestamp > best.timestamp
                    if record.offset >= starting_offset and is_younger:
                        best = _answer(record, batch)
        return best


class _Pieces:
    """A segment from a position on, piece by piece, in whole batches."""

    def __init__(
        self, chunks: ChunkCache, segment: RemoteLogSegmentMetadata, position: int
    ) -> None:
        self._chunks = chunks
        self._segment = segment
        self._position = position

    async def next(self) -> list[RecordBatch]:
        """The batches of the next piece; none at the end.

        Raises RemoteStorageError, also at a batch that is damaged.
        """
        segment, size = self._segment, _PIECE_BYTES
        while self._position < segment.segment_size_bytes:
            piece = await self._chunks.read(segment, self._position, size)
            found = list(batches(piece))
            if not all(batch.crc_is_valid() for batch in found):
                self._chunks.forget(segment.id)
                raise RemoteStorageError(f"Segment {segment.segment_id} is damaged in the tier")
            if found:
                self._position += sum(batch.size_in_bytes for batch in found)
                return found
            if len(piece) < size:
                break
            # A batch larger than the piece: read again with room for it.
            size *= 4
        return []


def _answer(record: Record, batch: RecordBatch) -> TimestampAndOffset:
    return TimestampAndOffset(record.timestamp, record.offset, batch.partition_leader_epoch)


def _candidates(
    lookup: RemoteTimestampLookup, remote: RemoteLog, history: EpochHistory, end: int
) -> Iterator[RemoteLogSegmentMetadata]:
    first_epoch = epoch_of_offset(history, lookup.starting_offset)
    seen: set[bytes] = set()
    for epoch, _ in history:
        if epoch < first_epoch:
            continue
        for segment in remote.segments_for_epoch(epoch):
            if segment.id in seen or segment.start_offset >= lookup.local_log_start_offset:
                continue
            seen.add(segment.id)
            if (
                segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                and segment.max_timestamp_ms >= lookup.timestamp
                and segment.end_offset >= lookup.starting_offset
                and is_within_leader_epochs(segment, end, history)
            ):
                yield segment
