"""Kafka's own tools for topics, partitions, directories and the quorum do their job against us."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.bench.harness.processes.tierlog_node import TierlogNode

from .many_tools import ManyTools, Said

pytestmark = pytest.mark.requires("java", "mvn")

MESSAGES = 9


class Asked(NamedTuple):
    """The broker that is asked, and what asks it."""

    port: int
    tools: ManyTools


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    directory = tmp_path_factory.mktemp("tools")
    directories = f"{directory}/first,{directory}/second"
    properties = {"node.id": "1", "log.dirs": directories}
    with TierlogNode(directory, properties=properties) as running, ManyTools() as tools:
        asked = Asked(running.port, tools)
        for name, partitions in (("known", 3), ("other", 1)):
            tool(asked, "kafka-topics", "--create", "--topic", name, *sized(partitions))
        values = "".join(f"key:{number}\n" for number in range(MESSAGES))
        keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        tool(asked, "kafka-console-producer", "--topic", "known", *keyed, stdin=values)
        yield asked


def tool(node: Asked, name: str, *arguments: str, stdin: str = "", check: bool = True) -> Said:
    # The one tool that wants its command before the address.
    before = 1 if name == "kafka-cluster" else 0
    server = ("--bootstrap-server", f"127.0.0.1:{node.port}")
    said = node.tools.run(name, *arguments[:before], *server, *arguments[before:], stdin=stdin)
    assert said.code == 0 or not check, said.text
    return said


def sized(partitions: int) -> tuple[str, ...]:
    return ("--partitions", str(partitions), "--config", "retention.ms=86400000")


def topics(node: Asked, *arguments: str, check: bool = True) -> str:
    return tool(node, "kafka-topics", *arguments, check=check).out


def test_topics_are_made_grown_described_and_deleted(node: Asked) -> None:
    made = topics(node, "--create", "--topic", "made", "--replica-assignment", "1,1")
    assert made == "Created topic made.\n"
    again = ("--create", "--topic", "made", "--partitions", "5")
    assert "Topic 'made' already exists" in topics(node, *again, check=False)
    assert topics(node, *again, "--if-not-exists").strip() == ""
    topics(node, "--alter", "--topic", "made", "--partitions", "4")
    described = topics(node, "--describe", "--topic", "made")
    assert "PartitionCount: 4\tReplicationFactor: 1" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 4
    paged = topics(
        node, "--describe", "--topic", "made", "--partition-size-limit-per-response", "1"
    )
    assert paged == described
    found = re.search(r"TopicId: (\S+)", described)
    assert found is not None
    by_id = topics(node, "--describe", "--topic-id", found[1])
    assert by_id.count("Leader: 1\tReplicas: 1\tIsr: 1") == 4
    topics(node, "--delete", "--topic", "made")
    assert "does not exist as expected" in topics(node, "--delete", "--topic", "made", check=False)
    assert topics(node, "--delete", "--topic", "made", "--if-exists").strip() == ""


@pytest.mark.parametrize(
    ("filter_", "shown"),
    [
        ("--topics-with-overrides", 2),
        ("--at-min-isr-partitions", 4),
        ("--under-replicated-partitions", 0),
        ("--unavailable-partitions", 0),
        ("--under-min-isr-partitions", 0),
    ],
)
def test_topics_are_described_through_filters(node: Asked, filter_: str, shown: int) -> None:
    lines = topics(node, "--describe", filter_, "--exclude-internal").splitlines()
    assert len(lines) == shown


@pytest.mark.parametrize(
    ("when", "offset"),
    [
        ("latest", MESSAGES),
        ("-1", MESSAGES),
        ("earliest", 0),
        ("earliest-local", 0),
        ("1700000000000", 0),
        ("latest-tiered", None),
        ("earliest-pending-upload", None),
    ],
)
def test_offsets_of_every_kind_are_shown(node: Asked, when: str, offset: int | None) -> None:
    output = tool(node, "kafka-get-offsets", "--topic", "known", "--time", when).out
    by_partition = [int(line.rpartition(":")[2]) for line in output.splitlines()]
    assert max(by_partition, default=None) == offset


def test_the_offset_of_the_largest_timestamp_is_shown(node: Asked) -> None:
    output = tool(node, "kafka-get-offsets", "--topic", "known", "--time", "max-timestamp").out
    assert re.fullmatch(r"known:\d:[0-8]\n", output)


def test_directories_show_their_logs_and_sizes(node: Asked) -> None:
    output = tool(node, "kafka-log-dirs", "--describe", "--topic-list", "known").out
    (broker,) = json.loads(output.splitlines()[-1])["brokers"]
    logs = {
        each["partition"]: (
            each["size"] > 0,
            each["offsetLag"],
            each["isFuture"],
            Path(d["logDir"]),
        )
        for d in broker["logDirs"]
        for each in d["partitions"]
    }
    assert sorted(logs) == ["known-0", "known-1", "known-2"]
    assert sum(has_records for has_records, *_ in logs.values()) == 1
    for name, (_, lag, is_future, directory) in logs.items():
        assert (lag, is_future) == (0, False)
        assert (directory / name).is_dir()


def test_the_quorum_is_this_node(node: Asked) -> None:
    status = tool(node, "kafka-metadata-quorum", "describe", "--status").out
    assert re.search(r"LeaderId: +1\nLeaderEpoch: +1\n", status)
    assert re.search(r'CurrentVoters: +\[\{"id": 1', status)
    replication = tool(node, "kafka-metadata-quorum", "describe", "--replication").out
    (leader,) = replication.splitlines()[1:]
    assert leader.split()[0] == "1"
    assert leader.split()[-1] == "Leader"


def test_the_preferred_leader_leads_already(node: Asked) -> None:
    partition = ("--topic", "known", "--partition", "0")
    preferred = tool(node, "kafka-leader-election", "--election-type", "preferred", *partition)
    assert "Valid replica already elected for partitions known-0" in preferred.out
    everywhere = ("--election-type", "unclean", "--all-topic-partitions")
    assert tool(node, "kafka-leader-election", *everywhere).code == 0


def test_partitions_are_reassigned_to_where_they_are(node: Asked, tmp_path: Path) -> None:
    file = tmp_path / "moves.json"

    def reassign(*arguments: str, replicas: tuple[int, ...] = (1,)) -> str:
        move = {"topic": "known", "partition": 0, "replicas": replicas}
        file.write_text(json.dumps({"version": 1, "partitions": [move]}))
        said = tool(node, "kafka-reassign-partitions", *arguments, check=False)
        return said.out + said.errors

    moves = ("--reassignment-json-file", str(file))
    assert "Successfully started partition reassignment for known-0" in reassign(
        "--execute", *moves
    )
    assert "Reassignment of partition known-0 is completed." in reassign("--verify", *moves)
    assert "No partition reassignments found." in reassign("--list")
    assert "None of the specified partition reassignments are active" in reassign(
        "--cancel", *moves
    )
    assert "Unknown broker id 2" in reassign("--execute", *moves, replicas=(1, 2))


def test_producers_are_described(node: Asked) -> None:
    outputs = [
        tool(node, "kafka-transactions", "describe-producers", "--topic", "known", *partition)
        for partition in (("--partition", "0"), ("--partition", "1"), ("--partition", "2"))
    ]
    # The console producer is idempotent, and all of its records have one key.
    assert sorted(len(each.out.splitlines()) for each in outputs) == [1, 1, 2]


def test_the_cluster_and_its_versions_are_shown(node: Asked) -> None:
    versions = tool(node, "kafka-broker-api-versions").out
    assert "DescribeTopicPartitions(75): 0 [usable: 0]" in versions
    assert "ShareFetch(78): UNSUPPORTED" in versions
    output = tool(node, "kafka-cluster", "cluster-id").out
    assert re.fullmatch(r"Cluster ID: \S{22}\n", output)
    listed = tool(node, "kafka-cluster", "list-endpoints").out
    assert re.search(rf"1 +127\.0\.0\.1 +{node.port} +null +unfenced +broker", listed)
    unknown = tool(node, "kafka-cluster", "unregister", "--id", "77", check=False)
    assert "Broker ID 77 is not currently registered" in unknown.errors


def test_records_are_deleted(node: Asked, tmp_path: Path) -> None:
    topics(node, "--create", "--topic", "emptied", "--partitions", "1")
    tool(node, "kafka-console-producer", "--topic", "emptied", stdin="one\ntwo\nthree\n")
    file = tmp_path / "deletions.json"
    deletion = {"topic": "emptied", "partition": 0, "offset": 2}
    file.write_text(json.dumps({"version": 1, "partitions": [deletion]}))
    output = tool(node, "kafka-delete-records", "--offset-json-file", str(file)).out
    assert "partition: emptied-0\tlow_watermark: 2" in output
    reading = ("--topic", "emptied", "--from-beginning", "--max-messages", "1")
    assert tool(node, "kafka-console-consumer", *reading).out == "three\n"
    topics(node, "--delete", "--topic", "emptied")
