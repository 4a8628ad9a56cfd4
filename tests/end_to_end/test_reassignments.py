"""Partitions move between brokers to the end, whatever dies, changes or is taken back meanwhile."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, Seat, combined
from tierlog.clients.errors import ErrorCode
from tierlog.clients.producer.producer import Producer

from ..waiting import wait_until
from .reassigned_topics import WITHIN_S, ReassignedTopics
from .replicated_topics import consume, produce, run

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

OTHER = 4
"""A broker that is no controller: the cluster works without it."""
_SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "tierlog.broker.death.hint": "true",
    "tierlog.broker.clean.restart": "true",
    "log.segment.bytes": str(1 << 20),
}


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReassignedTopics]:
    directory = tmp_path_factory.mktemp("reassigned")
    seats = combined("tierlog", "tierlog", "tierlog") | {OTHER: Seat("tierlog", "broker")}
    cluster = Cluster(directory, seats, _SETTINGS)
    for node in cluster.nodes.values():
        node.state({"log.dirs": f"{node.log_directory},{node.log_directory}2"})
    with cluster:
        cluster.wait_until_caught_up()
        yield ReassignedTopics(cluster)


@pytest.fixture(autouse=True)
def all_brokers(topics: ReassignedTopics) -> Iterator[None]:
    """Every story begins with all four."""
    yield
    for node in topics.cluster.brokers:
        if not node.is_alive():
            node.start()
    topics.cluster.wait_until_caught_up()


def records(topic: str, count: int, size: int = 100) -> list[bytes]:
    return [f"{topic}-{number}".encode().ljust(size, b".") for number in range(count)]


def test_many_partitions_move_while_a_broker_of_the_target_is_killed(
    topics: ReassignedTopics,
) -> None:
    topic, count = "many", 20
    topics.create(topic, {number: [1, OTHER] for number in range(count)})
    before = records(topic, 2_000)
    produce(topics.bootstrap, topic, before, count)
    killed = topics.cluster.nodes[OTHER]

    async def story() -> list[bytes]:
        """Produce all the while; returns what was acknowledged."""
        sent: list[bytes] = []
        async with Producer(topics.bootstrap, acks=-1, delivery_timeout_ms=120_000) as producer:
            moving = asyncio.ensure_future(asyncio.to_thread(move))
            number = 0
            while not moving.done() or number < 200:
                value = b"during-%d" % number
                await producer.send(topic, value, partition=number % count)
                sent.append(value)
                number += 1
            await moving
        return sent

    target = {number: [2, OTHER, 3] for number in range(count)}

    def move() -> None:
        assert set(topics.reassign(topic, target).values()) == {ErrorCode.NONE}
        killed.kill()
        killed.start()
        topics.wait_until_complete(topic)

    during = run(story())
    topics.wait_until_settled(topic, target)
    values = consume(topics.bootstrap, topic, len(before) + len(during), count)
    assert sorted(values) == sorted(before + during)


def test_a_reassignment_to_a_dead_broker_is_taken_back(topics: ReassignedTopics) -> None:
    topic = "taken-back"
    topics.create(topic, {0: [1, 2], 1: [2, 3]})
    produce(topics.bootstrap, topic, records(topic, 500), 2)
    topics.cluster.nodes[OTHER].kill()
    # The second one is complete at once, since it only loses a replica.
    assert set(topics.reassign(topic, {0: [OTHER, 3], 1: [2]}).values()) == {ErrorCode.NONE}
    wait_until(
        lambda: 3 in topics.partitions(topic)[0].isr_nodes,
        WITHIN_S,
        lambda: f"{topics.partitions(topic)}",
    )
    assert set(topics.ongoing(topic)) == {0}
    assert topics.reassign(topic, {0: None}) == {0: ErrorCode.NONE}
    topics.cluster.nodes[OTHER].start()
    topics.wait_until_settled(topic, {0: [1, 2], 1: [2]})
    assert topics.reassign(topic, {0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    assert sorted(consume(topics.bootstrap, topic, 500, 2)) == sorted(records(topic, 500))


def test_a_replica_is_removed_from_a_dead_broker_which_deletes_it_when_it_is_back(
    topics: ReassignedTopics,
) -> None:
    topic = "left-behind"
    topics.create(topic, {0: [OTHER, 1], 1: [1, OTHER]})
    produce(topics.bootstrap, topic, records(topic, 500), 2)
    topics.cluster.nodes[OTHER].kill()
    wait_until(
        lambda: all(each.leader_id == 1 for each in topics.partitions(topic).values()),
        WITHIN_S,
        lambda: f"{topics.partitions(topic)}",
    )
    assert set(topics.reassign(topic, {0: [1, 2], 1: [1]}).values()) == {ErrorCode.NONE}
    topics.wait_until_complete(topic)
    assert topics.directories(OTHER, topic, 0)
    topics.cluster.nodes[OTHER].start()
    topics.wait_until_settled(topic, {0: [1, 2], 1: [1]})
    assert sorted(consume(topics.bootstrap, topic, 500, 2)) == sorted(records(topic, 500))


def test_the_replication_factor_goes_from_one_to_three_to_two(topics: ReassignedTopics) -> None:
    topic, written = "factor", 0
    topics.create(topic, {0: [1]})
    for replicas in ([1], [1, 2, 3], [3, OTHER]):
        assert topics.reassign(topic, {0: replicas}) == {0: ErrorCode.NONE}
        produce(topics.bootstrap, topic, records(topic, 1_000)[written : written + 300])
        written += 300
        topics.wait_until_settled(topic, {0: replicas})
    assert consume(topics.bootstrap, topic, written) == records(topic, 1_000)[:written]


def test_a_replica_changes_its_directory_while_it_is_reassigned(topics: ReassignedTopics) -> None:
    topic = "moved"
    topics.create(topic, {0: [1, 2], 1: [2, 1]})
    produce(topics.bootstrap, topic, records(topic, 4_000, 1_000), 2)
    other = {node: Path(f"{topics.cluster.nodes[node].log_directory}2") for node in (1, 2)}
    target = {0: [1, 3], 1: [OTHER, 2]}
    # Whichever directory each is in: both moves are asked for, and one of them is none.
    for path in (other[1], topics.cluster.nodes[1].log_directory):
        topics.move(1, topic, [0, 1], path)
    for path in (topics.cluster.nodes[2].log_directory, other[2]):
        topics.move(2, topic, [0, 1], path)
    assert set(topics.reassign(topic, target).values()) == {ErrorCode.NONE}
    topics.wait_until_settled(topic, target)
    assert topics.directories(1, topic, 0)[0].parent == topics.cluster.nodes[1].log_directory
    assert topics.directories(2, topic, 1)[0].parent == other[2]
    values = consume(topics.bootstrap, topic, 4_000, 2)
    assert sorted(values) == sorted(records(topic, 4_000, 1_000))


def test_a_topic_grows_and_goes_while_it_is_reassigned(topics: ReassignedTopics) -> None:
    topic = "passing"
    topics.create(topic, {0: [1, 2]})
    produce(topics.bootstrap, topic, records(topic, 500))
    topics.cluster.nodes[OTHER].kill()
    assert topics.reassign(topic, {0: [OTHER, 3]}) == {0: ErrorCode.NONE}
    topics.grow(topic, 3)
    wait_until(lambda: len(topics.partitions(topic)) == 3, WITHIN_S, "it does not grow")
    assert set(topics.ongoing(topic)) == {0}
    topics.delete(topic)
    wait_until(lambda: not topics.partitions(topic), WITHIN_S, "it is not deleted")
    assert not topics.ongoing(topic)
    topics.cluster.nodes[OTHER].start()
    wait_until(
        lambda: (
            not any(
                topics.directories(node.node_id, topic, number)
                for node in topics.cluster.brokers
                for number in range(3)
            )
        ),
        WITHIN_S,
        "logs of the deleted topic stay",
    )
