"""Fetches from the tier what a follower needs to start after a remote segment (KIP-405).

The follower knows its leader's local log start offset. The metadata says which segment holds the
offset just below it, in the leader epoch that the request names. That segment's leader epochs and
producer snapshot are stored with it, and `storage/log/aux_state.py` builds the log from them.

This module changes nothing: a failure at any step is a `RemoteStorageError`, and the follower
retries after a pause. The error messages are those of Kafka's `TierStateMachine`.
"""

from typing import Protocol

from ...clients.topic_partition import TopicIdPartition
from ...storage.log.aux_state import AuxRequest, AuxState, MalformedAuxStateError, aux_state
from ...storage.remote.remote_log import RemoteLog
from ..remote_storage import Failure, IndexType, RemoteStorageError, RemoteStorageManager
from ..tier_statistics import TierStatistics


class SegmentMetadata(Protocol):
    """The part of `metadata_manager.RemoteLogMetadataManager` that is needed here."""

    def is_ready(self, partition: TopicIdPartition) -> bool: ...

    def remote_log(self, partition: TopicIdPartition) -> RemoteLog: ...


class RemoteLogAux:
    """Fetches a follower's auxiliary state from the tier."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        metadata: SegmentMetadata,
        statistics: TierStatistics,
    ) -> None:
        self._storage = storage
        self._metadata = metadata
        self._statistics = statistics

    async def fetch(self, request: AuxRequest) -> AuxState:
        """The state at the end of the segment that holds the offset. Raises RemoteStorageError."""
        topic = request.topic_id_partition.topic
        self._statistics.build_aux_began(topic)
        try:
            return await self._fetch(request)
        except RemoteStorageError:
            self._statistics.build_aux_failed(topic)
            raise

    async def _fetch(self, request: AuxRequest) -> AuxState:
        partition = request.topic_id_partition
        name = f"{partition.topic}-{partition.partition}"
        if not request.is_tiered:
            raise RemoteStorageError(
                f"Couldn't build the state from remote store for partition {name}, "
                "as remote log storage is not yet enabled"
            )
        if not self._metadata.is_ready(partition):
            raise RemoteStorageError(
                f"RemoteLogManager is not ready for partition: {name}", Failure.UNREACHABLE
            )
        segment = self._metadata.remote_log(partition).segment_for(request.epoch, request.offset)
        if segment is None:
            raise RemoteStorageError(
                f"Couldn't build the state from remote store for partition: {name}, "
                f"currentLeaderEpoch: {request.current_leader_epoch}, "
                f"leaderLocalLogStartOffset: {request.offset + 1}, "
                f"leaderLogStartOffset: {request.leader_log_start_offset}, "
                f"epoch: {request.epoch} as the previous remote log segment metadata was not found"
            )
        epochs = await self._storage.fetch_index(segment, IndexType.LEADER_EPOCH)
        snapshot = await self._storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
        try:
            return aux_state(segment, request.leader_log_start_offset, epochs, snapshot)
        except MalformedAuxStateError as error:
            raise RemoteStorageError(f"Segment {segment.segment_id}: {error}") from error
