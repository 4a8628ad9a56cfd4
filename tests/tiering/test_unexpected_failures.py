"""A failure that nobody expected stops what it came from, for a while, and nothing else."""

import asyncio
import logging
from collections.abc import Collection, Mapping

import pytest

from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.runtime.supervisor import Supervisor
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.remote.remote_segment import RemotePartitionDeleteState
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.memory_tier import COPY, DELETE, MemoryTier
from tierlog.tests.tiering.segments import PARTITION as USER, segment_metadata
from tierlog.tests.tiering.task.remover import Remover, Topics, store
from tierlog.tests.tiering.tiered_broker import CONFIG, PARTITION, TieredBroker, until
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager
from tierlog.tiering.permits import Permits
from tierlog.tiering.task.partition_loop import LoopTools, PartitionLoop
from tierlog.tiering.tier_health import TierHealth

FAULT = ZeroDivisionError("nobody thought of this")


async def test_a_partition_that_fails_unexpectedly_stops_no_other_and_is_tried_again(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    environment = SimulatedEnvironment(loop)
    supervisor = Supervisor(environment.random)
    tools = LoopTools(CONFIG, environment, TierHealth(), supervisor)
    pool = Permits(1)
    runs = [0, 0]

    async def bad() -> int:
        runs[0] += 1
        if runs[0] < 4:
            raise FAULT
        return 1

    async def good() -> int:
        runs[1] += 1
        return 1

    tasks = [
        asyncio.ensure_future(
            PartitionLoop("Copying", TopicPartition("t", number), pool, work, tools).run()
        )
        for number, work in enumerate((bad, good))
    ]
    await asyncio.sleep(60)
    assert runs[1] > 100
    assert runs[0] > 50
    assert supervisor.failures == {"Copying": 3}
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert caplog.records[0].getMessage().startswith("Copying of t-0 failed with an internal error")
    assert caplog.records[0].exc_info is not None


async def test_a_copy_that_fails_unexpectedly_is_made_later(broker: TieredBroker) -> None:
    broker.tier.faults[COPY] = [FAULT, FAULT]
    broker.append(4)
    await until(lambda: broker.log.highest_remote_offset == 2)
    assert (await broker.consume())[0] == [0, 1, 2, 3]


class FailingTopic(MemoryMetadataTopic):
    """A client of the metadata topic with faults of its own."""

    def __init__(self, shared: SharedTopic) -> None:
        super().__init__(shared)
        self.faults = 0

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        self._fail()
        return await super().poll(timeout_ms)

    async def end_offsets(self, partitions: Collection[int]) -> Mapping[int, int]:
        self._fail()
        return await super().end_offsets(partitions)

    def _fail(self) -> None:
        if self.faults:
            self.faults -= 1
            raise FAULT


async def test_the_metadata_is_read_on_after_an_unexpected_failure(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    topic = FailingTopic(SharedTopic())
    topic.faults = 3
    metadata = TopicBasedRemoteLogMetadataManager(
        CONFIG.metadata, topic, SimulatedEnvironment(loop)
    )
    await metadata.start()
    metadata.assign([USER])
    await asyncio.sleep(1)
    assert "internal error" in metadata.status
    await until(lambda: metadata.is_ready(USER))
    topic.faults = 2
    await metadata.publish(segment_metadata(1))
    assert len(metadata.remote_log(USER)) == 1
    await until(lambda: not metadata.status)
    await metadata.stop()
    assert any("works again" in record.getMessage() for record in caplog.records)


async def test_a_removal_that_fails_unexpectedly_is_taken_to_its_end(loop: SimulatedLoop) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 3)
    remover = await Remover(loop, tier, topic, Topics()).start()
    tier.faults[DELETE] = [FAULT, FAULT]
    await until(lambda: not tier.segments)
    finished = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
    await until(lambda: remover.state() is finished)
    await remover.stop()
