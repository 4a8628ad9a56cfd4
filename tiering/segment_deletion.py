"""Takes a remote segment away, in two steps that a crash between them leaves on record (KIP-405).

    DELETE_SEGMENT_STARTED published and read back: nobody is sent to the segment any more
    all its objects removed
    DELETE_SEGMENT_FINISHED published and read back: nothing is known of it any more

Each step is idempotent. A segment whose deletion has begun is taken up again by whoever leads.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..clients.environment import Environment
from ..clients.errors import KafkaError
from ..storage.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from .metadata_manager import RemoteLogMetadataManager
from .remote_storage import RemoteStorageError, RemoteStorageManager
from .tier_statistics import TierStatistics

_STATE = RemoteLogSegmentState


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDeletion:
    """What the deletions of a broker share."""

    broker_id: int
    storage: RemoteStorageManager
    metadata: RemoteLogMetadataManager
    environment: Environment
    statistics: TierStatistics
    forget: Callable[[RemoteLogSegmentMetadata], Awaitable[None]]
    """Drops what readers have cached of a segment."""

    async def delete(
        self, segment: RemoteLogSegmentMetadata, custom_metadata: bytes | None = None
    ) -> None:
        """Delete a segment from the state that it is in.

        Raises RemoteStorageError or KafkaError if a step fails, to be taken up again.
        """
        topic = segment.topic_id_partition.topic
        self.statistics.delete_began(topic)
        try:
            started = self.update(segment, _STATE.DELETE_SEGMENT_STARTED, custom_metadata)
            if segment.state is not _STATE.DELETE_SEGMENT_STARTED:
                await self.metadata.publish(started)
            await self.forget(segment)
            await self.storage.delete_log_segment_data(segment.updated(started))
            await self.metadata.publish(self.update(segment, _STATE.DELETE_SEGMENT_FINISHED))
        except (RemoteStorageError, KafkaError) as error:
            if not error.is_retriable:
                # An outage is no failure of the deletion; Kafka doesn't count it either.
                self.statistics.delete_failed(topic)
            raise
        self.statistics.deleted(topic)

    def update(
        self,
        segment: RemoteLogSegmentMetadata,
        state: RemoteLogSegmentState,
        custom_metadata: bytes | None = None,
    ) -> RemoteLogSegmentMetadataUpdate:
        """The event that tells of a segment's new state."""
        return RemoteLogSegmentMetadataUpdate(
            segment_id=segment.segment_id,
            event_timestamp_ms=self.environment.wall_clock_ms(),
            state=state,
            broker_id=self.broker_id,
            custom_metadata=custom_metadata,
        )
