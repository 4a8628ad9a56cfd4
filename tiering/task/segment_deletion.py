"""Takes a remote segment away, in two steps that a crash between them leaves on record (KIP-405).

    DELETE_SEGMENT_STARTED published and read back: nobody is sent to the segment any more
    uploads of it that were cut short aborted, all its objects removed
    DELETE_SEGMENT_FINISHED published and read back: nothing is known of it any more

Each step is idempotent. A segment whose deletion has begun is taken up again by whoever leads.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...clients.environment import Environment
from ...clients.errors import KafkaError
from ...clients.kafka_uuid import uuid_to_string
from ...storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from ..metadata.metadata_manager import RemoteLogMetadataManager
from ..remote_storage import RemoteStorageError, RemoteStorageManager, UploadStorage
from ..tier_statistics import TierStatistics

_log = logging.getLogger(__name__)

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
        self,
        segment: RemoteLogSegmentMetadata,
        reason: str,
        custom_metadata: bytes | None = None,
    ) -> None:
        """Delete a segment from the state that it is in; `reason` completes "due to".

        Raises RemoteStorageError or KafkaError if a step fails, to be taken up again.
        """
        topic = segment.topic_id_partition.topic
        self.statistics.delete_began(topic)
        try:
            started = self.update(segment, _STATE.DELETE_SEGMENT_STARTED, custom_metadata)
            if segment.state is not _STATE.DELETE_SEGMENT_STARTED:
                await self.metadata.publish(started)
            await self.forget(segment)
            if segment.state is not _STATE.COPY_SEGMENT_FINISHED and isinstance(
                self.storage, UploadStorage
            ):
                # Before its objects go: an upload that is finished now would leave one.
                await self.storage.abort_uploads(segment)
            await self.storage.delete_log_segment_data(segment.updated(started))
            await self.metadata.publish(self.update(segment, _STATE.DELETE_SEGMENT_FINISHED))
        except (RemoteStorageError, KafkaError) as error:
            if not error.is_retriable:
                # An outage is no failure of the deletion; Kafka doesn't count it either.
                self.statistics.delete_failed(topic)
            raise
        self.statistics.deleted(topic)
        _log.info("Deleted remote log segment %s due to %s", segment_words(segment), reason)

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


def segment_words(segment: RemoteLogSegmentMetadata) -> str:
    """A segment for the log: its file, partition, offsets, size and id."""
    return (
        f"{segment.start_offset:020d}.log of {segment.topic_id_partition.topic_partition} (offsets"
        f" {segment.start_offset} to {segment.end_offset}, {segment.segment_size_bytes} bytes) with"
        f" segment id {uuid_to_string(segment.id)}"
    )
