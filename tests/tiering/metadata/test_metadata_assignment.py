"""What a broker reads of the metadata topic: what it needs, and no more for longer than that."""

import asyncio

import pytest

from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.tiered_broker import until
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.config import MetadataManagerConfig
from tierlog.tiering.metadata.metadata_assignment import MetadataAssignment
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager
from tierlog.tiering.metadata.metadata_snapshot import SnapshotFiles
from tierlog.tiering.metadata.snapshot_keeper import SnapshotKeeper

from .managed_metadata import PARTITIONS, finished, in_partition, started

OF = [in_partition(number)[0] for number in range(PARTITIONS)]
"""A user partition of each metadata partition."""


def test_what_is_needed_is_read_and_dropped_at_the_next_watch() -> None:
    assignment = MetadataAssignment()
    assert assignment.update(PARTITIONS) == set()
    assignment.add([OF[1], OF[2]])
    assert assignment.is_needed
    assert assignment.update(PARTITIONS) == {1, 2}
    assignment.forget(OF[1])
    assert assignment.update(PARTITIONS) == {1, 2}
    assignment.watch([4, PARTITIONS + 7], [OF[3]])
    assert assignment.update(PARTITIONS) == {2, 3, 4}
    assignment.watch([], [])
    assert assignment.update(PARTITIONS) == {2}
    assignment.watch_all()
    assert assignment.update(PARTITIONS) == set(range(PARTITIONS))
    assignment.watch([], [])
    assert assignment.update(PARTITIONS) == set(range(PARTITIONS))


def test_what_an_event_is_published_to_is_not_dropped_meanwhile() -> None:
    assignment = MetadataAssignment()
    with assignment.publishing(OF[1]):
        with assignment.publishing(OF[1]):
            assert assignment.update(PARTITIONS) == {1}
        assignment.watch([], [])
        assert assignment.update(PARTITIONS) == {1}
    assert assignment.update(PARTITIONS) == {1}
    assignment.watch([], [])
    assert assignment.update(PARTITIONS) == set()
    assert not assignment.is_needed


class Reader:
    """A broker that reads the metadata, with snapshots or without."""

    def __init__(self, loop: SimulatedLoop, topic: SharedTopic, *, has_snapshots: bool) -> None:
        self.client = MemoryMetadataTopic(topic)
        keeper = None
        if has_snapshots:
            files = SimulatedFiles(SimulatedDisk())
            files.mkdirs("/data")
            keeper = SnapshotKeeper(SnapshotFiles(files, "/data"), ThreadedPool(1, "t"))
        self.metadata = TopicBasedRemoteLogMetadataManager(
            MetadataManagerConfig(topic_partitions=PARTITIONS),
            self.client,
            SimulatedEnvironment(loop),
            keeper,
        )

    def heard_of(self) -> list[TopicIdPartition]:
        return [each.topic_id_partition for each in self.metadata.remote_logs()]


@pytest.mark.parametrize("has_snapshots", [False, True])
async def test_a_dropped_partition_that_is_needed_again_has_all_that_was_published(
    loop: SimulatedLoop, has_snapshots: bool
) -> None:
    """(KAFKA-16105) What came while nobody here read is there, and nothing counts twice."""
    topic = SharedTopic(PARTITIONS)
    reader = Reader(loop, topic, has_snapshots=has_snapshots)
    metadata = reader.metadata
    await metadata.start()
    metadata.assign([OF[1], OF[2]])
    await metadata.publish(started(OF[1]))
    await metadata.publish(started(OF[2]))
    for _ in range(3):
        metadata.forget([OF[1]])
        metadata.watch([], [])
        await until(lambda: reader.heard_of() == [OF[2]])
        assert not metadata.is_ready(OF[1])
        await asyncio.sleep(10)
        before = reader.client.events_read
        topic.write_event(1, finished(OF[1]))
        await asyncio.sleep(10)
        assert reader.client.events_read == before
        metadata.assign([OF[1]])
        await until(lambda: metadata.is_ready(OF[1]))
        assert len(metadata.remote_log(OF[1])) == 1
        assert metadata.remote_log(OF[1]).segment_for(0, 50) is not None
    assert metadata.skipped.count == 0
    assert len(metadata.remote_log(OF[2])) == 1
    await metadata.stop()


async def test_a_partition_that_comes_back_while_it_is_dropped_is_the_one_that_is_attached(
    loop: SimulatedLoop,
) -> None:
    topic = SharedTopic(PARTITIONS)
    reader = Reader(loop, topic, has_snapshots=True)
    metadata = reader.metadata
    await metadata.start()
    metadata.assign([OF[1]])
    await metadata.publish(started(OF[1]))
    for pause in (0, 0.1, 0.25, 0.4, 0.499, 0.5, 0.501, 0.7):
        metadata.forget([OF[1]])
        metadata.watch([], [])
        await asyncio.sleep(pause)
        metadata.assign([OF[1]])
        attached = metadata.remote_log(OF[1])
        await until(lambda: metadata.is_ready(OF[1]))
        assert metadata.remote_log(OF[1]) is attached
        assert len(attached) == 1
    await metadata.stop()


async def test_a_broker_watches_partitions_that_it_does_not_host(loop: SimulatedLoop) -> None:
    topic = SharedTopic(PARTITIONS)
    for number in range(PARTITIONS):
        topic.write_event(number, started(OF[number]))
    reader = Reader(loop, topic, has_snapshots=False)
    await reader.metadata.start()
    reader.metadata.watch([0, 3], [])
    await until(lambda: reader.heard_of() == [OF[0], OF[3]])
    reader.metadata.watch([3], [])
    await until(lambda: reader.heard_of() == [OF[3]])
    await reader.metadata.stop()


@pytest.mark.parametrize("is_first", [False, True])
async def test_a_metadata_partition_without_a_leader_holds_up_no_other(
    loop: SimulatedLoop, is_first: bool
) -> None:
    """Whether it loses its leader before it is read for the first time, or later."""
    topic = SharedTopic(PARTITIONS)
    reader = Reader(loop, topic, has_snapshots=True)
    metadata = reader.metadata
    await metadata.start()
    if not is_first:
        metadata.assign([OF[0], OF[1]])
        await until(lambda: metadata.is_ready(OF[0]) and metadata.is_ready(OF[1]))
    topic.leaderless.add(1)
    metadata.assign([OF[0], OF[1], OF[2]])
    await until(lambda: metadata.is_ready(OF[0]) and metadata.is_ready(OF[2]), 5)
    async with asyncio.timeout(5):
        await metadata.publish(started(OF[2]))
    assert not metadata.is_ready(OF[1])
    assert "cannot be reached" in metadata.status
    topic.leaderless.clear()
    await until(lambda: metadata.is_ready(OF[1]), 5)
    async with asyncio.timeout(5):
        await metadata.publish(started(OF[1]))
    assert metadata.status == ""
    await metadata.stop()
