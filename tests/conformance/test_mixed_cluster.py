"""A cluster whose nodes are of both kinds: whole Apache Kafka processes and whole ones of ours.

Each kind leads for a while. Under each, topics and settings are changed at nodes of both kinds, and
a node of the other kind that has lost its disk begins with the leader's snapshot. In the end, all
disks hold the same bytes, and `kafka-dump-log` reads the same records from them.
"""

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.cluster import (
    METADATA_LOG,
    Cluster,
    ClusterNode,
    Kind,
    Lead,
    combined,
)
from tierlog.bench.harness.processes.cluster_log import committed, metadata_bytes
from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.clients.record.batch import batches

from ..waiting import wait_until
from .dump_log import DumpedRecord, dump, files_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("java", "mvn"),
    # Tens of starts of Java.
    pytest.mark.timeout(900),
]

KINDS: tuple[Kind, ...] = ("kafka", "tierlog")
DECODED = "--cluster-metadata-decoder"
PROPERTIES: Mapping[str, str] = {
    # The logs are compared and must not grow meanwhile.
    "metadata.max.idle.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
}
ELECTIONS_MAX = 12


def let_lead(cluster: Cluster, kind: Kind) -> Lead:
    """Kill leaders of the other kind until one of this kind leads; all nodes run afterwards."""
    for _ in range(ELECTIONS_MAX):
        lead = cluster.wait_for_leader()
        if cluster.nodes[lead.node_id].kind == kind:
            cluster.wait_until_caught_up()
            return lead
        cluster.nodes[lead.node_id].kill()
        following = cluster.wait_for_leader(after_epoch=lead.epoch)
        cluster.nodes[lead.node_id].start()
        cluster.wait_until_caught_up()
        assert following.node_id != lead.node_id
    raise AssertionError(f"No node of {kind} was elected.")


def change_everywhere(cluster: Cluster, name: str) -> list[str]:
    """Create a topic at each node, and give it a setting at the next one; the topics' names."""
    nodes = list(cluster.nodes.values())
    topics = [f"{name}-at-{node.node_id}" for node in nodes]
    for topic, node in zip(topics, nodes, strict=True):
        server = ("--bootstrap-server", node.bootstrap)
        assignment = ("--replica-assignment", ",".join(map(str, cluster.nodes)))
        run_tool("kafka-topics", *server, "--create", "--topic", topic, *assignment)
    for topic, node in zip(topics, [*nodes[1:], nodes[0]], strict=True):
        wait_until(partial(is_listed, node, topic), 60, f"{topic} at {node.node_id}")
        server = ("--bootstrap-server", node.bootstrap)
        setting = ("--alter", "--add-config", "retention.ms=7000000")
        of_topic = ("--entity-type", "topics", "--entity-name", topic)
        run_tool("kafka-configs", *server, *setting, *of_topic)
    return topics


def is_listed(node: ClusterNode, topic: str) -> bool:
    listed = run_tool("kafka-topics", "--bootstrap-server", node.bootstrap, "--list")
    return topic in listed.stdout.split()


def described(node: ClusterNode, topics: Sequence[str]) -> str:
    server = ("--bootstrap-server", node.bootstrap)
    said = run_tool("kafka-topics", *server, "--describe", "--topic", "|".join(topics))
    # Kafka's broker keeps and lists this one dynamically (KIP-966).
    return said.stdout.replace("min.insync.replicas=1,", "")


def snapshots_of(node: ClusterNode) -> list[Path]:
    """The snapshots but for that of the format, the oldest first."""
    found = sorted((node.log_directory / METADATA_LOG).glob("*.checkpoint"))
    return [path for path in found if int(path.name[:20]) > 0]


def has_snapshot(node: ClusterNode) -> bool:
    return bool(snapshots_of(node))


def lose_disk(cluster: Cluster, node: ClusterNode) -> None:
    """Replace a node's disk by a new one, formatted for the same cluster; it takes part again."""
    node.stop()
    shutil.rmtree(node.log_directory)
    node.start()
    cluster.wait_until_caught_up()


def payloads(node: ClusterNode) -> list[DumpedRecord]:
    """All records of the metadata log as Kafka's tool reads them; it may not complain."""
    logs = files_in(node.log_directory / METADATA_LOG, ".log")
    dumped = dump(logs, "--print-data-log", "--deep-iteration", DECODED)
    return [record for log in logs for record in dumped[log].records]


@pytest.mark.parametrize(
    "kinds",
    [("kafka", "kafka", "tierlog"), ("tierlog", "tierlog", "kafka")],
    ids=["two of Kafka", "two of ours"],
)
def test_each_kind_leads_the_other(kinds: tuple[Kind, ...], tmp_path: Path) -> None:
    with Cluster(tmp_path, combined(*kinds), PROPERTIES) as cluster:
        topics: list[str] = []
        for kind in KINDS:
            let_lead(cluster, kind)
            topics += change_everywhere(cluster, f"under-{kind}")
        committed(cluster)
        first, *others = (described(node, topics) for node in cluster.nodes.values())
        assert first.count("retention.ms=7000000") == len(topics)
        assert others == [first, first]
        # A node that was killed may have got a snapshot instead of the log's beginning.
        each = [payloads(node) for node in cluster.nodes.values()]
        start = max(records[0].offset for records in each)
        of_first, *of_others = ([one for one in all_ if one.offset >= start] for all_ in each)
        assert of_others == [of_first, of_first]

        for kind in KINDS:
            lead = let_lead(cluster, kind)
            leader = cluster.nodes[lead.node_id]
            more = change_everywhere(cluster, f"snapshot-of-{kind}")
            wait_until(partial(has_snapshot, leader), 60, f"a snapshot of {kind}")
            follower = next(node for node in cluster.nodes.values() if node.kind != kind)
            lose_disk(cluster, follower)
            given = snapshots_of(follower)[0]
            origin = leader.log_directory / METADATA_LOG / given.name
            assert given.read_bytes() == origin.read_bytes()
            dump(files_in(given.parent, ".checkpoint"), DECODED)
            (head, *_) = batches(metadata_bytes(follower.log_directory))
            assert head.base_offset == int(given.name[:20])
            wait_until(partial(is_listed, follower, more[-1]), 60, "the last topic")
            topics += more
            committed(cluster)
        first, *others = (described(node, topics) for node in cluster.nodes.values())
        assert others == [first, first]
