"""Rebuilds the offset index and the time index of a remote segment from its batches.

An index in the tier may be damaged like any other object, and a fetch does not compare it with the
checksum in the manifest. So each look-up is checked against the batch that it points to. Once an
index is found to be wrong, the whole segment is read and both indexes are written as its leader
wrote them when it appended the batches, one entry for each 4096 bytes. The CRC of each batch is
checked on the way: if it is the log object that is damaged, the indexes are not to blame.
"""

from typing import NamedTuple, Protocol

from ...clients.record.checksum import crc32c
from ...clients.record.layout import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    OFFSET_INDEX_ENTRY,
    OFFSET_LENGTH_MAGIC_DELTA_AND_MAX_TIMESTAMP,
    TIME_INDEX_ENTRY,
)
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..remote_storage import RemoteStorageError
from ..store.object_keys import LOG_SUFFIX, object_key

_PIECE_BYTES = 4 << 20
_INTERVAL_BYTES = 4096
"""Kafka's default of `index.interval.bytes`."""

_MAGIC = 2
_CRC_AT = 17
_CRC_COVERS_FROM = 21


class RebuiltIndexes(NamedTuple):
    """The contents of the two index files."""

    offset_index: bytes
    time_index: bytes


class SuspectIndexError(RemoteStorageError):
    """An index points to a position that does not hold the batch it names."""


class DamagedLogError(RemoteStorageError):
    """The bytes of a segment's log object are not its batches."""


def damaged_log(segment: RemoteLogSegmentMetadata, how: str) -> DamagedLogError:
    """The error for a damaged log object, which it names by the end of its key."""
    name = object_key(segment, LOG_SUFFIX).rpartition("/")[2]
    partition = segment.topic_id_partition.topic_partition
    return DamagedLogError(f"The log object {name} of {partition} is damaged in the tier: {how}")


class _Indexer:
    """Indexes a segment batch by batch."""

    def __init__(self, segment: RemoteLogSegmentMetadata) -> None:
        self._segment = segment
        self._offsets = bytearray()
        self._times = bytearray()
        self._unindexed_bytes = 0
        self._youngest = -1
        self._youngest_offset = -1
        self._indexed_time = -1
        self._next_offset = segment.start_offset

    def add(self, piece: bytes, at: int, position: int) -> int:
        """Index the batch at `at` in a piece; returns its size, or 0 if it must begin a piece.

        Raises DamagedLogError.
        """
        base_offset, length, magic, delta, timestamp = (
            OFFSET_LENGTH_MAGIC_DELTA_AND_MAX_TIMESTAMP.unpack_from(piece, at)
        )
        crc = int.from_bytes(piece[at + _CRC_AT : at + _CRC_COVERS_FROM], "big")
        size, last_offset = LOG_OVERHEAD + int(length), base_offset + delta
        if (
            size < BATCH_OVERHEAD
            or magic != _MAGIC
            or delta < 0
            or base_offset < self._next_offset
            or last_offset > self._segment.end_offset
            or position + size > self._segment.segment_size_bytes
        ):
            raise damaged_log(self._segment, f"no batch at position {position}")
        is_whole = at + size <= len(piece)
        if is_whole and crc32c(memoryview(piece)[at + _CRC_COVERS_FROM : at + size]) != crc:
            raise damaged_log(self._segment, f"a wrong CRC at position {position}")
        if not is_whole and at:
            return 0
        self._next_offset = last_offset + 1
        relative = last_offset - self._segment.start_offset
        if timestamp > self._youngest:
            self._youngest, self._youngest_offset = timestamp, relative
        if self._unindexed_bytes > _INTERVAL_BYTES:
            self._offsets += OFFSET_INDEX_ENTRY.pack(relative, position)
            self._index_time()
            self._unindexed_bytes = 0
        self._unindexed_bytes += size
        return size

    def _index_time(self) -> None:
        if self._youngest > self._indexed_time:
            self._times += TIME_INDEX_ENTRY.pack(self._youngest, self._youngest_offset)
            self._indexed_time = self._youngest

    def end(self) -> RebuiltIndexes:
        self._index_time()
        return RebuiltIndexes(bytes(self._offsets), bytes(self._times))


class LogSource(Protocol):
    """The part of `RemoteStorageManager` that is needed here."""

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes: ...


async def rebuild_indexes(storage: LogSource, segment: RemoteLogSegmentMetadata) -> RebuiltIndexes:
    """Index the whole segment, a few megabytes at a time. Raises RemoteStorageError."""
    indexer = _Indexer(segment)
    position, total = 0, segment.segment_size_bytes
    while position < total:
        end = min(position + _PIECE_BYTES, total)
        piece = await storage.fetch_log_segment(segment, position, end - 1)
        if len(piece) < BATCH_OVERHEAD:
            raise damaged_log(segment, "it ends within a batch")
        at = 0
        # The next piece begins with the first batch that is not whole in this one; a batch larger
        # than a piece is taken by its header.
        while at + BATCH_OVERHEAD <= len(piece):
            size = indexer.add(piece, at, position + at)
            if not size:
                break
            at += size
        position += at
    return indexer.end()
