"""Thousands of partitions in one request: the others are served while they come and go."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tierlog.clients.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tierlog.clients.topic_partition import TopicPartition
from tierlog.replication.leader.partition_backlog import AT_ONCE
from tierlog.tests.replication.broker_node import BrokerNode, broker_node
from tierlog.tests.replication.node import DATA
from tierlog.tests.simulation.disk import Fault, Kind, SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop

MANY = 1_000
TURNS = MANY


async def create(node: BrokerNode, name: str, partitions: int) -> int:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=False)
    (result,) = (await node.controller.create_topics(request)).topics
    return result.error_code


async def delete(node: BrokerNode, name: str) -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1_000)
    (result,) = (await node.controller.delete_topics(request)).responses
    return result.error_code


def hosted(node: BrokerNode, topic: str) -> int:
    return sum(name.topic == topic for name in node.replicas.partitions)


def directories(files: SimulatedFiles, topic: str) -> int:
    return sum(name.startswith(f"{topic}-") and "." not in name for name in files.listdir(DATA))


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_answer_comes_before_the_logs_and_clients_have_to_retry(
    loop: SimulatedLoop, files: SimulatedFiles
) -> None:
    async with broker_node(loop, files) as node:
        assert await create(node, "small", 1) == ErrorCode.NONE
        assert await create(node, "big", MANY) == ErrorCode.NONE
        assert len(node.controller.image.topics_by_name["big"].partitions) == MANY
        assert AT_ONCE <= hosted(node, "big") < MANY // 2
        last = node.append("big", b"x", partition=MANY - 1)
        assert last.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.append("small", b"x").error == ErrorCode.NONE
        # A small topic does not wait behind the big one.
        assert await create(node, "next", 3) == ErrorCode.NONE
        assert hosted(node, "next") == 3
        await turns(TURNS)
        assert hosted(node, "big") == MANY
        assert node.append("big", b"x", partition=MANY - 1).error == ErrorCode.NONE


async def test_a_deleted_topic_is_gone_at_once_and_its_logs_in_turns(
    loop: SimulatedLoop, files: SimulatedFiles
) -> None:
    async with broker_node(loop, files) as node:
        await create(node, "big", MANY)
        await turns(TURNS)
        assert await delete(node, "big") == ErrorCode.NONE
        assert hosted(node, "big") == 0
        refused = node.append("big", b"x", partition=MANY - 1)
        assert refused.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert 0 < directories(files, "big") < MANY
        await turns(TURNS)
        assert directories(files, "big") == 0


async def test_a_topic_made_again_while_the_old_one_goes_has_its_own_logs(
    loop: SimulatedLoop, files: SimulatedFiles
) -> None:
    async with broker_node(loop, files) as node:
        await create(node, "big", MANY)
        await turns(TURNS)
        assert node.append("big", b"old", partition=MANY - 1).error == ErrorCode.NONE
        await delete(node, "big")
        await create(node, "big", MANY)
        await turns(2 * TURNS)
        topic_id = node.controller.image.topics_by_name["big"].topic_id
        assert hosted(node, "big") == MANY
        for partition in node.replicas.partitions.values():
            assert partition.log.topic_id == topic_id
            assert partition.log.log_end_offset == 0


async def test_what_waits_is_dropped_with_its_topic_and_finished_by_the_next_start(
    loop: SimulatedLoop, files: SimulatedFiles
) -> None:
    async with broker_node(loop, files) as node:
        await create(node, "dropped", MANY)
        await delete(node, "dropped")
        await turns(TURNS)
        assert directories(files, "dropped") == 0
        await create(node, "gone", MANY)
        await turns(TURNS)
        await delete(node, "gone")
    assert directories(files, "gone") == 0
    async with broker_node(loop, files) as node:
        await create(node, "big", MANY)
    assert 0 < directories(files, "big") < MANY
    async with broker_node(loop, files) as node:
        assert hosted(node, "big") == MANY
        assert node.replicas.partition(TopicPartition("big", MANY - 1)).is_leader


@pytest.fixture
def files() -> SimulatedFiles:
    return SimulatedFiles(SimulatedDisk())


class BugOnRename(Fault):
    """Not what a disk says: an exception that no code expects there."""

    def strikes(self, kind: Kind, path: str) -> bool:
        if super().strikes(kind, path):
            raise RuntimeError("a directory that nobody expected")
        return False


async def test_one_log_that_cannot_be_deleted_is_the_only_one_that_stays(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    files = SimulatedFiles(disk)
    count = 2 * AT_ONCE
    async with broker_node(loop, files) as node:
        assert await create(node, "t", count) == ErrorCode.NONE
        await turns(TURNS)
        assert hosted(node, "t") == count
        disk.faults += [BugOnRename(Kind.RENAME, 0, f"t-{each}") for each in (1, count - 2)]
        assert await delete(node, "t") == ErrorCode.NONE
        await turns(TURNS)
        assert directories(files, "t") == 2
    assert "Internal error deleting the log of t-1" in caplog.text
    assert f"Internal error deleting the log of t-{count - 2}" in caplog.text
