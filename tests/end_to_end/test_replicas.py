"""Three processes replicate each partition: whichever leads, all disks have the same bytes."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, combined
from tierlog.clients.admin import Admin, NewTopic

from ..waiting import wait_until
from .replicated_topics import consume, create, leader_of, produce, run

pytestmark = pytest.mark.slow

NODES = (1, 2, 3)
PARTITIONS = 3
_WITHIN_S = 180
_SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("replicas")
    with Cluster(directory, combined("tierlog", "tierlog", "tierlog"), _SETTINGS) as three:
        three.wait_until_caught_up()
        yield three


def log_bytes(cluster: Cluster, node_id: int, topic: str, partition: int = 0) -> bytes:
    directory = cluster.nodes[node_id].log_directory / f"{topic}-{partition}"
    return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))


def sizes(cluster: Cluster, topic: str, partition: int) -> list[int]:
    return [len(log_bytes(cluster, node, topic, partition)) for node in NODES]


def wait_until_equal(cluster: Cluster, topic: str, partition: int = 0) -> bytes:
    """The bytes that all three have in the end."""
    wait_until(
        lambda: len({log_bytes(cluster, node, topic, partition) for node in NODES}) == 1,
        _WITHIN_S,
        lambda: f"logs of {topic}-{partition} with {sizes(cluster, topic, partition)} bytes differ",
    )
    return log_bytes(cluster, NODES[0], topic, partition)


def test_what_is_acknowledged_by_all_is_on_three_disks(cluster: Cluster) -> None:
    async def create_topic() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic("all", PARTITIONS, 3)])

    run(create_topic())
    values = [b"value %d" % number for number in range(3_000)]
    produce(cluster.bootstrap, "all", values, PARTITIONS)
    read = consume(cluster.bootstrap, "all", len(values), PARTITIONS)
    assert read == [value for at in range(PARTITIONS) for value in values[at::PARTITIONS]]
    # Acknowledged by all means that no disk lags behind what the leader has.
    for partition in range(PARTITIONS):
        first, second, third = (log_bytes(cluster, node, "all", partition) for node in NODES)
        assert first == second == third
        assert len(first) > 1_000


def test_a_follower_that_was_killed_fetches_what_it_missed(cluster: Cluster) -> None:
    create(cluster, "killed", (1, 2, 3))
    produce(cluster.bootstrap, "killed", [b"before"] * 100)
    cluster.nodes[3].kill()
    others = f"{cluster.nodes[1].bootstrap},{cluster.nodes[2].bootstrap}"
    # The active controller fences the silent broker, which takes it out of the ISR.
    produce(others, "killed", [b"meanwhile"] * 1_000)
    cluster.nodes[3].start()
    produce(cluster.bootstrap, "killed", [b"afterwards"] * 100)
    wait_until_equal(cluster, "killed")


def test_a_leader_that_stops_hands_over_and_follows_when_it_is_back(cluster: Cluster) -> None:
    create(cluster, "handed-over", (2, 1, 3))
    produce(cluster.bootstrap, "handed-over", [b"before"] * 100)
    assert leader_of(cluster, cluster.bootstrap, "handed-over") == 2
    cluster.nodes[2].stop()
    others = f"{cluster.nodes[1].bootstrap},{cluster.nodes[3].bootstrap}"

    def is_handed_over() -> bool:
        return leader_of(cluster, others, "handed-over") in (1, 3)

    wait_until(is_handed_over, _WITHIN_S, cluster.log_tails)
    produce(others, "handed-over", [b"meanwhile"] * 100)
    cluster.nodes[2].start()
    produce(cluster.bootstrap, "handed-over", [b"afterwards"] * 100)
    wait_until_equal(cluster, "handed-over")
    values = consume(cluster.bootstrap, "handed-over", 300)
    assert values == [b"before"] * 100 + [b"meanwhile"] * 100 + [b"afterwards"] * 100


def test_records_that_only_a_dead_leader_had_are_cut_when_it_is_back(cluster: Cluster) -> None:
    create(cluster, "diverged", (3, 1, 2))
    produce(cluster.bootstrap, "diverged", [b"common"] * 10)
    wait_until_equal(cluster, "diverged")
    followers = [cluster.nodes[1], cluster.nodes[2]]
    for node in followers:
        os.kill(node.pid, signal.SIGSTOP)
    try:
        leader = cluster.nodes[3]
        # A fetch that waits at the leader may still carry the first of these away.
        for value in (b"first", b"only here", b"only here"):
            produce(leader.bootstrap, "diverged", [value], acks=1)
        leader.kill()
    finally:
        for node in followers:
            os.kill(node.pid, signal.SIGCONT)
    others = f"{cluster.nodes[1].bootstrap},{cluster.nodes[2].bootstrap}"
    produce(others, "diverged", [b"new leader"] * 10)
    assert log_bytes(cluster, 3, "diverged").count(b"only here") == 2
    leader.start()
    agreed = wait_until_equal(cluster, "diverged")
    assert b"only here" not in agreed
    values = consume(cluster.bootstrap, "diverged", 20)
    assert values.count(b"common") == values.count(b"new leader") == 10


def test_a_deleted_topic_leaves_no_log_behind(cluster: Cluster) -> None:
    create(cluster, "deleted", (1, 2, 3))
    produce(cluster.bootstrap, "deleted", [b"x"] * 10)

    async def delete() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await admin.delete_topics(["deleted"])

    run(delete())

    def left() -> list[Path]:
        nodes = cluster.nodes.values()
        return [
            each for node in nodes for each in node.log_directory.glob("deleted-0") if each.exists()
        ]

    wait_until(lambda: not left(), _WITHIN_S, lambda: f"left behind: {left()}")
    create(cluster, "deleted", (2, 3, 1))
    produce(cluster.bootstrap, "deleted", [b"y"] * 10)
    assert b"x" * 2 not in wait_until_equal(cluster, "deleted")
    for node in cluster.nodes.values():
        assert "internal error" not in node.output
