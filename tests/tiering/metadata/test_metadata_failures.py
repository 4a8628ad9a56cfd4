"""A failure that nobody expected while metadata is read loses nothing of what was read."""

import asyncio
from pathlib import Path

import pytest

from tierlog.storage.files import OsFiles
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.metadata.managed_metadata import (
    FIRST,
    PARTITIONS,
    finished,
    in_partition,
    started,
)
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.config import MetadataManagerConfig
from tierlog.tiering.metadata.metadata_events import metadata_partition
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager
from tierlog.tiering.metadata.metadata_snapshot import Snapshot, SnapshotFiles
from tierlog.tiering.metadata.snapshot_keeper import SnapshotKeeper


class FailsOnce(SnapshotKeeper):
    """Verifies a snapshot the second time only."""

    is_sound = False

    async def verified(self, number: int, offset: int, value: bytes) -> Snapshot | None:
        snapshot = await super().verified(number, offset, value)
        if self.is_sound:
            return snapshot
        self.is_sound = True
        raise RuntimeError("nobody expected that")


def reader(
    loop: SimulatedLoop, topic: SharedTopic, keeper: SnapshotKeeper
) -> TopicBasedRemoteLogMetadataManager:
    config = MetadataManagerConfig(topic_partitions=PARTITIONS)
    environment = SimulatedEnvironment(loop)
    return TopicBasedRemoteLogMetadataManager(
        config, MemoryMetadataTopic(topic), environment, keeper
    )


@pytest.mark.parametrize("snapshot_fails", [True, False])
async def test_what_was_read_with_a_record_that_failed_is_known(
    loop: SimulatedLoop, tmp_path: Path, snapshot_fails: bool
) -> None:
    topic, number = SharedTopic(PARTITIONS), metadata_partition(FIRST, PARTITIONS)
    other = in_partition((number + 1) % PARTITIONS)[0]
    files = SnapshotFiles(OsFiles(), str(tmp_path))
    before = reader(loop, topic, SnapshotKeeper(files, ThreadedPool(1, "test")))
    await before.start()
    await before.publish(started(FIRST))
    await before.publish(finished(FIRST))
    await before.stop()
    for event in (started(other), finished(other)):
        topic.write_event(metadata_partition(other, PARTITIONS), event)
    keeper = FailsOnce(files, ThreadedPool(1, "test"))
    keeper.is_sound = not snapshot_fails
    after = reader(loop, topic, keeper)
    await after.start()
    after.assign([FIRST, other])
    await asyncio.sleep(300)
    for partition in (FIRST, other):
        assert after.is_ready(partition)
        assert after.remote_log(partition).segment_for(0, 50) is not None
    await after.stop()
