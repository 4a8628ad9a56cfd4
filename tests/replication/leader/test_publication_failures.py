"""A step of a publication that fails: the other steps go on, and this one is tried again.

Kafka's `BrokerMetadataPublisher` catches the errors of each of its steps too, but tries none again:
such a broker has to be restarted.
"""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.control.controller_loop import PUBLICATION
from tierlog.replication.metadata.cluster_image import ConfigResourceType
from tierlog.replication.metadata.metadata_records import ConfigRecord, PartitionChangeRecord
from tierlog.storage.config import LogConfig
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.replication.broker_node import BrokerNode, broker_node, with_broker
from tierlog.tests.replication.node import DATA, create, creation, delete
from tierlog.tests.replication.slow_tier import SlowTier
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tiering.remote_log_manager import LeaderPartition

RETRIED_S = 2.0


class Bug(Exception):
    """What no code expects."""


class BugOnDisk(Fault):
    """Not what a disk says."""

    def strikes(self, kind: Kind, path: str) -> bool:
        if super().strikes(kind, path):
            raise Bug
        return False


class Listener:
    """Notes leaderships, and fails the first time that it hears of a partition."""

    def __init__(self, failing: int) -> None:
        self.failing = {failing}
        self.elected: list[int] = []
        self.resigned: list[int] = []

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        self._fail_once(partition)
        self.elected.append(partition)

    def on_resigned(self, partition: int) -> None:
        self._fail_once(partition)
        self.resigned.append(partition)

    def _fail_once(self, partition: int) -> None:
        if partition in self.failing:
            self.failing.remove(partition)
            raise Bug


class BrokenTier(SlowTier):
    """Fails the first call of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.bugs = {"leadership", "stop"}

    def _fail_once(self, call: str) -> None:
        if call in self.bugs:
            self.bugs.remove(call)
            raise Bug

    def on_leadership_change(
        self, leaders: Sequence[LeaderPartition], followers: Sequence[TopicIdPartition]
    ) -> None:
        self._fail_once("leadership")
        super().on_leadership_change(leaders, followers)

    def stop_partitions(self, partitions: Sequence[TopicIdPartition], delete: bool) -> None:
        self._fail_once("stop")
        super().stop_partitions(partitions, delete)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def hosted(node: BrokerNode) -> list[str]:
    return sorted(str(name) for name in node.replicas.partitions)


def test_a_partition_that_fails_is_the_only_one_and_comes_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        disk.faults.append(BugOnDisk(Kind.MAKE_DIRECTORY, 0, "t-1"))
        await create(node.controller, "t", partitions=3)
        assert hosted(node) == ["t-0", "t-2"]
        assert node.append("t", b"x", partition=1).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.append("t", b"x", partition=2).error == ErrorCode.NONE
        await asyncio.sleep(RETRIED_S)
        assert node.append("t", b"x", partition=1).error == ErrorCode.NONE
        assert node.supervisor.failures[PUBLICATION] == 1

    with_broker(story, disk)
    (error,) = errors(caplog)
    assert error.startswith("Publication of metadata of t-1 to HostedPartitions failed")


def test_a_leadership_listener_that_fails_hears_again_and_stops_no_other_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: BrokerNode) -> None:
        listener = Listener(failing=1)
        node.replicas.listen("t", listener)
        await create(node.controller, "t", partitions=3)
        assert hosted(node) == ["t-0", "t-1", "t-2"]
        assert node.append("t", b"x", partition=1).error == ErrorCode.NONE
        assert listener.elected == [0, 2]
        await asyncio.sleep(RETRIED_S)
        assert listener.elected == [0, 2, 1]

    with_broker(story)
    (error,) = errors(caplog)
    assert error.startswith("Publication of metadata of t-1 to Listener failed")


def test_a_failing_listener_does_not_keep_a_deleted_topic_on_the_disk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        listener = Listener(failing=-1)
        node.replicas.listen("t", listener)
        await create(node.controller, "t", partitions=3)
        listener.failing = {1}
        await delete(node.controller, "t")
        assert listener.resigned == [0, 2]
        assert hosted(node) == []
        kept = SimulatedFiles(disk).listdir(DATA)
        assert not [each for each in kept if each.startswith("t-") and "delete" not in each]

    with_broker(story, disk)
    assert len(errors(caplog)) == 1


async def test_a_tier_that_fails_hears_again_of_what_is_led(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    tier = BrokenTier()
    async with broker_node(loop, SimulatedFiles(SimulatedDisk()), tier) as node:
        configs = {"remote.storage.enable": "true"}
        await node.controller.create_topics(creation("t", partitions=3, configs=configs))
        assert hosted(node) == ["t-0", "t-1", "t-2"]
        assert tier.leaders == []
        await asyncio.sleep(RETRIED_S)
        assert {each.topic_id_partition.partition for each in tier.leaders} == {0, 1, 2}
        await delete(node.controller, "t")
        assert hosted(node) == []
        await create(node.controller, "after")
        assert hosted(node) == ["after-0"]
    assert [error.split(" failed")[0] for error in errors(caplog)] == [
        "Publication of metadata of leaderships to BrokenTier",
        "Publication of metadata of t to BrokenTier",
    ]


def test_a_configuration_that_fails_for_one_log_reaches_the_others_and_comes_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = UnifiedLog.update_config
    failing: set[str] = set()

    def fail_once(self: UnifiedLog, config: LogConfig) -> None:
        if str(self.topic_partition) in failing:
            failing.remove(str(self.topic_partition))
            raise Bug
        update(self, config)

    monkeypatch.setattr(UnifiedLog, "update_config", fail_once)

    async def story(node: BrokerNode) -> None:
        def retention(partition: int) -> int:
            return node.replicas.partition(TopicPartition("t", partition)).log.config.retention_ms

        await create(node.controller, "t", partitions=3)
        failing.add("t-1")
        await node.controller.alter_topic_config("t", {"retention.ms": "1234567"})
        assert [retention(each) == 1234567 for each in range(3)] == [True, False, True]
        await asyncio.sleep(RETRIED_S)
        assert retention(1) == 1234567

    with_broker(story)
    (error,) = errors(caplog)
    assert error.startswith("Publication of metadata of t-1 to LogConfig failed")


def test_a_listener_that_misses_a_resignation_gets_it_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: BrokerNode) -> None:
        listener = Listener(failing=-1)
        node.replicas.listen("t", listener)
        await create(node.controller, "t", partitions=3)
        listener.failing = {1}
        await delete(node.controller, "t")
        assert listener.resigned == [0, 2]
        await asyncio.sleep(RETRIED_S)
        assert listener.resigned == [0, 2, 1]

    with_broker(story)
    assert len(errors(caplog)) == 1


async def test_a_tier_that_fails_to_stop_a_partition_is_asked_again(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    tier = BrokenTier()
    tier.bugs = {"stop"}
    async with broker_node(loop, SimulatedFiles(SimulatedDisk()), tier) as node:
        configs = {"remote.storage.enable": "true"}
        await node.controller.create_topics(creation("t", configs=configs))
        await write_config(node, "remote.storage.enable", "false")
        assert tier.stopped == []
        await asyncio.sleep(RETRIED_S)
        assert [partition.topic for partition, _ in tier.stopped] == ["t"]
    assert len(errors(caplog)) == 1


def test_an_invalid_configuration_keeps_no_listener_from_a_leadership(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: BrokerNode) -> None:
        await create(node.controller, "t", partitions=2)
        await write_config(node, "no.such.name", "1")
        listener = Listener(failing=0)
        node.replicas.listen("t", listener)
        await asyncio.sleep(10 * RETRIED_S)
        assert listener.elected == [1, 0]
        assert node.supervisor.failures[PUBLICATION] == 3, "It is not tried for ever."

    with_broker(story)
    assert len(errors(caplog)) == 3


def test_a_partition_that_fails_at_the_start_is_not_called_a_stray(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimulatedDisk()

    async def before(node: BrokerNode) -> None:
        await create(node.controller, "t", partitions=2)

    with_broker(before, disk)
    get_log, failing = LogManager.get_log, {TopicPartition("t", 1)}

    def fail_once(self: LogManager, name: TopicPartition) -> UnifiedLog | None:
        if name in failing:
            failing.remove(name)
            raise Bug
        return get_log(self, name)

    monkeypatch.setattr(LogManager, "get_log", fail_once)

    async def after(node: BrokerNode) -> None:
        assert hosted(node) == ["t-0"]
        await asyncio.sleep(RETRIED_S)
        assert hosted(node) == ["t-0", "t-1"]

    with_broker(after, disk)
    assert "stray" not in caplog.text


def test_a_partition_that_fails_while_the_broker_stops_waits_for_the_next_start() -> None:
    disk = SimulatedDisk()

    async def story(node: BrokerNode) -> None:
        await node.replicas.stop()
        disk.faults.append(BugOnDisk(Kind.MAKE_DIRECTORY, 0, "t-1"))
        await create(node.controller, "t", partitions=2)
        # Other parts of the broker may take this long to stop, and its logs are closed meanwhile.
        await asyncio.sleep(RETRIED_S)
        assert "t-1" not in SimulatedFiles(disk).listdir(DATA)

    with_broker(story, disk)
    with_broker(has_both, disk)


@pytest.mark.parametrize("leaves_alone", [False, True])
async def test_a_log_whose_partition_was_never_hosted_is_deleted_with_it(
    node: BrokerNode, monkeypatch: pytest.MonkeyPatch, leaves_alone: bool
) -> None:
    update = UnifiedLog.update_config

    def fail(self: UnifiedLog, config: LogConfig) -> None:
        if str(self.topic_partition) == "t-1":
            raise Bug
        update(self, config)

    monkeypatch.setattr(UnifiedLog, "update_config", fail)
    await create(node.controller, "t", partitions=2)
    assert hosted(node) == ["t-0"]
    assert len(node.log_manager.all_logs()) == 2
    if leaves_alone:
        topic_id = node.controller.image.topics_by_name["t"].topic_id
        record = PartitionChangeRecord(partition_id=1, topic_id=topic_id, replicas=[7])
        await node.controller.decide(lambda _: Decision([record], None))
    else:
        await delete(node.controller, "t")
    kept = [str(log.topic_partition) for log in node.log_manager.all_logs()]
    assert kept == (["t-0"] if leaves_alone else [])


async def has_both(node: BrokerNode) -> None:
    assert hosted(node) == ["t-0", "t-1"]


async def write_config(node: BrokerNode, name: str, value: str) -> None:
    """Give topic t a configuration that the controller would refuse."""
    kind = ConfigResourceType.TOPIC
    record = ConfigRecord(resource_type=kind, resource_name="t", name=name, value=value)
    await node.controller.decide(lambda _: Decision([record], None))
