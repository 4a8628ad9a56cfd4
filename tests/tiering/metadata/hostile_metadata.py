"""Shared by tests: events of tier metadata that nobody should write."""

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tiering.config import MetadataManagerConfig
from tierlog.tiering.metadata.metadata_events import metadata_partition
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager

USER = TopicIdPartition(Uuid(b"topic id number1"), "orders", 0)
PARTITIONS = 5
NUMBER = metadata_partition(USER, PARTITIONS)


def started(number: int) -> RemoteLogSegmentMetadata:
    offsets = (number * 100, number * 100 + 99)
    return segment_metadata(number, offsets=offsets, epochs=((0, offsets[0]),), partition=USER)


def finished(number: int) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        segment_id=started(number).segment_id,
        event_timestamp_ms=1,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        broker_id=1,
    )


def reader(loop: SimulatedLoop, topic: SharedTopic) -> TopicBasedRemoteLogMetadataManager:
    config = MetadataManagerConfig(topic_partitions=PARTITIONS)
    return TopicBasedRemoteLogMetadataManager(
        config, MemoryMetadataTopic(topic), SimulatedEnvironment(loop)
    )
