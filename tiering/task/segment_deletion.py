"""Deletes a remote segment, in two recorded steps so that it survives a crash (KIP-405).

    DELETE_SEGMENT_STARTED published and read back: no reader is sent to the segment any more
    its unfinished uploads aborted, all its objects deleted
    DELETE_SEGMENT_FINISHED published and read back: its metadata is gone

Each step is idempotent. The current leader resumes a deletion that has begun.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import uuid_to_string
from ...clients.runtime.environment import Environment
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
    """Deletes remote segments, for all tasks of a broker."""

    broker_id: int
    storage: RemoteStorageManager
    metadata: RemoteLogMetadataManager
    environment: Environment
    statistics: TierStatistics
    forget: Callable[[RemoteLogSegmentMetadata], Awaitable[None]]
    """Drops what the read caches hold of a segment."""

    async def delete(
        self,
        segment: RemoteLogSegmentMetadata,
        reason: str,
        custom_metadata: bytes | None = None,
    ) -> None:
        """Delete a segment, whatever its state; `reason` completes "due to" in the log.

        Raises RemoteStorageError or KafkaError if a step fails, which the caller retries.
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
                # Before its objects are deleted: an upload that completes later would leave one.
                await self.storage.abort_uploads(segment)
            await self.storage.delete_log_segment_data(segment.updated(started))
            await self.metadata.publish(self.update(segment, _STATE.DELETE_SEGMENT_FINISHED))
        except (RemoteStorageError, KafkaError) as error:
            if not error.is_retriable:
                # An outage does not count as a failed deletion, as in Kafka.
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
        """The event that records a segment's new state."""
        return RemoteLogSegmentMetadataUpdate(
            segment_id=segment.segment_id,
            event_timestamp_ms=self.environment.wall_clock_ms(),
            state=state,
            broker_id=self.broker_id,
            custom_metadata=custom_metadata,
        )


def segment_words(segment: RemoteLogSegmentMetadata) -> str:
    """A segment as log lines describe it: file, partition, offsets, size and id."""
    return (
        f"{segment.start_offset:020d}.log of {segment.topic_id_partition.topic_partition} (offsets"
        f" {segment.start_offset} to {segment.end_offset}, {segment.segment_size_bytes} bytes) with"
        f" segment id {uuid_to_string(segment.id)}"
    )
