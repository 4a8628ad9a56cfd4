"""Three controllers and two brokers apart: the brokers follow a quorum that they are no part of.

Both clusters start from the same properties files: `process.roles=controller` for three processes,
`process.roles=broker` for two. What Kafka's tools print of both is the same.
"""

import re
from collections.abc import Iterator
from functools import partial

import pytest

from tierlog.bench.harness.processes.cluster import Cluster, separate
from tierlog.bench.harness.processes.kafka_peer import run_tool

from ..waiting import wait_until
from .cluster_processes import ToolsOnClusters, both_clusters

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]

CONTROLLERS = (1, 2, 3)
BROKERS = (11, 12)
OF_THE_QUORUM = (
    (r"(LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs):\s+\d+", r"\1: N"),
    # They come in the order of a hash table.
    (r'\[({"id": 12, [^}]*}), ({"id": 11, [^}]*})\]', r"[\2, \1]"),
)
OF_A_LEADER = re.compile(r"LeaderId:\s+(\d+)")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsOnClusters]:
    with both_clusters(
        tmp_path_factory.mktemp("apart"),
        lambda kind: separate((kind, kind, kind), (kind, kind)),
    ) as clusters:
        yield clusters


@pytest.mark.parametrize("at", [*CONTROLLERS, *BROKERS])
def test_brokers_are_observers_of_the_quorum(both: ToolsOnClusters, at: int) -> None:
    tool = "kafka-metadata-quorum"
    status = both.same_at(at, tool, "describe", "--status", masks=OF_THE_QUORUM)
    lines = dict(line.split(":", 1) for line in status.splitlines())
    assert all(f'"id": {each}' in lines["CurrentVoters"] for each in CONTROLLERS)
    assert all(f'"id": {each}' in lines["CurrentObservers"] for each in BROKERS)
    kafka, ours = (
        [line.split() for line in said.out.splitlines()]
        for said in both.said_at(at, tool, "describe", "--replication")
    )
    assert sorted((row[0], row[-1]) for row in ours if row[-1] == "Observer") == [
        ("11", "Observer"),
        ("12", "Observer"),
    ]
    assert [row[-1] for row in ours] == [row[-1] for row in kafka]


def test_the_brokers_alone_are_endpoints_for_clients(both: ToolsOnClusters) -> None:
    endpoints = both.same_everywhere("kafka-cluster", "list-endpoints")
    assert endpoints.count("unfenced") == 2
    for at in CONTROLLERS:
        controllers = both.same_at(at, "kafka-cluster", "list-endpoints")
        assert controllers.count("CONTROLLER-") == 3
    assert both.same_everywhere("kafka-cluster", "cluster-id") == "Cluster ID: AN-ID\n"


def test_topics_and_settings_change_at_either_broker(both: ToolsOnClusters) -> None:
    name = "of-two-brokers"
    creating = ("--create", "--topic", name, "--replica-assignment", "11,12,11")
    assert both.same_at(12, "kafka-topics", *creating) == f"Created topic {name}.\n"
    describing = ("kafka-topics", "--describe", "--topic", name)
    both.wait_until_said("Partition: 2\tLeader: 11\t", *describing)
    topic = ("--entity-type", "topics", "--entity-name", name)
    both.same_at(11, "kafka-configs", "--alter", "--add-config", "retention.ms=7000000", *topic)
    both.wait_until_said("retention.ms=7000000", *describing)
    both.same_everywhere(*describing)
    both.same_everywhere("kafka-configs", "--describe", *topic, ordered=False)
    assert both.same_at(12, "kafka-topics", "--delete", "--topic", name) == ""
    both.wait_until_said("does not exist as expected", *describing)


@pytest.mark.parametrize("at", CONTROLLERS)
def test_controllers_take_what_concerns_the_whole_cluster(both: ToolsOnClusters, at: int) -> None:
    """KIP-919: what a tool asks of a controller's listener itself."""
    default = ("--entity-type", "brokers", "--entity-default")
    value = f"log.retention.ms={at}000000"
    said = both.same_at(at, "kafka-configs", "--alter", "--add-config", value, *default)
    assert "Completed updating default config for brokers in the cluster." in said
    both.wait_until_said(value, "kafka-configs", "--describe", *default)
    upgrading = ("upgrade", "--feature", "metadata.version=30", "--dry-run")
    assert "can be upgraded to 30" in both.same_at(at, "kafka-features", *upgrading)


def test_a_broker_that_leaves_is_fenced_and_comes_back(both: ToolsOnClusters) -> None:
    """A clean stop is a controlled shutdown, so that the others need not wait for its session."""
    for cluster in both.pair:
        cluster.nodes[12].stop()
        assert 12 not in cluster.nodes[11].unfenced()
    listing = ("list-endpoints", "--include-fenced-brokers")
    listed = both.same_at(11, "kafka-cluster", *listing)
    assert "unfenced" in listed
    assert re.search(r"(?m)^12 .*\bfenced", listed)
    for cluster in both.pair:
        cluster.nodes[12].start()
        cluster.wait_until_caught_up()
    assert both.same_everywhere("kafka-cluster", "list-endpoints").count("unfenced") == 2


def _names(cluster: Cluster, leader: int) -> bool:
    """Whether a broker says that this controller leads."""
    server = ("--bootstrap-server", cluster.nodes[11].bootstrap)
    said = run_tool("kafka-metadata-quorum", *server, "describe", "--status", check=False).stdout
    return OF_A_LEADER.findall(said) == [str(leader)]


# -- Last, for it takes controllers away ------------------------------------------------------


def test_brokers_follow_the_next_leader(both: ToolsOnClusters) -> None:
    for cluster in both.pair:
        lead = cluster.wait_for_leader()
        cluster.nodes[lead.node_id].kill()
        following = cluster.wait_for_leader(after_epoch=lead.epoch).node_id

        wait_until(partial(_names, cluster, following), 60, f"{following} as leader")
    creating = ("--create", "--topic", "under-another", "--replica-assignment", "11,12")
    assert both.same_at(11, "kafka-topics", *creating) == "Created topic under-another.\n"
    both.wait_until_said("Leader: 12", "kafka-topics", "--describe", "--topic", "under-another")
