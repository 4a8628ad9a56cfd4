"""Three processes of ours are one cluster, as three processes of Apache Kafka are.

Both clusters start from the same properties files, every node controller and broker. Kafka's own
tools are sent to each node of both, and print the same of both, but for what is drawn or measured.
Every change is made at one node and looked at on all of them.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.cluster import combined

from ..waiting import wait_until
from .cluster_processes import ToolsOnClusters, both_clusters

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]

NODES = (1, 2, 3)
OF_THE_QUORUM = (
    (r"(LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs):\s+\d+", r"\1: N"),
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsOnClusters]:
    with both_clusters(
        tmp_path_factory.mktemp("three"), lambda kind: combined(kind, kind, kind)
    ) as clusters:
        yield clusters


def columns(line: str) -> list[str]:
    return re.split(r"\s+", line.strip())


# -- The quorum -------------------------------------------------------------------------------


@pytest.mark.parametrize("at", NODES)
def test_the_quorum_has_one_leader_and_three_voters(both: ToolsOnClusters, at: int) -> None:
    tool = "kafka-metadata-quorum"
    status = both.same_at(at, tool, "describe", "--status", masks=OF_THE_QUORUM)
    (voters,) = (line for line in status.splitlines() if line.startswith("CurrentVoters"))
    assert all(f'"id": {node}' in voters for node in NODES)
    assert "CONTROLLER://127.0.0.1:CONTROLLER-2" in voters
    for human in ((), ("--human-readable",)):
        kafka, ours = (
            [columns(line) for line in said.out.splitlines()]
            for said in both.said_at(at, tool, "describe", "--replication", *human)
        )
        assert ours[0] == kafka[0]
        assert sorted(row[0] for row in ours[1:]) == ["1", "2", "3"]
        assert [row[-1] for row in ours] == [row[-1] for row in kafka]
        assert [row[-1] for row in ours[1:]] == ["Leader", "Follower", "Follower"]


@pytest.mark.parametrize("at", NODES)
def test_a_controllers_listener_describes_the_quorum_too(both: ToolsOnClusters, at: int) -> None:
    tool = "kafka-metadata-quorum"
    status = both.same_at(at, tool, "@controller", "describe", "--status", masks=OF_THE_QUORUM)
    assert "LeaderId: N" in status


def test_all_nodes_name_the_same_leader(both: ToolsOnClusters) -> None:
    for of_one_kind in zip(
        *(both.said_at(at, "kafka-metadata-quorum", "describe", "--status") for at in NODES),
        strict=True,
    ):
        leaders = {re.findall(r"LeaderId:\s+(\d+)", said.out)[0] for said in of_one_kind}
        assert len(leaders) == 1


# -- Topics -----------------------------------------------------------------------------------


def test_a_topic_is_created_at_one_node_and_described_by_all(both: ToolsOnClusters) -> None:
    tool = "kafka-topics"
    for at in NODES:
        name = f"of-node-{at}"
        creating = ("--create", "--topic", name, "--replica-assignment", "1,2,3")
        said = both.same_at(at, tool, *creating, "--config", "retention.ms=86400000")
        assert said == f"Created topic {name}.\n"
        both.wait_until_said("Partition: 2\tLeader: 3\t", tool, "--describe", "--topic", name)
        described = both.same_everywhere(tool, "--describe", "--topic", name)
        assert "PartitionCount: 3\tReplicationFactor: 1\t" in described
        assert "Configs: min.insync.replicas=1,retention.ms=86400000" in described
    listed = both.same_everywhere(tool, "--list")
    assert set(listed.split()) >= {f"of-node-{at}" for at in NODES}


def test_partitions_are_spread_over_the_brokers(both: ToolsOnClusters) -> None:
    tool, name = "kafka-topics", "spread"
    both.same_at(1, tool, "--create", "--topic", name, "--partitions", "6")
    both.wait_until_said("Partition: 5\tLeader: ", tool, "--describe", "--topic", name)
    both.same_everywhere(tool, "--describe", "--topic", name)
    for said in both.said_at(2, tool, "--describe", "--topic", name):
        leaders = re.findall(r"Leader: (\d+)\t", said.out)
        assert sorted(leaders) == ["1", "1", "2", "2", "3", "3"]


def test_a_topic_grows_at_one_node_and_goes_at_another(both: ToolsOnClusters) -> None:
    tool, name = "kafka-topics", "passing"
    both.same_at(3, tool, "--create", "--topic", name)
    both.wait_until_said("Partition: 0", tool, "--describe", "--topic", name)
    growing = ("--alter", "--topic", name, "--partitions")
    assert both.same_at(2, tool, *growing, "4") == ""
    both.wait_until_said("Partition: 3", tool, "--describe", "--topic", name)
    assert "2 would not be an increase" in both.same_at(1, tool, *growing, "2")
    assert both.same_at(1, tool, "--delete", "--topic", name) == ""
    both.wait_until_said("does not exist as expected", tool, "--describe", "--topic", name)
    assert name not in both.same_everywhere(tool, "--list").split()


@pytest.mark.parametrize("at", NODES)
def test_what_cannot_be_created_is_refused_everywhere_in_the_same_words(
    both: ToolsOnClusters, at: int
) -> None:
    tool = "kafka-topics"
    for options in (
        ("--replication-factor", "4"),
        ("--replica-assignment", "4"),
        ("--replica-assignment", "1:1"),
        ("--partitions", "0"),
        ("--config", "retention.ms=never"),
        ("--config", "nothing=1"),
    ):
        kafka, ours = both.said_at(at, tool, "--create", "--topic", "never", *options)
        assert (ours.code, ours.out.splitlines()[:1]) == (kafka.code, kafka.out.splitlines()[:1])
    assert "never" not in both.same_at(at, tool, "--list").split()


# -- Configurations ---------------------------------------------------------------------------


def test_configurations_of_a_topic_change_at_any_node(both: ToolsOnClusters) -> None:
    name = "configured"
    both.same_at(1, "kafka-topics", "--create", "--topic", name)
    topic = ("--entity-type", "topics", "--entity-name", name)
    both.wait_until_said(f"Dynamic configs for topic {name}", "kafka-configs", "--describe", *topic)
    for at in NODES:
        value = f"retention.ms={at}000000"
        said = both.same_at(at, "kafka-configs", "--alter", "--add-config", value, *topic)
        assert f"Completed updating config for topic {name}." in said
        both.wait_until_said(f"{value} ", "kafka-configs", "--describe", *topic)
        both.same_everywhere("kafka-configs", "--describe", *topic, ordered=False)
    both.same_at(2, "kafka-configs", "--alter", "--delete-config", "retention.ms", *topic)
    refused = both.same_at(3, "kafka-configs", "--alter", "--add-config", "segment.ms=x", *topic)
    assert "InvalidConfigurationException" in refused


def test_configurations_of_brokers_and_their_defaults(both: ToolsOnClusters) -> None:
    tool = "kafka-configs"
    default = ("--entity-type", "brokers", "--entity-default")
    said = both.same_at(2, tool, "--alter", "--add-config", "log.retention.ms=5000000", *default)
    assert "Completed updating default config for brokers in the cluster." in said
    both.wait_until_said("log.retention.ms=5000000", tool, "--describe", *default)
    both.same_everywhere(tool, "--describe", *default, ordered=False)
    for broker in NODES:
        one = ("--entity-type", "brokers", "--entity-name", str(broker))
        value = f"log.segment.delete.delay.ms={broker}0000"
        # At another node than the broker that it is for.
        said = both.same_at(broker % 3 + 1, tool, "--alter", "--add-config", value, *one)
        assert f"Completed updating config for broker {broker}." in said
        both.wait_until_said(value, tool, "--describe", *one)
        both.same_everywhere(tool, "--describe", *one, ordered=False)
    both.same_at(1, tool, "--alter", "--delete-config", "log.retention.ms", *default)


# -- Features ---------------------------------------------------------------------------------

ELR = "eligible.leader.replicas.version"
OF_FEATURES = (
    (r"(?m)^Feature: (share|streams)\.version\s.*\n", ""),
    (r"Epoch: \d+", "Epoch: N"),
    (r"Local controller \d", "Local controller N"),
)


def has_level(both: ToolsOnClusters, at: int, level: str) -> bool:
    """Whether a node of either kind lists the level of eligible leader replicas."""
    said = both.said_at(at, "kafka-features", "describe")
    lines = [re.findall(rf"(?m)^Feature: {ELR}\s.*Level: (\d)", each.out) for each in said]
    return lines == [[level], [level]]


def test_features_are_described_lowered_and_raised_at_any_node(both: ToolsOnClusters) -> None:
    tool, name = "kafka-features", "kafka-configs"
    cluster = ("--entity-type", "brokers", "--entity-default")
    broker = ("--entity-type", "brokers", "--entity-name", "2")
    described = both.same_everywhere(tool, "describe", masks=OF_FEATURES)
    assert f"Feature: {ELR}" in described
    both.same_everywhere(name, "--describe", *cluster)
    changes = ("min.insync.replicas=2", *broker), ("min.insync.replicas=1", *cluster)
    for at, (value, *whose) in enumerate(changes, 1):
        both.same_at(at, name, "--alter", "--add-config", value, *whose)
        both.same_at(at, name, "--alter", "--delete-config", "min.insync.replicas", *whose)
    for at, command in zip(NODES, ("upgrade", "downgrade", "upgrade"), strict=True):
        level = "0" if command == "downgrade" else "1"
        both.same_at(at, tool, command, "--dry-run", "--feature", f"{ELR}={level}")
        both.same_at(at, tool, command, "--feature", f"{ELR}={level}")
        # One broker after the other hears of it.
        for node in NODES:
            wait_until(partial(has_level, both, node, level), 60, f"{ELR}={level} at {node}")
        both.same_everywhere(tool, "describe", masks=OF_FEATURES)
    for command, change in (("upgrade", f"{ELR}=2"), ("downgrade", "metadata.version=7")):
        both.same_at(2, tool, command, "--feature", change, masks=OF_FEATURES)


# -- The cluster ------------------------------------------------------------------------------


def test_the_cluster_has_one_id_and_three_endpoints(both: ToolsOnClusters) -> None:
    for cluster, said in zip(
        both.pair, both.said_at(3, "kafka-cluster", "cluster-id"), strict=True
    ):
        assert said.out == f"Cluster ID: {cluster.cluster_id}\n"
    assert both.same_everywhere("kafka-cluster", "cluster-id") == "Cluster ID: AN-ID\n"
    endpoints = both.same_everywhere("kafka-cluster", "list-endpoints")
    assert endpoints.count("unfenced") == 3
    both.same_everywhere("kafka-cluster", "list-endpoints", "--include-fenced-brokers")
    assert "77 is not" in both.same_everywhere("kafka-cluster", "unregister", "--id", "77")


@pytest.mark.parametrize("at", NODES)
def test_a_controllers_listener_lists_the_controllers(both: ToolsOnClusters, at: int) -> None:
    endpoints = both.same_at(at, "kafka-cluster", "list-endpoints", "@controller")
    assert endpoints.count("CONTROLLER-") == 3


@pytest.mark.parametrize("at", NODES)
def test_the_finalised_features_are_those_of_kafka(both: ToolsOnClusters, at: int) -> None:
    kafka, ours = (
        {columns(line)[1]: columns(line)[2:8] for line in said.out.splitlines()}
        for said in both.said_at(at, "kafka-features", "describe")
    )
    # Kafka has features that we do not serve.
    assert {name: kafka[name] for name in ours} == ours
    assert "metadata.version" in ours
    upgrading = ("upgrade", "--feature", "metadata.version=30", "--dry-run")
    assert "can be upgraded to 30" in both.same_at(at, "kafka-features", *upgrading)


@pytest.mark.parametrize("at", NODES)
def test_every_node_lists_what_all_brokers_serve(both: ToolsOnClusters, at: int) -> None:
    tool = "kafka-broker-api-versions"
    kafka, ours = (
        {line.strip().partition("(")[0]: line.rstrip(",") for line in said.out.splitlines()}
        for said in both.said_at(at, tool)
    )
    # Kafka takes clients' metrics only with a plugin that wants them.
    served = {
        name: line for name, line in ours.items() if "usable" in line and "Telemetry" not in name
    }
    assert len(served) > 30
    assert {name: kafka[name] for name in served} == served
    for said in both.said_at(at, tool):
        brokers = re.findall(r"\(id: (\d+) rack: null isFenced: false\) ->", said.out)
        assert sorted(brokers) == ["1", "2", "3"]


# -- Partitions -------------------------------------------------------------------------------


def test_reassignments_and_elections_where_there_is_nothing_to_do(
    both: ToolsOnClusters, tmp_path: Path
) -> None:
    name = "elected"
    both.same_at(1, "kafka-topics", "--create", "--topic", name, "--replica-assignment", "3,2,1")
    both.wait_until_said("Partition: 2\tLeader: 1", "kafka-topics", "--describe", "--topic", name)
    listed = both.same_everywhere("kafka-reassign-partitions", "--list")
    assert listed == "No partition reassignments found.\n"
    tool, preferred = "kafka-leader-election", ("--election-type", "preferred")
    assert both.same_everywhere(tool, *preferred, "--all-topic-partitions") == ""
    file = tmp_path / "partitions.json"
    partitions = [{"topic": name, "partition": number} for number in range(3)]
    file.write_text(json.dumps({"partitions": partitions}))
    said = both.same_everywhere(
        tool, *preferred, "--path-to-json-file", str(file), masks=((rf"{name}-\d", "ONE"),)
    )
    assert said == "Valid replica already elected for partitions ONE, ONE, ONE\n"
