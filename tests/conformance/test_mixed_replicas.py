"""Brokers of Apache Kafka and of ours follow and lead each other's partitions in one cluster.

Writers of every codec, transactions with coordinators everywhere and the offsets of groups go on
while a node of each kind is killed with records that nobody else has, and stopped in order. Then
the replicas are the same on all disks, byte for byte, and so are their leader epochs.
"""

import os
import signal
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tierlog.bench.harness.processes.cluster import Cluster, ClusterNode, Kind, combined
from tierlog.coordinator.offsets_topic import partition_for

from ..waiting import wait_until
from .dump_log import Dump, dump, files_in
from .replica_load import (
    Groups,
    Transactions,
    Writers,
    check_acknowledged,
    check_committed,
    read_all,
    value_of,
)
from .replica_states import ReplicaStates, differences, end_on_disk

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java", "mvn"),
    pytest.mark.timeout(1200),
]

PLAIN, EXACT = "plain", "exact"
INTERNAL = ("__consumer_offsets", "__transaction_state")
PARTITIONS = 3
PROPERTIES: Mapping[str, str] = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    # Who leads is decided by the story alone.
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "500",
    "controlled.shutdown.enable": "true",
}
TAIL = 6
PROGRESS = 20
PATIENCE_S = 240.0


def coordinated_by(partition: int) -> str:
    """A name whose coordinator leads this partition of the internal topics."""
    return next(
        name
        for name in (f"id-{n}" for n in range(100))
        if partition_for(name, PARTITIONS) == partition
    )


class Story:
    """A mixed cluster under load."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.states = ReplicaStates(cluster)
        self.topics = (PLAIN, EXACT)
        self._create()
        self.writers = Writers(cluster.bootstrap, PLAIN, PARTITIONS)
        self.transactions = [
            Transactions(cluster.bootstrap, EXACT, PARTITIONS, coordinated_by(partition))
            for partition in range(PARTITIONS)
        ]
        names = [coordinated_by(partition) for partition in range(PARTITIONS)]
        self.groups = Groups(cluster.bootstrap, EXACT, names)
        self.lost: list[tuple[int, int, bytes]] = []

    def _create(self) -> None:
        """Each node is the preferred leader of one partition, and in each place of the others."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        assignment = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        config = {"segment.bytes": "1048576", "min.insync.replicas": "2"}
        topics = [
            NewTopic(name, PARTITIONS, replica_assignment=assignment, config=config)
            for name in self.topics
        ]
        # The client publishes its futures without the type of what they hold.
        created = cast("dict[str, Future[None]]", admin.create_topics(topics))  # pyright: ignore[reportUnknownMemberType]
        for each in created.values():
            each.result(60)
        self.states.wait_until_in_sync(*self.topics)

    def make_progress(self) -> None:
        """Wait until more is acknowledged on each partition and in each transactional id."""
        acknowledged = self.writers.acknowledged
        before = [acknowledged.count(partition) for partition in range(PARTITIONS)]
        ended = [len(each.committed) for each in self.transactions]

        def has_moved() -> bool:
            for each in (self.writers, *self.transactions):
                if each.failure is not None:
                    raise each.failure
            now = [acknowledged.count(partition) for partition in range(PARTITIONS)]
            then = [len(each.committed) for each in self.transactions]
            return all(n >= b + PROGRESS for n, b in zip(now, before, strict=True)) and all(
                n > b for n, b in zip(then, ended, strict=True)
            )

        wait_until(
            has_moved,
            PATIENCE_S,
            lambda: (
                f"{before} {ended} {[t.committed[-1:] for t in self.transactions]}\n"
                + self.cluster.log_tails()
            ),
        )

    def everybody_in_sync(self) -> None:
        self.states.wait_until_in_sync(*self.topics, *INTERNAL)

    def kill_with_a_tail(self, node: ClusterNode) -> None:
        """Kill the leader of a partition while it has records that no follower has got."""
        partition = node.node_id - 1
        for topic in self.topics:
            self.states.elect_preferred(topic, node)
        others = [each for each in self.cluster.brokers if each is not node]
        for other in others:
            os.kill(other.pid, signal.SIGSTOP)
        try:
            self._write_alone(node, partition)
            node.kill()
        finally:
            for other in others:
                os.kill(other.pid, signal.SIGCONT)
        for topic in (*self.topics, *INTERNAL):
            self.states.wait_until_led_by_others(topic, node.node_id)
        self.make_progress()
        node.start(300)
        self.everybody_in_sync()
        self.make_progress()
        self.groups.move_on()

    def _write_alone(self, node: ClusterNode, partition: int) -> None:
        """Records that the leader alone acknowledges: the last of them are on no other disk."""
        producer = Producer(
            {
                "bootstrap.servers": node.bootstrap,
                "acks": 1,
                "retries": 0,
                "log_level": 0,
            }
        )
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None
            offsets.append(offset)

        values = [value_of(f"tail-{node.node_id}", number) for number in range(TAIL)]
        for count, value in enumerate(values, 1):
            producer.produce(PLAIN, value, partition=partition, on_delivery=delivered)
            assert producer.flush(30) == 0
            assert len(offsets) == count
        self.lost.append((partition, offsets[-1], values[-1]))
        assert end_on_disk(node, f"{PLAIN}-{partition}") > offsets[-1]

    def stop_and_start(self, node: ClusterNode) -> None:
        """A controlled shutdown: somebody else leads before the node goes."""
        for topic in self.topics:
            self.states.elect_preferred(topic, node)
        node.stop(180)
        for topic in (*self.topics, *INTERNAL):
            self.states.wait_until_led_by_others(topic, node.node_id)
        self.make_progress()
        node.start(300)
        self.everybody_in_sync()
        self.make_progress()
        self.groups.move_on()

    def check(self) -> None:
        """All replicas are the same, and have what was acknowledged."""
        partitions = [
            f"{topic}-{number}"
            for topic in (*self.topics, *INTERNAL)
            for number in range(PARTITIONS)
        ]
        nodes = self.cluster.brokers
        different: Mapping[str, str] = {}

        def are_same() -> bool:
            nonlocal different
            different = differences(nodes, partitions)
            return not different

        wait_until(are_same, PATIENCE_S, lambda: str(different))
        ends = {
            topic: {at: end_on_disk(nodes[0], f"{topic}-{at}") for at in range(PARTITIONS)}
            for topic in self.topics
        }
        bootstrap = self.cluster.bootstrap
        read = read_all(bootstrap, PLAIN, ends[PLAIN], "read_uncommitted")
        check_acknowledged(read, self.writers.acknowledged)
        for partition, offset, value in self.lost:
            (there,) = (each for each in read[partition] if each.offset == offset)
            assert not value.startswith(f"{there.name} {there.number} ".encode())
        exact = read_all(bootstrap, EXACT, ends[EXACT], "read_committed")
        for transactions in self.transactions:
            check_committed(exact, transactions)
        for node in nodes:
            assert "Traceback" not in node.output

    def dump(self) -> None:
        """Kafka's tool reads the same from a disk of either kind."""
        of_each = {node.kind: node for node in self.cluster.brokers}
        for topic in (PLAIN, EXACT):
            dumps: list[list[Dump]] = []
            for node in of_each.values():
                logs = files_in(node.log_directory / f"{topic}-0", ".log")
                dumped = dump(logs, "--deep-iteration")
                dumps.append([dumped[log] for log in logs])
            kafka, ours = dumps
            assert kafka == ours
            assert sum(len(each.records) for each in ours) > 0


@pytest.mark.parametrize(
    "kinds",
    [("kafka", "kafka", "tierlog"), ("tierlog", "tierlog", "kafka")],
    ids=["two of Kafka", "two of ours"],
)
def test_each_kind_follows_and_leads_the_other(kinds: tuple[Kind, ...], tmp_path: Path) -> None:
    with Cluster(tmp_path, combined(*kinds), PROPERTIES) as cluster:
        cluster.wait_until_caught_up()
        story = Story(cluster)
        began = time.monotonic()
        with ExitStack() as load:
            for each in (story.writers, *story.transactions):
                load.enter_context(each)
            story.make_progress()
            story.groups.move_on()
            story.everybody_in_sync()
            # The last two are of different kinds.
            for node in cluster.brokers[1:]:
                story.kill_with_a_tail(node)
                print("killed", node.node_id, node.kind, time.monotonic() - began)
            for node in cluster.brokers[1:]:
                story.stop_and_start(node)
                print("stopped", node.node_id, node.kind, time.monotonic() - began)
            for topic in story.topics:
                story.states.elect_preferred(topic, cluster.brokers[0])
            story.make_progress()
        story.check()
        story.dump()
