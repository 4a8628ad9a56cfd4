"""Kafka's tools on replicas: three brokers of ours beside three of Kafka's say the same.

Reassignments with throttles, elections, log directories, and what the tools say while a broker is
down. What differs from run to run is masked: ids, ports, sizes, times.
"""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, separate
from tierlog.bench.harness.processes.kafka_peer import TOOLS, java_command
from tierlog.clients.producer.producer import Producer

from ..waiting import wait_until
from .cluster_processes import ToolsOnClusters, both_clusters

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.requires("java", "mvn"),
    pytest.mark.timeout(900),
]

A, B, C = 11, 12, 13
QUICK = {
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    # Who leads is decided by the stories alone.
    "auto.leader.rebalance.enable": "false",
}
TOPICS, MOVE = "kafka-topics", "kafka-reassign-partitions"
# Eligible leader replicas, which Kafka switches on, come with a dynamic default of the cluster.
OF_ELIGIBLE_REPLICAS = (
    (r"min\.insync\.replicas=1,?", ""),
    (r"\tElr: \S*\tLastKnownElr: ?\S*", ""),
)
WITHOUT_DIRECTORIES = ((r'"log_dirs":\["[^\]]*"\]', '"log_dirs":[D]'),)
VALUE = b"v" * 10_000
_WITHIN_S = 180


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsOnClusters]:
    with both_clusters(
        tmp_path_factory.mktemp("replicas"),
        lambda kind: separate((kind,), (kind, kind, kind)),
        QUICK,
    ) as clusters:
        yield clusters


@pytest.fixture(autouse=True)
def all_brokers(both: ToolsOnClusters) -> Iterator[None]:
    """Every story begins with all three, however the one before has ended."""
    yield
    for cluster in both.pair:
        for node in cluster.brokers:
            if not node.is_alive():
                node.start()
        cluster.wait_until_caught_up()


def create(both: ToolsOnClusters, name: str, replicas: str, *more: str) -> None:
    both.same_at(A, TOPICS, "--create", "--topic", name, "--replica-assignment", replicas, *more)
    last = f"Partition: {replicas.count(',')}"
    both.wait_until_said(last, TOPICS, "--describe", "--topic", name)


def fill(both: ToolsOnClusters, name: str, records: int, partitions: int = 1) -> None:
    """The same records in both, acknowledged by all replicas in sync."""

    async def story(cluster: Cluster) -> None:
        async with Producer(cluster.bootstrap, acks=-1) as producer:
            await asyncio.gather(
                *(
                    producer.send_nowait(name, VALUE, partition=number % partitions)
                    for number in range(records)
                )
            )

    for cluster in both.pair:
        asyncio.run(asyncio.wait_for(story(cluster), 2 * _WITHIN_S))


def described(both: ToolsOnClusters, name: str, *more: str, at: int = A) -> str:
    arguments = ("--describe", "--topic", name, *more)
    return both.same_at(at, TOPICS, *arguments, masks=OF_ELIGIBLE_REPLICAS)


def wait_described(both: ToolsOnClusters, name: str, pattern: str, at: int = A) -> None:
    def texts() -> list[str]:
        return [said.text for said in both.said_at(at, TOPICS, "--describe", "--topic", name)]

    wait_until(
        lambda: all(re.search(pattern, text) for text in texts()),
        _WITHIN_S,
        lambda: f"{pattern!r} in {texts()}",
    )


def plan(path: Path, **replicas: list[int]) -> Path:
    """A reassignment of these partitions: `t_0=[1, 2]`."""
    partitions = [
        {"topic": name.rpartition("_")[0], "partition": int(name.rpartition("_")[2]), "replicas": r}
        for name, r in replicas.items()
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def with_plan(path: Path) -> tuple[str, str]:
    return ("--reassignment-json-file", str(path))


def execute(both: ToolsOnClusters, path: Path, *more: str, at: int = A) -> str:
    arguments = ("--execute", *with_plan(path), *more)
    return both.same_at(at, MOVE, *arguments, masks=WITHOUT_DIRECTORIES)


def wait_complete(both: ToolsOnClusters, path: Path, count: int) -> None:
    """Wait until the tool says so of all partitions, without removing throttles."""

    def texts() -> list[str]:
        verify = ("--verify", *with_plan(path), "--preserve-throttles")
        return [said.text for said in both.said_at(A, MOVE, *verify)]

    wait_until(
        lambda: all(text.count("is completed.") == count for text in texts()),
        _WITHIN_S,
        lambda: f"{texts()}",
    )


# -- Reassignments ----------------------------------------------------------------------------


def test_a_plan_is_generated_executed_and_verified(both: ToolsOnClusters, tmp_path: Path) -> None:
    create(both, "moved", f"{A}:{B},{B}:{C}")
    fill(both, "moved", 20, 2)
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    generate = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list")
    said = both.same_at(
        A,
        MOVE,
        *generate,
        f"{A},{B},{C}",
        # Where the replicas should go is drawn.
        masks=(*WITHOUT_DIRECTORIES, (r"(?s)(Proposed .*?\n)\{.*", r"\1")),
    )
    assert said.startswith("Current partition replica assignment\n{")
    both.same_at(A, MOVE, *generate, f"{A},77", masks=WITHOUT_DIRECTORIES)
    path = plan(tmp_path / "plan.json", moved_0=[C, A], moved_1=[A, B])
    said = execute(both, path, at=B)
    assert "Successfully started partition reassignments for moved-0,moved-1" in said
    wait_complete(both, path, 2)
    said = both.same_at(C, MOVE, "--verify", *with_plan(path))
    assert "Reassignment of partition moved-0 is completed." in said
    wait_described(both, "moved", rf"Replicas: {C},{A}\tIsr: ({A},{C}|{C},{A})")
    assert both.same_at(A, MOVE, "--list") == "No partition reassignments found.\n"
    wrong = plan(tmp_path / "wrong.json", moved_0=[77, A])
    execute(both, wrong)
    absent = plan(tmp_path / "absent.json", absent_0=[A])
    execute(both, absent)
    both.same_at(A, MOVE, "--verify", *with_plan(absent))


def throttles(both: ToolsOnClusters, name: str) -> list[str]:
    """What the configurations of the topic and of the three brokers say of throttles."""
    entities = [("topics", name), *(("brokers", str(broker)) for broker in (A, B, C))]
    return [
        line.strip()
        for kind, entity in entities
        for line in both.same_at(
            A,
            "kafka-configs",
            *("--describe", "--entity-type", kind, "--entity-name", entity),
            masks=(*OF_ELIGIBLE_REPLICAS, (r"(?m)^  min\.insync.*\n", "")),
            ordered=False,
        ).splitlines()
        if "replication.throttled" in line
    ]


def test_a_throttled_reassignment_is_seen_raised_cancelled_and_done(
    both: ToolsOnClusters, tmp_path: Path
) -> None:
    create(both, "throttled", f"{A}:{B}")
    fill(both, "throttled", 600)
    path = plan(tmp_path / "plan.json", throttled_0=[A, C])
    back = plan(tmp_path / "back.json", throttled_0=[A, B])
    said = execute(both, path, "--throttle", "10")
    assert "The inter-broker throttle limit was set to 10 B/s" in said
    assert len(throttles(both, "throttled")) == 8
    both.wait_until_said("adding: 13", MOVE, "--list")
    both.same_everywhere(MOVE, "--list")
    said = both.same_at(A, MOVE, "--verify", *with_plan(path))
    assert "is still in progress" in said
    # A second one is refused, unless it is an addition; a limit can be changed under way.
    execute(both, path)
    assert "was set to 20 B/s" in execute(both, path, "--additional", "--throttle", "20")
    said = both.same_at(A, MOVE, "--cancel", *with_plan(path), "--preserve-throttles")
    assert "Successfully cancelled partition reassignment for: throttled-0" in said
    assert f"Replicas: {A},{B}\t" in described(both, "throttled")
    both.same_at(A, MOVE, "--cancel", *with_plan(path))
    assert both.same_at(A, MOVE, "--list") == "No partition reassignments found.\n"
    execute(both, path, "--throttle", "50000000")
    wait_complete(both, path, 1)
    assert throttles(both, "throttled")
    said = both.same_at(A, MOVE, "--verify", *with_plan(path))
    assert "Clearing topic-level throttles on topic throttled" in said
    assert throttles(both, "throttled") == []
    execute(both, back)
    wait_complete(both, back, 1)


def test_throttles_are_configured_by_hand(both: ToolsOnClusters) -> None:
    create(both, "by-hand", f"{A}:{B}")
    tool, topic = "kafka-configs", ("--entity-type", "topics", "--entity-name", "by-hand")
    for value in ("*", "[0:11,0:12]", "0:x", "x"):
        config = f"leader.replication.throttled.replicas={value}"
        both.same_at(A, tool, "--alter", "--add-config", config, *topic)
    broker = ("--entity-type", "brokers", "--entity-name", str(B))
    for side in ("leader", "follower"):
        for value in ("1000", "0", "-1", "x"):
            config = f"{side}.replication.throttled.rate={value}"
            both.same_at(A, tool, "--alter", "--add-config", config, *broker)
        name = f"{side}.replication.throttled.rate"
        both.wait_until_said(f"{name}=0 ", tool, "--describe", *broker)
        both.same_everywhere(tool, "--describe", *broker, ordered=False)
        both.same_at(A, tool, "--alter", "--delete-config", name, *broker)
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    both.same_at(A, tool, "--alter", "--add-config", f"{name}=1000", *broker)
    both.wait_until_said(name, tool, "--describe", *broker)
    both.same_at(A, tool, "--describe", *broker, ordered=False)
    both.same_at(A, tool, "--alter", "--delete-config", name, *broker)


# -- Elections, and a broker that is down -----------------------------------------------------


def test_what_the_tools_say_while_a_broker_is_down(both: ToolsOnClusters) -> None:
    create(both, "down", f"{C}:{A},{A}:{B}", "--config", "min.insync.replicas=1")
    create(both, "alone", f"{C}")
    create(both, "strict", f"{B}:{C}", "--config", "min.insync.replicas=2")
    for cluster in both.pair:
        cluster.nodes[C].stop()
    for at in (A, B):
        wait_described(both, "down", rf"Partition: 0\tLeader: {A}\tReplicas: \S+\tIsr: {A}\s", at)
        wait_described(both, "alone", "Leader: none", at)
        wait_described(both, "strict", rf"Isr: {B}\s", at)
    filters = {
        "--under-replicated-partitions": ("down", 1),
        "--unavailable-partitions": ("alone", 1),
        "--at-min-isr-partitions": ("down", 1),
        "--under-min-isr-partitions": ("strict", 1),
    }
    for option, (name, count) in filters.items():
        for at in (A, B):
            said = described(both, name, option, at=at)
            assert said.count("\tPartition: ") == count, (option, said)
        both.same_at(A, TOPICS, "--describe", option, masks=OF_ELIGIBLE_REPLICAS)
    election = ("--election-type", "preferred", "--topic", "down", "--partition", "0")
    both.same_at(A, "kafka-leader-election", *election)
    both.same_at(
        A, "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"
    )
    both.same_at(A, "kafka-cluster", "list-endpoints")
    both.same_at(A, "kafka-cluster", "list-endpoints", "--include-fenced-brokers")
    for cluster in both.pair:
        cluster.nodes[C].start()
    wait_described(both, "down", rf"Partition: 0\tLeader: {A}\tReplicas: {C},{A}\tIsr: {A},{C}")
    said = both.same_at(B, "kafka-leader-election", *election)
    assert "Successfully completed leader election (PREFERRED)" in said
    wait_described(both, "down", rf"Partition: 0\tLeader: {C}")
    for nothing in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert described(both, "down", nothing) == ""


def test_an_unclean_election_takes_the_replica_that_is_left(both: ToolsOnClusters) -> None:
    create(both, "unclean", f"{C}:{B}")
    for node_id in (B, C):
        for cluster in both.pair:
            cluster.nodes[node_id].stop()
        wait_described(both, "unclean", rf"Leader: {'none' if node_id == C else C}")
    for cluster in both.pair:
        cluster.nodes[B].start()
    election = ("--topic", "unclean", "--partition", "0", "--election-type")
    both.same_at(A, "kafka-leader-election", *election, "preferred")
    said = both.same_at(A, "kafka-leader-election", *election, "unclean")
    assert "Successfully completed leader election (UNCLEAN)" in said
    wait_described(both, "unclean", rf"Leader: {B}\tReplicas: {C},{B}\tIsr: {B}\b")
    both.same_at(A, "kafka-leader-election", *election, "unclean")
    for cluster in both.pair:
        cluster.nodes[C].start()
    wait_described(both, "unclean", rf"Isr: ({B},{C}|{C},{B})")


# -- Looking at replicas ----------------------------------------------------------------------


def test_log_directories_and_the_check_of_replicas(both: ToolsOnClusters) -> None:
    create(both, "looked-at", f"{A}:{B},{B}:{C}")
    fill(both, "looked-at", 10, 2)
    sizes = (
        (r'"(size|totalBytes|usableBytes)":\d+', r'"\1":N'),
        (r'"logDir":"[^"]*"', '"logDir":"D"'),
    )
    arguments = ("--describe", "--topic-list", "looked-at")
    for brokers in ((), ("--broker-list", f"{A},{C}"), ("--broker-list", "77")):
        both.same_at(A, "kafka-log-dirs", *arguments, *brokers, masks=sizes)
    kafka, ours = (verified(cluster) for cluster in both.pair)
    assert ours == kafka
    assert "max lag is 0 for partition looked-at-" in ours


def verified(cluster: Cluster) -> str:
    """What the tool that compares replicas says first; it never ends."""
    command = java_command(
        TOOLS["kafka-replica-verification"],
        *("--broker-list", cluster.bootstrap, "--topics-include", "looked-at"),
        *("--report-interval-ms", "1000"),
    )
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            while len(lines) < 2:
                line = process.stdout.readline().decode()
                assert line, "The tool has ended."
                # Not what its client logs.
                lines += [line] if line.startswith("20") else []
        finally:
            process.kill()
    masks = ((r"(?m)^[\d\- :,]+", ""), (r"looked-at-\d at offset \d+", "looked-at-P at offset O"))
    for pattern, instead in masks:
        lines = [re.sub(pattern, instead, line) for line in lines]
    return "".join(lines)
