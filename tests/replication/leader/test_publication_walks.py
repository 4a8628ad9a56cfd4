"""Topics come, change and go while steps of their publication fail at random.

When the bugs are gone, everything agrees with the newest image: no step applied an older one after
it, none was lost, and none was left of a topic that is gone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.leader.replica_movement import ReplicaMovement
from tierlog.replication.metadata.cluster_image import PartitionImage
from tierlog.replication.partition.partition import Partition
from tierlog.storage.config import LogConfig
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.tests.replication.broker_node import BrokerNode, broker_node
from tierlog.tests.replication.node import creation, delete
from tierlog.tests.replication.slow_tier import SlowTier
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tiering.remote_log_manager import LeaderPartition

TOPICS = ("t", "u")
TIERED = {"remote.storage.enable": "true"}
STEPS = 25
SETTLED_S = 5.0


class Bug(Exception):
    """An error that no code expects."""


class Bugs:
    """Fails now and then."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.probability = 0.0

    def strike(self) -> None:
        if self.random.random() < self.probability:
            raise Bug


class Listener:
    """The leaderships that it was notified of, with their epochs."""

    def __init__(self, bugs: Bugs) -> None:
        self._bugs = bugs
        self.led: dict[int, int] = {}

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        self._bugs.strike()
        assert self.led.get(partition, leader_epoch) <= leader_epoch
        self.led[partition] = leader_epoch
        self._bugs.strike()

    def on_resigned(self, partition: int) -> None:
        self._bugs.strike()
        self.led.pop(partition, None)
        self._bugs.strike()


class Tier(SlowTier):
    """The tiered partitions that it was told to lead."""

    def __init__(self, bugs: Bugs) -> None:
        super().__init__()
        self._bugs = bugs
        self.led: set[TopicIdPartition] = set()

    def on_leadership_change(
        self, leaders: Sequence[LeaderPartition], followers: Sequence[TopicIdPartition]
    ) -> None:
        for leader in leaders:
            self._bugs.strike()
            self.led.add(leader.topic_id_partition)

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        # As in Kafka, a failure here is not repeated for a deleted topic.
        self.led.difference_update(partitions)


class BuggyDisk(Fault):
    """Fails to create the directories of partitions."""

    def __init__(self, bugs: Bugs) -> None:
        super().__init__(Kind.MAKE_DIRECTORY)
        self._bugs = bugs

    def strikes(self, kind: Kind, path: str) -> bool:
        if kind is self.kind:
            self._bugs.strike()
        return False


class Walk:
    """One broker, and what happens to its topics."""

    def __init__(self, node: BrokerNode, tier: Tier, bugs: Bugs) -> None:
        self._node = node
        self._tier = tier
        self._bugs = bugs
        self._listeners = {topic: Listener(bugs) for topic in TOPICS}
        for topic, listener in self._listeners.items():
            node.replicas.listen(topic, listener)

    async def step(self) -> None:
        random, controller = self._bugs.random, self._node.controller
        self._bugs.probability = 0.25 if random.random() < 0.7 else 0.0
        topic = random.choice(TOPICS)
        event = random.choice(["create", "delete", "configure", "pass time"])
        if event == "pass time":
            await asyncio.sleep(random.random() * 1.5)
        elif topic not in controller.image.topics_by_name:
            configs = random.choice([TIERED, {}])
            count = random.randint(1, 4)
            await controller.create_topics(creation(topic, partitions=count, configs=configs))
        elif event == "delete":
            await delete(controller, topic)
        elif event == "configure":
            retention_ms = random.randint(1_000_000, 9_000_000)
            await controller.alter_topic_config(topic, {"retention.ms": str(retention_ms)})

    async def settle(self) -> None:
        self._bugs.probability = 0.0
        await asyncio.sleep(SETTLED_S)
        image = self._node.controller.image
        tiered: set[TopicIdPartition] = set()
        names: set[TopicPartition] = set()
        for topic, listener in self._listeners.items():
            found = image.topics_by_name.get(topic)
            partitions: Mapping[int, PartitionImage] = {} if found is None else found.partitions
            assert listener.led == {n: each.leader_epoch for n, each in partitions.items()}
            for number in partitions:
                hosted = self._check(topic, number)
                names.add(hosted.topic_partition)
                if hosted.log.config.remote_storage_enable:
                    tiered.add(hosted.topic_id_partition)
        assert self._tier.led == tiered
        assert self._node.replicas.partitions.keys() == names
        assert {log.topic_partition for log in self._node.log_manager.all_logs()} == names

    def _check(self, topic: str, number: int) -> Partition:
        """The partition, which is served with the newest configuration."""
        image = self._node.controller.image
        hosted = self._node.replicas.partition(TopicPartition(topic, number))
        topic_id = image.topics_by_name[topic].topic_id
        assert hosted.topic_id_partition.topic_id == hosted.log.topic_id == topic_id
        config = LogConfig.from_properties(image.topic_config(topic), LogConfig())
        assert hosted.log.config == config
        assert self._node.append(topic, b"x", partition=number).error is ErrorCode.NONE
        return hosted


@pytest.mark.parametrize("seed", range(40))
def test_what_fails_at_random_agrees_with_the_newest_image_in_the_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bugs = Bugs(Random(seed))
    update = UnifiedLog.update_config
    report_directory = ReplicaMovement.report_directory

    def update_or_fail(self: UnifiedLog, config: LogConfig) -> None:
        if self.topic_partition.topic in TOPICS:
            bugs.strike()
        update(self, config)

    def report_or_fail(self: ReplicaMovement, partition: Partition) -> None:
        bugs.strike()
        report_directory(self, partition)

    monkeypatch.setattr(UnifiedLog, "update_config", update_or_fail)
    monkeypatch.setattr(ReplicaMovement, "report_directory", report_or_fail)

    async def story(loop: SimulatedLoop) -> None:
        tier, disk = Tier(bugs), SimulatedDisk()
        async with broker_node(loop, SimulatedFiles(disk), tier) as node:
            disk.faults.append(BuggyDisk(bugs))
            walk = Walk(node, tier, bugs)
            for _ in range(STEPS):
                await walk.step()
            await walk.settle()

    simulate(story)
