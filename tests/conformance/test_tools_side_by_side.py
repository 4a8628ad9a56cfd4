"""What Kafka's tools print of us is what they print of Apache Kafka, option by option.

One story, told to both brokers by the tools themselves. Only what a cluster draws or measures for
itself is masked, and every answer is held against an expectation of its own besides, so that two
empty answers prove nothing.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.protocol.api import ApiKey

from ..broker_process import RawClient
from ..waiting import wait_until
from .many_tools import ManyTools, ToolsOnBoth
from .meaningful_requests import ask, error_codes
from .twins import Side

pytestmark = pytest.mark.requires("java", "mvn")

KNOWN, OTHER = "known", "other"
SETTINGS = {
    "node.id": "1",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
MASKS = (
    # Its number makes a table's columns wider or narrower.
    (r"console-consumer-\d+ ?", "A-CONSOLE  "),
    (r" {2,}", "  "),
    (r"\b[A-Za-z0-9_-]{22}\b", "AN-ID"),
    (r"CreateTime:\d{13}", "CreateTime:THEN"),
    # Kafka keeps it as a dynamic default of the cluster, for the sake of eligible leader replicas.
    (r"(?m)^ +min\.insync\.replicas.*\n", ""),
    (r"min\.insync\.replicas=1,?", ""),
    (r'"(logDir|log_dirs)":("[^"]*"|\[[^]]*\])', r'"\1":"HERE"'),
)
TIMEOUT = ("--timeout-ms", "20000")
SPOKEN = "h:1,i:2\tk\tv\nNULL\tb\tno headers\nh:1\tk\tNULL\nh:2\tk\tlast\n"


def wait_for_leaders(both: ToolsOnBoth, topic: str, partitions: int) -> None:
    """Kafka's broker hears a little later of what its controller has done."""
    for node in both.nodes:
        with RawClient(node.port) as client:
            led = partial(has_leaders, Side(client), topic, partitions)
            wait_until(led, 60, f"no leaders of {topic}")


def has_leaders(side: Side, topic: str, partitions: int) -> bool:
    asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    topics = [{"name": topic, "partitions": asked}]
    return error_codes(ask(side, ApiKey.LIST_OFFSETS, 5, topics=topics)) == {0}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsOnBoth]:
    kafka = KafkaNode(tmp_path_factory.mktemp("kafka"), properties=SETTINGS, heap="512m")
    untiered = SETTINGS | {"remote.log.storage.system.enable": "false"}
    ours = TierlogNode(tmp_path_factory.mktemp("ours"), properties=untiered)
    with kafka, ours, ManyTools() as tools:
        both_nodes = ToolsOnBoth(tools, kafka, ours, MASKS)
        configs = ("--config", "retention.ms=86400000", "--config", "max.message.bytes=2000000")
        creating = ("--create", "--topic", KNOWN, "--partitions", "2", *configs)
        assert both_nodes.same("kafka-topics", *creating) == f"Created topic {KNOWN}.\n"
        assert both_nodes.same("kafka-topics", "--create", "--topic", OTHER).startswith("Created")
        wait_for_leaders(both_nodes, KNOWN, 2)
        wait_for_leaders(both_nodes, OTHER, 1)
        yield both_nodes


@pytest.fixture(scope="module")
def filled(both: ToolsOnBoth) -> ToolsOnBoth:
    """With records that the console producer was told, all in partition 0, and a group that has
    read them."""
    properties = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    reader = [word for each in properties for word in ("--reader-property", each)]
    producing = ("--topic", KNOWN, *reader)
    assert both.same("kafka-console-producer", *producing, stdin=SPOKEN) == ""
    compressed = ("--topic", OTHER, "--compression-codec", "gzip", "--sync")
    assert both.same("kafka-console-producer", *compressed, stdin="1\n2\n3\n") == ""
    reading = ("--include", f"{KNOWN}|{OTHER}", "--from-beginning", "--max-messages", "7")
    lines = both.same_lines("kafka-console-consumer", *reading, *TIMEOUT, "--group", "g")
    assert lines[:3] == ["1", "2", "3"]
    return both


def columns(line: str) -> list[str]:
    return re.split(r"\s{1,}", line.strip())


# -- Topics -----------------------------------------------------------------------------------


def test_topics_are_listed_and_described(both: ToolsOnBoth) -> None:
    assert both.same("kafka-topics", "--list", "--exclude-internal").split() == [KNOWN, OTHER]
    assert both.same("kafka-topics", "--list", "--topic", "kno.*").split() == [KNOWN]
    described = both.same("kafka-topics", "--describe", "--topic", f"{KNOWN}|{OTHER}")
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=86400000" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 3
    assert "does not exist as expected" in both.same("kafka-topics", "--describe", "--topic", "no")


def test_a_topic_grows_and_goes(both: ToolsOnBoth) -> None:
    assert both.same("kafka-topics", "--create", "--topic", "passing") == "Created topic passing.\n"
    wait_for_leaders(both, "passing", 1)
    growing = ("--alter", "--topic", "passing", "--partitions")
    assert both.same("kafka-topics", *growing, "3") == ""
    wait_for_leaders(both, "passing", 3)
    assert "2 would not be an increase" in both.same("kafka-topics", *growing, "2")
    assert both.same("kafka-topics", "--delete", "--topic", "passing") == ""


# -- Records ----------------------------------------------------------------------------------

READ_KNOWN = ("--topic", KNOWN, "--from-beginning", "--max-messages", "4", *TIMEOUT)
READ_OTHER = ("--topic", OTHER, "--from-beginning", "--max-messages", "3", *TIMEOUT)
FORMATTERS = "org.apache.kafka.tools.consumer."


def test_the_console_consumer_prints_all_that_a_record_has(filled: ToolsOnBoth) -> None:
    shown = ("timestamp", "key", "headers", "offset", "partition", "epoch")
    properties = [f"print.{name}=true" for name in shown]
    properties += ["null.literal=NOTHING", "key.separator=|"]
    formatter = [word for each in properties for word in ("--formatter-property", each)]
    output = filled.same("kafka-console-consumer", *READ_KNOWN, *formatter)
    start = "CreateTime:THEN|Partition:0|Offset:{}|Epoch:{}|"
    ends = ("h:1,i:2|k|v", "NO_HEADERS|b|no headers", "h:1|k|NOTHING", "h:2|k|last")
    lines = [line for line in output.splitlines() if line.startswith("CreateTime")]
    assert [line.rpartition("Epoch:")[2].partition("|")[2] for line in lines] == list(ends)
    assert lines[2].startswith(start.format(2, lines[2].split("Epoch:")[1].split("|")[0]))


def test_the_console_consumer_starts_at_the_stated_offset(filled: ToolsOnBoth) -> None:
    reading = (
        "--topic",
        KNOWN,
        "--partition",
        "0",
        "--offset",
        "1",
        "--max-messages",
        "1",
        *TIMEOUT,
    )
    assert filled.same("kafka-console-consumer", *reading) == "no headers\n"


@pytest.mark.parametrize(
    "options",
    [
        ("--formatter", f"{FORMATTERS}NoOpMessageFormatter"),
        ("--formatter", f"{FORMATTERS}LoggingMessageFormatter"),
        ("--isolation-level", "read_committed"),
        ("--command-property", "auto.offset.reset=earliest"),
        (
            "--formatter-property",
            "value.deserializer=org.apache.kafka.common.serialization.BytesDeserializer",
        ),
    ],
)
def test_the_console_consumers_other_options(filled: ToolsOnBoth, options: tuple[str, ...]) -> None:
    lines = filled.same_lines("kafka-console-consumer", *READ_OTHER, *options)
    assert (lines[:3] == ["1", "2", "3"]) == ("NoOp" not in options[1])


@pytest.mark.parametrize(
    ("time", "known", "other"),
    [
        ("-1", ["0:4", "1:0"], ["0:3"]),
        ("-2", ["0:0", "1:0"], ["0:0"]),
        ("-4", ["0:0", "1:0"], ["0:0"]),
        ("-5", [], []),
        ("-6", [], []),
        ("1600000000000", ["0:0"], ["0:0"]),
        ("9900000000000", [], []),
    ],
)
def test_offsets_are_shown(
    filled: ToolsOnBoth, time: str, known: list[str], other: list[str]
) -> None:
    asked = ("--topic-partitions", f"{KNOWN},{OTHER}", "--time", time)
    expected = [f"{KNOWN}:{each}" for each in known] + [f"{OTHER}:{each}" for each in other]
    assert filled.same("kafka-get-offsets", *asked).splitlines() == expected


def test_offsets_of_some_partitions_are_shown(filled: ToolsOnBoth) -> None:
    some = ("--topic-partitions", f"{KNOWN}:1-,{OTHER}:-1")
    assert filled.same("kafka-get-offsets", *some).split() == [f"{KNOWN}:1:0", f"{OTHER}:0:3"]
    one = ("--topic", "k.*n", "--partitions", "0", "--exclude-internal-topics")
    assert filled.same("kafka-get-offsets", *one).split() == [f"{KNOWN}:0:4"]
    assert "Could not match any" in filled.same("kafka-get-offsets", "--topic", "nope")


# -- Groups -----------------------------------------------------------------------------------

IN_GROUP = ("--group", "g")
RESET = ("--reset-offsets", *IN_GROUP, "--topic", KNOWN)


def test_a_group_is_described(filled: ToolsOnBoth) -> None:
    tool = "kafka-consumer-groups"
    described = filled.same(tool, "--describe", *IN_GROUP, "--offsets")
    assert ["g", KNOWN, "0", "4", "4", "0", "-", "-", "-"] in map(columns, described.splitlines())
    assert "has no active members" in filled.same(tool, "--describe", *IN_GROUP, "--members")
    assert " Empty " in filled.same(tool, "--describe", *IN_GROUP, "--state")
    assert "Group nope not found" in filled.same(tool, "--describe", "--group", "nope")
    for option, ends in (("--state", ["g", "Empty"]), ("--type", ["g", "Classic"])):
        assert ends in map(columns, filled.same_lines(tool, "--list", option))
    listed = filled.same_lines("kafka-groups", "--list", "--group-type", "classic")
    assert ["g", "Classic", "consumer"] in map(columns, listed)


@pytest.mark.parametrize(
    ("way", "offset"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 4),
        (("--shift-by", "-3"), 1),
        (("--to-current",), 1),
        (("--to-offset", "2"), 2),
        (("--shift-by", "100"), 4),
        (("--to-datetime", "2020-01-01T00:00:00.000"), 0),
        (("--to-datetime", "2020-01-01T00:00:00.000+02:00"), 0),
        (("--by-duration", "PT0S"), 4),
        (("--by-duration", "P1DT2H"), 0),
    ],
)
def test_offsets_are_reset(filled: ToolsOnBoth, way: tuple[str, ...], offset: int) -> None:
    row = ["g", KNOWN, "0", str(offset)]
    before = filled.same("kafka-consumer-groups", "--describe", *IN_GROUP)
    assert row in map(columns, filled.same_lines("kafka-consumer-groups", *RESET, *way))
    tried = filled.same_lines("kafka-consumer-groups", *RESET, *way, "--dry-run")
    assert row in map(columns, tried)
    assert filled.same("kafka-consumer-groups", "--describe", *IN_GROUP) == before
    done = filled.same_lines("kafka-consumer-groups", *RESET, *way, "--execute")
    assert row in map(columns, done)
    after = filled.same("kafka-consumer-groups", "--describe", *IN_GROUP)
    rows = [columns(line)[:4] for line in after.splitlines()]
    assert row in rows


def test_a_plan_is_exported_and_executed(filled: ToolsOnBoth, tmp_path: Path) -> None:
    tool = "kafka-consumer-groups"
    exported = filled.same_lines(tool, *RESET, "--to-offset", "3", "--export", "--dry-run")
    assert f"{KNOWN},0,3" in exported
    several = ("--reset-offsets", "--all-groups", "--all-topics", "--to-current", "--export")
    assert any(line.startswith(f"g,{KNOWN},0,") for line in filled.same_lines(tool, *several))
    plan = tmp_path / "plan.csv"
    plan.write_text("\n".join(line for line in exported if line.startswith(KNOWN)))
    executing = ("--reset-offsets", *IN_GROUP, "--from-file", str(plan), "--execute")
    assert ["g", KNOWN, "0", "3"] in map(columns, filled.same_lines(tool, *executing))


def test_new_groups_come_and_go(filled: ToolsOnBoth) -> None:
    tool = "kafka-consumer-groups"
    new = ("--group", "new", "--topic", KNOWN)
    made = filled.same_lines(tool, "--reset-offsets", *new, "--to-latest", "--execute")
    assert ["new", KNOWN, "0", "4"] in map(columns, made)
    nowhere = ("--reset-offsets", "--group", "new", "--topic", "no", "--to-latest", "--execute")
    assert "does not host this topic-partition" in filled.same(tool, *nowhere)
    assert "Successful" in filled.same(tool, "--delete-offsets", *new)
    deleted = filled.same_lines(tool, "--delete", "--group", "new", "--group", "nope")
    assert any("GroupIdNotFoundException" in line for line in deleted)
    assert filled.same(tool, "--delete", "--group", "nope").count("nope") > 0


# -- Partitions and directories ----------------------------------------------------------------


def test_directories_are_described(filled: ToolsOnBoth) -> None:
    logs: list[list[tuple[str, bool, int, bool]]] = []
    for said in filled.said("kafka-log-dirs", "--describe", "--topic-list", f"{KNOWN},{OTHER}"):
        (broker,) = json.loads(said.out.splitlines()[-1])["brokers"]
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        logs.append(
            sorted(
                (each["partition"], each["size"] > 0, each["offsetLag"], each["isFuture"])
                for each in directory["partitions"]
            )
        )
    kafka, ours = logs
    assert ours == kafka
    assert [name for name, *_ in ours] == [f"{KNOWN}-0", f"{KNOWN}-1", f"{OTHER}-0"]


def test_leaders_are_elected(filled: ToolsOnBoth, tmp_path: Path) -> None:
    tool, preferred = "kafka-leader-election", ("--election-type", "preferred")
    assert filled.same(tool, *preferred, "--all-topic-partitions") == ""
    file = tmp_path / "partitions.json"
    partitions = [{"topic": KNOWN, "partition": number} for number in (0, 1)]
    file.write_text(json.dumps({"partitions": partitions}))
    of_a_file = filled.same(tool, *preferred, "--path-to-json-file", str(file))
    assert of_a_file == f"Valid replica already elected for partitions {KNOWN}-0, {KNOWN}-1\n"
    nowhere = ("--election-type", "unclean", "--topic", "nope", "--partition", "0")
    kafka, ours = filled.said(tool, *nowhere)
    assert (ours.code, ours.out) == (kafka.code, kafka.out)
    assert "UnknownTopicOrPartitionException" in ours.text


def test_a_reassignment_from_plan_to_end(filled: ToolsOnBoth, tmp_path: Path) -> None:
    tool = "kafka-reassign-partitions"
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": KNOWN}]}))
    generating = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1")
    planned = filled.same(tool, *generating)
    plan = json.loads(planned.splitlines()[-1].replace('"HERE"', '["any"]'))
    assert [each["replicas"] for each in plan["partitions"]] == [[1], [1]]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    moves = ("--reassignment-json-file", str(file))
    started = filled.same(tool, "--execute", *moves, "--throttle", "1000000")
    assert "The inter-broker throttle limit was set to 1000000 B/s" in started
    verified = filled.same(tool, "--verify", *moves)
    assert f"Reassignment of partition {KNOWN}-1 is completed." in verified
    assert "Clearing broker-level throttles on broker 1" in verified
    assert filled.same(tool, "--list") == "No partition reassignments found.\n"
    assert "None of the specified" in filled.same(tool, "--cancel", *moves)


# -- The cluster ------------------------------------------------------------------------------


def test_features_are_shown_and_changed(both: ToolsOnBoth) -> None:
    tool = "kafka-features"
    kafka, ours = (
        {columns(line)[1]: columns(line)[2:8] for line in said.out.splitlines()}
        for said in both.said(tool, "describe")
    )
    # Kafka has features that we do not serve.
    assert {name: kafka[name] for name in ours} == ours
    assert "metadata.version" in ours
    assert "metadata.version=30 (4.3-IV0)" in both.same(tool, "version-mapping")
    of_metadata = ("feature-dependencies", "--feature", "metadata.version=30")
    assert "has no dependencies" in both.same(tool, *of_metadata)
    upgrading = ("upgrade", "--feature", "metadata.version=30", "--dry-run")
    assert "metadata.version can be upgraded to 30" in both.same(tool, *upgrading)
    disabling = ("disable", "--feature", "metadata.version")
    assert "Invalid update version 0" in both.same(tool, *disabling)


def test_clients_metrics_are_wanted_and_no_more(both: ToolsOnBoth) -> None:
    tool, metrics = "kafka-client-metrics", ("--metrics", "org.apache.kafka.")
    altering = ("--alter", "--name", "m", *metrics, "--interval", "1000", "--match", "client_id=a")
    assert both.same(tool, *altering) == "Altered client metrics config for m.\n"
    assert "for AN-ID." in both.same(tool, "--alter", "--generate-name", "--interval", "1000")
    assert "  match=client_id=a" in both.same(tool, "--describe", "--name", "m").splitlines()
    assert "  interval.ms=1000" in both.same_lines(tool, "--describe")
    assert both.same_lines(tool, "--list") == ["AN-ID", "m"]
    assert both.same(tool, "--delete", "--name", "m") == "Deleted client metrics config for m.\n"
    assert both.same_lines(tool, "--list") == ["AN-ID"]


def test_the_quorum_is_described(both: ToolsOnBoth) -> None:
    tool = "kafka-metadata-quorum"
    kafka, ours = (
        dict(line.split(":", 1) for line in said.out.splitlines())
        for said in both.said(tool, "describe", "--status")
    )
    assert ours.keys() == kafka.keys()
    for name in ("LeaderId", "LeaderEpoch", "MaxFollowerLag", "CurrentObservers"):
        assert ours[name] == kafka[name]
    for human in ((), ("--human-readable",)):
        kafka_rows, our_rows = (
            [columns(line) for line in said.out.splitlines()]
            for said in both.said(tool, "describe", "--replication", *human)
        )
        assert our_rows[0] == kafka_rows[0]
        assert len(our_rows) == len(kafka_rows) == 2
        assert (our_rows[1][0], our_rows[1][-1]) == (kafka_rows[1][0], kafka_rows[1][-1])


def test_the_cluster_and_what_it_serves_are_shown(both: ToolsOnBoth) -> None:
    assert both.same("kafka-cluster", "cluster-id") == "Cluster ID: AN-ID\n"
    assert "unfenced" in both.same("kafka-cluster", "list-endpoints")
    assert "77 is not" in both.same("kafka-cluster", "unregister", "--id", "77")
    kafka, ours = (
        {line.strip().partition("(")[0]: line.rstrip(",") for line in said.out.splitlines()}
        for said in both.said("kafka-broker-api-versions")
    )
    # Kafka takes clients' metrics only with a plugin that wants them.
    served = {
        name: line for name, line in ours.items() if "usable" in line and "Telemetry" not in name
    }
    assert len(served) > 30
    assert {name: kafka[name] for name in served} == served


def test_producers_are_described(filled: ToolsOnBoth) -> None:
    describing = ("describe-producers", "--topic", KNOWN, "--partition", "0")
    kafka, ours = (
        [columns(line) for line in said.out.splitlines()]
        for said in filled.said("kafka-transactions", *describing)
    )
    assert ours[0] == kafka[0]
    # Epoch, coordinator's epoch, last sequence; ids and times are each cluster's own.
    assert ours[1][1:4] == kafka[1][1:4] == ["0", "-1", "3"]


# -- Configurations ---------------------------------------------------------------------------


def test_configurations_are_described_and_altered(both: ToolsOnBoth) -> None:
    topic = ("--entity-type", "topics", "--entity-name", KNOWN)
    described = both.same_lines("kafka-configs", "--describe", *topic)
    assert any("retention.ms=86400000" in line for line in described)
    everything = both.same_lines("kafka-configs", "--describe", "--all", *topic)
    assert len(everything) > 25
    group = ("--entity-type", "groups", "--entity-name", "g")
    changing = ("--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "Completed updating config for group g" in both.same("kafka-configs", *changing, *group)
    configured = "".join(both.same_lines("kafka-configs", "--describe", *group))
    assert "consumer.session.timeout.ms=50000" in configured


# -- Last, for it takes records away ------------------------------------------------------------


def test_records_are_deleted(filled: ToolsOnBoth, tmp_path: Path) -> None:
    file = tmp_path / "deletions.json"
    deletion = {"topic": OTHER, "partition": 0, "offset": 2}
    file.write_text(json.dumps({"version": 1, "partitions": [deletion]}))
    deleted = filled.same("kafka-delete-records", "--offset-json-file", str(file))
    assert f"partition: {OTHER}-0\tlow_watermark: 2" in deleted
    output = filled.same("kafka-get-offsets", "--topic", OTHER, "--time", "earliest")
    assert output == f"{OTHER}:0:2\n"
