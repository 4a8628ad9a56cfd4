"""Kafka's own tools administer groups of the consumer protocol (KIP-848): what they print."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from ..conformance.many_tools import ManyTools
from .group_tool import (
    GROUP,
    PER_PARTITION,
    Tool,
    committed,
    everywhere,
    fill,
    member as any_member,
)
from .topics import PARTITIONS, TOPIC, produce

pytestmark = pytest.mark.requires("java", "mvn")

QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess.on(tmp_path, QUICK) as process:
        fill(process)
        yield process


@pytest.fixture(scope="module")
def tools() -> Iterator[ManyTools]:
    with ManyTools() as running:
        yield running


@pytest.fixture
def tool(broker: BrokerProcess, tools: ManyTools) -> Tool:
    return Tool(broker, tools)


def member(broker: BrokerProcess, **settings: str) -> AbstractContextManager[None]:
    """A member of the consumer protocol that has read and committed everything, and stays."""
    return any_member(broker, **{"group.protocol": "consumer", **settings})


def test_a_live_group_is_listed_described_and_left_alone(broker: BrokerProcess, tool: Tool) -> None:
    group = ("--group", GROUP)
    with member(broker):
        produce(broker.bootstrap, 1)
        assert tool.rows("--list", "--state") == [{"GROUP": GROUP, "STATE": "Stable"}]
        assert tool.rows("--list", "--type") == [{"GROUP": GROUP, "TYPE": "Consumer"}]
        assert GROUP in tool.says("--list", "--type", "consumer")
        assert GROUP not in tool.says("--list", "--type", "classic")
        assert GROUP not in tool.says("--list", "--state", "Empty")
        for asked in ((), ("--consumer",), ("--group-type", "consumer")):
            listed = tool.rows("--list", *asked, tool="kafka-groups")
            assert listed == [{"GROUP": GROUP, "TYPE": "Consumer", "PROTOCOL": "consumer"}]
        assert GROUP not in tool.says("--list", "--group-type", "classic", tool="kafka-groups")
        for row in tool.rows("--describe", *group, "--offsets"):
            expected = [str(PER_PARTITION), str(PER_PARTITION + 1), "1"]
            assert [row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]] == expected
            assert (row["CLIENT-ID"], row["HOST"]) == ("anna", "/127.0.0.1")
        (state,) = tool.rows("--describe", *group, "--state", "--verbose")
        assert (state["ASSIGNMENT-STRATEGY"], state["STATE"]) == ("uniform", "Stable")
        assert state["GROUP-EPOCH"] == state["TARGET-ASSIGNMENT-EPOCH"]
        (only,) = tool.rows("--describe", *group, "--members", "--verbose")
        assert only["#PARTITIONS"] == str(PARTITIONS)
        assert only["CURRENT-EPOCH"] == only["TARGET-EPOCH"] == state["GROUP-EPOCH"]
        assert only["CURRENT-ASSIGNMENT"] == only["TARGET-ASSIGNMENT"] == f"{TOPIC}:0,1,2,3,4,5"
        assert "GroupNotEmptyException" in tool.says("--delete", *group)
        refused = tool.says("--delete-offsets", *group, "--topic", TOPIC)
        assert refused.count("GroupSubscribedToTopicException") == PARTITIONS
        reset = ("--reset-offsets", *group, "--topic", TOPIC, "--to-earliest", "--execute")
        assert "can only be reset if the group 'group' is inactive" in tool.says(*reset)
    (state,) = tool.rows("--describe", *group, "--state")
    assert state["STATE"] == "Empty"
    assert committed(broker) == everywhere(PER_PARTITION)


def test_offsets_are_reset_and_deleted_and_then_the_group(
    broker: BrokerProcess, tool: Tool
) -> None:
    group = ("--group", GROUP)
    topic = ("--topic", TOPIC)
    with member(broker):
        pass
    assert tool.reset(*topic, "--to-earliest", "--dry-run") == everywhere(0)
    assert committed(broker) == everywhere(PER_PARTITION)
    for way, offset in (
        (("--to-offset", "4"), 4),
        (("--shift-by", "2"), 6),
        (("--to-latest",), PER_PARTITION),
        (("--to-earliest",), 0),
    ):
        assert tool.reset(*topic, *way, "--execute") == everywhere(offset), way
        assert committed(broker) == everywhere(offset), way
    with member(broker):
        pass
    rows = tool.rows("--delete-offsets", *group, "--topic", f"{TOPIC}:0")
    assert rows == [{"TOPIC": TOPIC, "PARTITION": "0", "STATUS": "Successful"}]
    assert sorted(committed(broker)) == [1, 2, 3, 4, 5]
    assert "('group') was successful" in tool.says("--delete", *group)
    assert tool.says("--list").strip() == ""
    assert "GroupIdNotFoundException" in tool.says("--delete", *group)


def test_a_static_member_and_its_assignor_are_shown(broker: BrokerProcess, tool: Tool) -> None:
    group = ("--group", GROUP)
    with member(broker, **{"group.instance.id": "sam", "group.remote.assignor": "range"}):
        (state,) = tool.rows("--describe", *group, "--state")
        assert state["ASSIGNMENT-STRATEGY"] == "range"
        (only,) = tool.rows("--describe", *group, "--members")
        assert only["GROUP-INSTANCE-ID"] == "sam"


def test_groups_of_both_protocols_are_described_in_one_go(
    broker: BrokerProcess, tool: Tool
) -> None:
    with member(broker), member(broker, **{"group.id": "classics", "group.protocol": "classic"}):
        listed = tool.says("--list", "--type").split()
        assert sorted(listed[2:]) == ["Classic", "Consumer", "classics", GROUP]
        for what in ("--members", "--state", "--offsets"):
            described = tool.says("--describe", "--all-groups", what)
            rows = [line.split() for line in described.splitlines()]
            assert {row[0] for row in rows if len(row) >= 5} == {"GROUP", GROUP, "classics"}


def test_the_dump_tool_reads_the_log_of_a_group(broker: BrokerProcess, tools: ManyTools) -> None:
    with member(broker):
        pass
    types: set[int] = set()
    for file in broker.log.parent.glob("data/__consumer_offsets-*/*.log"):
        printed = tools.run("kafka-dump-log", "--offsets-decoder", "--files", str(file)).text
        assert "ERROR" not in printed
        types |= {int(found) for found in re.findall(r'key: {"type":"?(\d+)', printed)}
    assert types >= {1, 3, 5, 6, 7, 8}


def test_the_console_consumer_prints_the_offsets_topic(broker: BrokerProcess, tool: Tool) -> None:
    with member(broker):
        pass

    def printed(formatter: str) -> str:
        return tool.says(
            *("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "6000"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
            tool="kafka-console-consumer",
        )

    offsets = printed("OffsetsMessageFormatter")
    assert f'"group":"{GROUP}","topic":"{TOPIC}","partition":5' in offsets
    # This formatter knows classic groups only; the others' records are passed over.
    assert f'"group":"{GROUP}"' not in printed("GroupMetadataMessageFormatter")


def test_the_feature_is_described_lowered_and_raised(broker: BrokerProcess, tool: Tool) -> None:
    described = tool.says("describe", tool="kafka-features")
    (line,) = [line for line in described.splitlines() if "Feature: group.version" in line]
    words = " ".join(line.split())
    assert "SupportedMinVersion: 0 SupportedMaxVersion: 1 FinalizedVersionLevel: 1" in words
    lowered = tool.says("downgrade", "--feature", "group.version=0", tool="kafka-features")
    assert "group.version was downgraded to 0." in lowered
    assert GROUP not in tool.says("--list")
    raised = tool.says("upgrade", "--feature", "group.version=1", tool="kafka-features")
    assert "group.version was upgraded to 1." in raised
    with member(broker):
        assert GROUP in tool.says("--list", "--type", "consumer")
