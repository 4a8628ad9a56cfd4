"""What the tier's metadata promises is on the disk before anything follows from it."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.simulation.disk import Fault, Kind
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.memory_tier import MemoryTier
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker, until
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.config import MetadataManagerConfig
from tierlog.tiering.metadata.log_durability import LogDurability
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager
from tierlog.tiering.metadata.metadata_topic import HostedReplicas, metadata_topic_config
from tierlog.tiering.remote_storage import LogSegmentData

CONFIG = MetadataManagerConfig(topic_partitions=5, consume_wait_ms=5_000)


async def test_an_event_counts_only_once_it_is_on_the_disk(loop: SimulatedLoop) -> None:
    topic = SharedTopic()
    topic.fails_to_sync = True
    metadata = TopicBasedRemoteLogMetadataManager(
        CONFIG, MemoryMetadataTopic(topic), SimulatedEnvironment(loop)
    )
    await metadata.start()
    event = segment_metadata(1, partition=PARTITION)
    with pytest.raises(KafkaError) as failed:
        await metadata.publish(event)
    assert failed.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert len(topic.events()) == 1
    assert len(metadata.remote_log(PARTITION)) == 0
    topic.fails_to_sync = False
    await until(lambda: len(metadata.remote_log(PARTITION)) == 1)
    assert sum(topic.durable_ends) == 1
    await metadata.stop()


async def test_what_an_earlier_process_wrote_is_on_the_disk_before_it_counts(
    loop: SimulatedLoop,
) -> None:
    """A killed process leaves its events in the page cache, where the next one finds them."""
    topic = SharedTopic()
    topic.write_event(0, segment_metadata(1, partition=PARTITION))
    topic.fails_to_sync = True
    metadata = TopicBasedRemoteLogMetadataManager(
        CONFIG, MemoryMetadataTopic(topic), SimulatedEnvironment(loop)
    )
    await metadata.start()
    metadata.watch_all()
    await asyncio.sleep(20)
    assert not metadata.remote_logs()
    topic.fails_to_sync = False
    await until(lambda: bool(metadata.remote_logs()))
    assert topic.durable_ends[0] == 1
    await metadata.stop()


async def test_a_hosted_partition_is_flushed_up_to_what_was_read(broker: TieredBroker) -> None:
    pool = ThreadedPool(1, "test")
    hosted = HostedReplicas(lambda _: broker.log, LogDurability(pool))
    broker.manager.stop_partitions([PARTITION], delete=False)
    broker.append(3, per_segment=10)
    assert broker.log.recovery_point == 0
    await hosted.make_durable({0: 3})
    assert broker.log.recovery_point == 3
    # A replica that is behind its leader can flush no more than it has.
    await hosted.make_durable({0: 99})
    await HostedReplicas(lambda _: None, LogDurability(pool)).make_durable({0: 99})
    hosted.stop()


async def test_a_flush_that_fails_takes_the_directory_offline_and_promises_nothing(
    broker: TieredBroker,
) -> None:
    broker.manager.stop_partitions([PARTITION], delete=False)
    broker.append(3, per_segment=10)
    broker.files.disk.faults.append(Fault(Kind.FLUSH, suffix=".log"))
    durability = LogDurability(ThreadedPool(1, "test"))
    for _ in range(2):
        with pytest.raises(KafkaError) as failed:
            await durability.sync(broker.log, 3)
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.log.recovery_point == 0
    assert not broker.log.log_dir.is_online


async def test_a_segment_is_on_the_disk_before_its_copy_is_announced(loop: SimulatedLoop) -> None:
    """Else the log could end, after a loss of power, below what readers find in the tier."""
    flushed: list[tuple[int, int]] = []
    brokers: list[TieredBroker] = []

    class WatchingTier(MemoryTier):
        async def copy_log_segment_data(
            self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
        ) -> bytes | None:
            flushed.append((metadata.end_offset, brokers[0].log.recovery_point))
            return await super().copy_log_segment_data(metadata, data)

    broker = TieredBroker(loop, WatchingTier(), SharedTopic())
    brokers.append(broker)
    await broker.manager.start()
    broker.lead()
    broker.append(5, per_segment=2)
    await until(lambda: len(flushed) == 2)
    assert all(end_offset < recovery_point for end_offset, recovery_point in flushed)
    await broker.manager.stop()


def test_the_topic_flushes_each_event_where_neither_replicas_nor_readers_do() -> None:
    """That is a topic of one replica in another cluster, or on another broker."""
    alone = metadata_topic_config(CONFIG, 1, syncs_itself=True)
    assert alone["flush.messages"] == "1"
    assert "flush.messages" not in metadata_topic_config(CONFIG, 3, syncs_itself=True)
    assert "flush.messages" not in metadata_topic_config(CONFIG, 1)
