"""Kafka's own tools administer groups: what they print, not just how they end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from ..conformance.many_tools import ManyTools
from .group_tool import GROUP, PER_PARTITION, Tool, committed, everywhere, fill, member
from .topics import PARTITIONS, TOPIC, produce

pytestmark = pytest.mark.requires("java", "mvn")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess.on(tmp_path) as process:
        fill(process)
        yield process


@pytest.fixture(scope="module")
def tools() -> Iterator[ManyTools]:
    with ManyTools() as running:
        yield running


@pytest.fixture
def tool(broker: BrokerProcess, tools: ManyTools) -> Tool:
    return Tool(broker, tools)


def test_a_live_group_is_listed_described_and_left_alone(broker: BrokerProcess, tool: Tool) -> None:
    group = ("--group", GROUP)
    with member(broker):
        produce(broker.bootstrap, 1)
        assert tool.rows("--list", "--state") == [{"GROUP": GROUP, "STATE": "Stable"}]
        assert tool.rows("--list", "--type") == [{"GROUP": GROUP, "TYPE": "Classic"}]
        assert GROUP not in tool.says("--list", "--state", "Empty")
        listed = tool.rows("--list", tool="kafka-groups")
        assert listed == [{"GROUP": GROUP, "TYPE": "Classic", "PROTOCOL": "consumer"}]
        for row in tool.rows("--describe", *group):
            expected = [str(PER_PARTITION), str(PER_PARTITION + 1), "1"]
            assert [row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]] == expected
            assert (row["CLIENT-ID"], row["HOST"]) == ("anna", "/127.0.0.1")
        (state,) = tool.rows("--describe", *group, "--state")
        # The header's own words, `COORDINATOR (ID)`, are two, and so are the value's.
        assert (state["ASSIGNMENT-STRATEGY"], state["STATE"]) == ("range", "Stable")
        (only,) = tool.rows("--describe", *group, "--members", "--verbose")
        assert only["#PARTITIONS"] == str(PARTITIONS)
        assert only["CURRENT-ASSIGNMENT"] == f"{TOPIC}:0,1,2,3,4,5"
        assert "GroupNotEmptyException" in tool.says("--delete", *group)
        refused = tool.says("--delete-offsets", *group, "--topic", TOPIC)
        assert refused.count("GroupSubscribedToTopicException") == PARTITIONS
        reset = ("--reset-offsets", *group, "--topic", TOPIC, "--to-earliest", "--execute")
        assert "can only be reset if the group 'group' is inactive" in tool.says(*reset)
    (state,) = tool.rows("--describe", *group, "--state")
    assert state["STATE"] == "Empty"
    assert committed(broker) == everywhere(PER_PARTITION)


def test_offsets_are_reset_in_every_way(broker: BrokerProcess, tool: Tool, tmp_path: Path) -> None:
    topic = ("--topic", TOPIC)
    with member(broker):
        pass
    assert tool.reset(*topic, "--to-earliest", "--dry-run") == everywhere(0)
    assert committed(broker) == everywhere(PER_PARTITION)
    ways = [
        (("--to-earliest",), 0),
        (("--to-offset", "4"), 4),
        (("--shift-by", "2"), 6),
        (("--shift-by", "-5"), 1),
        (("--to-current",), 1),
        (("--to-latest",), PER_PARTITION),
        (("--to-datetime", "2020-01-01T00:00:00.000"), 0),
        (("--by-duration", "PT0S"), PER_PARTITION),
        (("--by-duration", "P1D"), 0),
        (("--to-offset", "999"), PER_PARTITION),
    ]
    for way, offset in ways:
        assert tool.reset(*topic, *way, "--execute") == everywhere(offset), way
        assert committed(broker) == everywhere(offset), way
    some = tool.reset("--topic", f"{TOPIC}:0,1", "--to-offset", "3", "--execute")
    assert some == {0: 3, 1: 3}
    plan = tmp_path / "offsets.csv"
    plan.write_text(f"{TOPIC},0,5\n{TOPIC},1,6\n")
    assert tool.reset("--from-file", str(plan), "--execute") == {0: 5, 1: 6}
    assert committed(broker) == everywhere(PER_PARTITION) | {0: 5, 1: 6}
    exported = tool.says("--reset-offsets", "--group", GROUP, *topic, "--to-current", "--export")
    assert f"{TOPIC},1,6" in exported.splitlines()


def test_offsets_and_then_the_group_are_deleted(broker: BrokerProcess, tool: Tool) -> None:
    group = ("--group", GROUP)
    with member(broker):
        pass
    rows = tool.rows("--delete-offsets", *group, "--topic", f"{TOPIC}:0")
    assert rows == [{"TOPIC": TOPIC, "PARTITION": "0", "STATUS": "Successful"}]
    assert sorted(committed(broker)) == [1, 2, 3, 4, 5]
    assert "('group') was successful" in tool.says("--delete", *group)
    assert tool.says("--list").strip() == ""
    assert "Group group not found." in tool.says("--describe", *group)
    assert "GroupIdNotFoundException" in tool.says("--delete", *group)


def test_the_console_consumer_prints_the_offsets_topic(broker: BrokerProcess, tool: Tool) -> None:
    with member(broker):
        pass
    formatters = "org.apache.kafka.tools.consumer."

    def printed(formatter: str) -> str:
        return tool.says(
            "--topic",
            "__consumer_offsets",
            "--from-beginning",
            "--timeout-ms",
            "6000",
            "--formatter",
            formatters + formatter,
            tool="kafka-console-consumer",
        )

    offsets = printed("OffsetsMessageFormatter")
    assert f'"group":"{GROUP}","topic":"{TOPIC}","partition":5' in offsets
    assert f'"offset":{PER_PARTITION},' in offsets
    groups = printed("GroupMetadataMessageFormatter")
    assert '"protocolType":"consumer"' in groups
    assert '"clientId":"anna"' in groups
