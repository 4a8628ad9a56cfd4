"""Stands before the store of a tier, and lets its operations meet their faults.

The store itself is whole: what a fault hides is there again when it ends.
"""

import asyncio
from typing import Protocol, runtime_checkable

from ...broker.tier.tier_resources import AroundStorage
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ...tiering.remote_storage import (
    Failure,
    IndexType,
    LogSegmentData,
    OwnedStorage,
    PartitionStorage,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStorageManager,
    SegmentInventory,
    UploadStorage,
)
from .tier_faults import TierFaults
from .tier_rules import TierAct, TierOperation

_MESSAGES = {
    Failure.UNREACHABLE: "The tier cannot be reached: a test has set this fault",
    Failure.THROTTLED: "The tier throttles this broker: a test has set this fault",
    Failure.DENIED: "The tier denies access: a test has set this fault",
    Failure.BROKEN: "The tier is broken: a test has set this fault",
}


@runtime_checkable
class WholeStorage(
    RemoteStorageManager,
    PartitionStorage,
    UploadStorage,
    SegmentInventory,
    OwnedStorage,
    Protocol,
):
    """A store that has everything that is optional, as tierlog's own do."""


class FaultyStorage:
    """A `WholeStorage` before another."""

    def __init__(self, storage: WholeStorage, faults: TierFaults) -> None:
        self._storage = storage
        self._faults = faults

    def __str__(self) -> str:
        return str(self._storage)

    async def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        """See `RemoteStorageManager`, as for the methods below."""
        await self._meet(_on(TierAct.COPY, metadata))
        return await self._storage.copy_log_segment_data(metadata, data)

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        await self._meet(_on(TierAct.READ, metadata))
        return await self._storage.fetch_log_segment(metadata, start_position, end_position)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        await self._meet(_on(TierAct.READ, metadata))
        return await self._storage.fetch_index(metadata, index_type)

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._meet(_on(TierAct.DELETE, metadata))
        await self._storage.delete_log_segment_data(metadata)

    async def delete_partition(self, partition: TopicIdPartition) -> None:
        await self._meet(TierOperation(TierAct.DELETE, partition.topic_partition))
        await self._storage.delete_partition(partition)

    async def abort_uploads(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._meet(_on(TierAct.DELETE, metadata))
        await self._storage.abort_uploads(metadata)

    async def whole_segments(self, partition: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        await self._meet(TierOperation(TierAct.LOOK, partition.topic_partition))
        return await self._storage.whole_segments(partition)

    async def look_at_owner(self) -> None:
        await self._meet(TierOperation(TierAct.LOOK))
        await self._storage.look_at_owner()

    async def close(self) -> None:
        await self._storage.close()

    async def _meet(self, operation: TierOperation) -> None:
        """Wait and fail as the faults of the moment say. Raises RemoteStorageError."""
        delay_s, failure = self._faults.decide(operation)
        if delay_s:
            await asyncio.sleep(delay_s)
        if failure is Failure.NOT_FOUND:
            raise RemoteResourceNotFound("The object is missing: a test has set this fault")
        if failure is not None:
            raise RemoteStorageError(_MESSAGES[failure], failure)


def _on(act: TierAct, metadata: RemoteLogSegmentMetadata) -> TierOperation:
    partition = metadata.topic_id_partition.topic_partition
    return TierOperation(act, partition, metadata.start_offset, metadata.end_offset)


def faulty_storage(faults: TierFaults) -> AroundStorage:
    """What lets the operations of a tier meet these faults (`broker.Dependencies`)."""

    def around(storage: RemoteStorageManager) -> RemoteStorageManager:
        if not isinstance(storage, WholeStorage):
            return storage
        faults.put_in_place()
        return FaultyStorage(storage, faults)

    return around
