"""Shared by tests: remote segments of several lineages."""

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

PARTITION = TopicIdPartition(Uuid(b"T" * 16), "orders", 0)
Epochs = list[tuple[int, int]]


def segment(number: int, start: int, end: int, epochs: Epochs) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, Uuid(number.to_bytes(16, "big"))),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=0,
        broker_id=0,
        event_timestamp_ms=0,
        segment_size_bytes=1,
        segment_leader_epochs=tuple(epochs),
    )


def remote_log(*segments: RemoteLogSegmentMetadata) -> RemoteLog:
    log = RemoteLog(PARTITION)
    for each in segments:
        log.apply_copy_started(each)
        log.apply_update(
            RemoteLogSegmentMetadataUpdate(
                segment_id=each.segment_id,
                event_timestamp_ms=1,
                state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
                broker_id=0,
            )
        )
    return log
