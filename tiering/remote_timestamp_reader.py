"""Looks for a timestamp in the tier (ListOffsets by time; Kafka's `findOffsetByTimestamp`).

Segments of this log's own history are asked in offset order, those that end below the timestamp are
passed over by their metadata alone, and a segment that is still local is left to the local log
(KAFKA-17498).
"""

from collections.abc import Iterator

from ..clients.record.batch import batches
from ..storage.fetch_data import RemoteTimestampLookup, TimestampAndOffset
from ..storage.remote_lineage import EpochHistory, epoch_of_offset, is_within_leader_epochs
from ..storage.remote_log import RemoteLog
from ..storage.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from .chunk_cache import ChunkCache
from .remote_index_cache import RemoteIndexCache

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

        Raises RemoteStorageError.
        """
        for segment in _candidates(lookup, remote, history, end):
            found = await self._find_in(segment, lookup)
            if found is not None:
                return found
        return None

    async def _find_in(
        self, segment: RemoteLogSegmentMetadata, lookup: RemoteTimestampLookup
    ) -> TimestampAndOffset | None:
        indexes = await self._indexes.indexes(segment)
        indexed = indexes.time_index.lookup(lookup.timestamp)
        begin = max(indexed.offset, lookup.starting_offset)
        position = indexes.offset_index.lookup(begin).position
        size = _PIECE_BYTES
        while position < segment.segment_size_bytes:
            piece = await self._chunks.read(segment, position, size)
            consumed = 0
            for batch in batches(piece):
                consumed += batch.size_in_bytes
                if batch.max_timestamp < lookup.timestamp or batch.last_offset < begin:
                    continue
                for record in batch.records():
                    if record.timestamp >= lookup.timestamp and record.offset >= begin:
                        return TimestampAndOffset(
                            record.timestamp, record.offset, batch.partition_leader_epoch
                        )
            # A batch larger than the piece: read on with room for it.
            size = _PIECE_BYTES if consumed else size * 4
            position += consumed
            if not consumed and len(piece) < size // 4:
                break
        return None


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
