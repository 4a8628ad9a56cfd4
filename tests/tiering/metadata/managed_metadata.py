"""Shared by tests: a metadata manager over a topic in memory."""

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tiering.metadata.metadata_events import metadata_partition

FIRST = TopicIdPartition(Uuid(b"topic id number1"), "orders", 0)
PARTITIONS = 5


def in_partition(number: int, count: int = 1) -> list[TopicIdPartition]:
    """User partitions whose events lie in one metadata partition."""
    found = [
        partition
        for index in range(500)
        if metadata_partition(partition := FIRST._replace(partition=index), PARTITIONS) == number
    ]
    return found[:count]


def started(partition: TopicIdPartition, number: int = 1) -> RemoteLogSegmentMetadata:
    return segment_metadata(number, partition=partition)


def finished(partition: TopicIdPartition, number: int = 1) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        segment_id=started(partition, number).segment_id,
        event_timestamp_ms=1,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        broker_id=1,
    )
