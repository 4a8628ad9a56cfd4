"""Shared by tests: a remover of partitions with its topics and store."""

from collections.abc import Collection
from dataclasses import replace

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.memory_tier import MemoryTier, StoredSegment
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tests.tiering.tiered_broker import CONFIG, PARTITION
from tierlog.tiering.metadata.metadata_events import metadata_partition
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager
from tierlog.tiering.task.partition_remover import PartitionRemover, RemoverTools
from tierlog.tiering.tier_statistics import TierStatistics


class Topics:
    """The topics of the cluster, as a controller would know them: all but these were deleted."""

    def __init__(self, *living: Uuid, led: Collection[int] | None = None) -> None:
        self.living = set(living)
        self.led = led
        """The metadata partitions that the broker leads; None for a process alone."""

    def has_metadata_topic(self) -> bool:
        return True

    def watched_partitions(self) -> Collection[int] | None:
        return self.led

    async def settle(self, topic_ids: Collection[Uuid]) -> None:
        """All is on record."""

    def was_deleted(self, topic_id: Uuid) -> bool:
        return topic_id not in self.living


class Remover:
    """A broker of which only the remover is at work."""

    def __init__(
        self,
        loop: SimulatedLoop,
        tier: MemoryTier,
        topic: SharedTopic,
        topics: Topics,
        broker_id: int = 0,
        segments_per_second: int = 100,
    ) -> None:
        config = replace(
            CONFIG, broker_id=broker_id, remover_segments_per_second=segments_per_second
        )
        environment = SimulatedEnvironment(loop, f"remover {broker_id} of {loop.time()}")
        self.topic = topic
        self.statistics = TierStatistics(loop.time)
        self.metadata = TopicBasedRemoteLogMetadataManager(
            config.metadata, MemoryMetadataTopic(topic), environment
        )
        tools = RemoverTools(tier, self.metadata, environment, self.statistics, topics)
        self.remover = PartitionRemover(config, tools)

    async def start(self) -> "Remover":
        await self.metadata.start()
        self.remover.start()
        return self

    async def stop(self) -> None:
        await self.remover.stop()
        await self.metadata.stop()

    def state(self, partition: TopicIdPartition = PARTITION) -> RemotePartitionDeleteState | None:
        return self.metadata.remote_log(partition).partition_delete_state


def store(
    tier: MemoryTier, topic: SharedTopic, partition: TopicIdPartition, count: int
) -> list[RemoteLogSegmentMetadata]:
    """Segments in the tier and in the metadata."""
    found: list[RemoteLogSegmentMetadata] = []
    number = metadata_partition(partition, len(topic.partitions))
    first_id = partition.topic_id[0] * 1_000_000 + partition.partition * 1000
    for index in range(count):
        metadata = segment_metadata(first_id + index, offsets=(index, index), partition=partition)
        tier.segments[metadata.id] = StoredSegment(metadata, b"", {})
        topic.write_event(number, metadata)
        topic.write_event(
            number,
            RemoteLogSegmentMetadataUpdate(
                segment_id=metadata.segment_id,
                event_timestamp_ms=1,
                state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
                broker_id=0,
            ),
        )
        found.append(metadata)
    return found
