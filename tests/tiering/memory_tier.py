"""A remote tier in memory that remembers what it was asked and fails on demand.

Faults of a real store: slow, unreachable, failing after the work was done, an answer cut short, an
object that is gone, bytes that are damaged.
"""

import asyncio
from collections import defaultdict
from typing import NamedTuple

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tiering.remote_storage import (
    Failure,
    IndexType,
    LogSegmentData,
    RemoteResourceNotFound,
    RemoteStorageError,
)

COPY, FETCH, INDEX, DELETE = "COPY", "FETCH_SEGMENT", "FETCH_INDEX", "DELETE"
ABORT = "ABORT_UPLOADS"


class TierEvent(NamedTuple):
    """One call that the tier was asked for."""

    operation: str
    start_offset: int


class StoredSegment(NamedTuple):
    """The objects of one segment."""

    metadata: RemoteLogSegmentMetadata
    log: bytes
    indexes: dict[IndexType, bytes]


UNREACHABLE = RemoteStorageError("The tier is unreachable", Failure.UNREACHABLE)
BROKEN = RemoteStorageError("The tier is broken")


class MemoryTier:
    """A `RemoteStorageManager` for tests; several brokers may share one."""

    def __init__(self) -> None:
        self.segments: dict[Uuid, StoredSegment] = {}
        self.events: list[TierEvent] = []
        self.faults: dict[str, list[Exception | None]] = defaultdict(list)
        """By operation, what the next calls do: None is success."""
        self.fails_after_the_work = False
        self.is_down = False
        self.latency_seconds = 0.0
        self.custom_metadata: bytes | None = None
        self.incomplete: set[Uuid] = set()
        """Segments of which some object is missing."""
        self.uploads_aborted: list[Uuid] = []
        self.partitions_cleared: list[TopicIdPartition] = []
        self.copies_held = asyncio.Event()
        self.copies_held.set()

    async def _enter(self, operation: str, metadata: RemoteLogSegmentMetadata) -> Exception | None:
        self.events.append(TierEvent(operation, metadata.start_offset))
        if self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        if self.is_down:
            raise UNREACHABLE
        fault = self.faults[operation].pop(0) if self.faults[operation] else None
        if fault is not None and not self.fails_after_the_work:
            raise fault
        return fault

    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        fault = await self._enter(COPY, metadata)
        await self.copies_held.wait()
        log = data.log_segment.read()
        assert metadata.id not in self.segments, "A segment id is copied once"
        self.segments[metadata.id] = StoredSegment(metadata, log, data.indexes())
        if fault is not None:
            raise fault
        return self.custom_metadata

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        await self._enter(FETCH, metadata)
        stored = self._stored(metadata)
        end = min(end_position + 1, metadata.segment_size_bytes)
        piece = stored.log[start_position:end]
        if len(piece) != end - start_position:
            raise RemoteStorageError("The answer is cut short", Failure.UNREACHABLE)
        return piece

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        await self._enter(INDEX, metadata)
        indexes = self._stored(metadata).indexes
        if index_type not in indexes:
            raise RemoteResourceNotFound(f"No {index_type.name}")
        return indexes[index_type]

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        fault = await self._enter(DELETE, metadata)
        self.segments.pop(metadata.id, None)
        if fault is not None:
            raise fault

    async def abort_uploads(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._enter(ABORT, metadata)
        self.uploads_aborted.append(metadata.id)

    async def delete_partition(self, partition: TopicIdPartition) -> None:
        self.partitions_cleared.append(partition)
        if self.is_down:
            raise UNREACHABLE
        for stored in list(self.segments.values()):
            if stored.metadata.topic_id_partition == partition:
                del self.segments[stored.metadata.id]

    async def whole_segments(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        if self.is_down:
            raise UNREACHABLE
        return [
            stored.metadata
            for stored in self.segments.values()
            if stored.metadata.topic_id_partition == partition
            and stored.metadata.id not in self.incomplete
        ]

    async def close(self) -> None:
        """Memory needs no closing."""

    def _stored(self, metadata: RemoteLogSegmentMetadata) -> StoredSegment:
        try:
            return self.segments[metadata.id]
        except KeyError:
            raise RemoteResourceNotFound(f"No segment {metadata.segment_id}") from None

    def start_offsets(self) -> list[int]:
        """Where the stored segments begin."""
        return sorted(stored.metadata.start_offset for stored in self.segments.values())

    def asked(self, operation: str) -> list[int]:
        """The start offsets of the segments of each such call, in order."""
        return [event.start_offset for event in self.events if event.operation == operation]
