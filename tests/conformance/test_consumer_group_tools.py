"""Kafka's tools say the same of a consumer protocol group of ours as of one of Apache Kafka's.

A member with the same names lives on both; what it is called by the id that it draws is taken out.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager

import confluent_kafka
import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.processes.tierlog_node import TierlogNode

from ..compatibility.topics import PARTITIONS, TOPIC, create_topic, produce
from .many_tools import ManyTools, ToolsOnBoth

pytestmark = pytest.mark.requires("java", "mvn")

GROUP = "group"
PER_PARTITION = 3
NODE_ID = 1
# As librdkafka draws ids of members.
_DRAWN = re.compile(r"[A-Za-z0-9+/_-]{22}(?![A-Za-z0-9])")
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsOnBoth]:
    kafka = KafkaNode(tmp_path_factory.mktemp("kafka"), properties=SETTINGS, heap="512m")
    ours = TierlogNode(
        tmp_path_factory.mktemp("ours"), properties={**SETTINGS, "node.id": str(NODE_ID)}
    )
    with kafka, ours:
        for node in (kafka, ours):
            create_topic(node.bootstrap)
            produce(node.bootstrap, PER_PARTITION)
        with ManyTools() as tools:
            yield ToolsOnBoth(tools, kafka, ours)


@contextmanager
def member(node: BrokerNode, group: str, **settings: str) -> Generator[None, None, None]:
    """Has read and committed everything, and stays."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "client.id": "anna",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([TOPIC])
    read = 0
    while read < PARTITIONS * PER_PARTITION:
        read += len(consumer.consume(100, timeout=1.0))
    consumer.commit(asynchronous=False)
    yield
    consumer.close()


@contextmanager
def members(both: ToolsOnBoth, group: str = GROUP, **settings: str) -> Generator[None, None, None]:
    with ExitStack() as stack:
        for node in both.nodes:
            stack.enter_context(member(node, group, **settings))
        yield


def same(both: ToolsOnBoth, *arguments: str, tool: str = "kafka-consumer-groups") -> str:
    """What the tool says of both, but for ports, drawn ids, and the order of lines."""
    kafka, ours = (
        (
            said.code,
            sorted(_DRAWN.sub("ID", said.text).replace(str(node.port), "PORT").splitlines()),
        )
        for said, node in zip(both.said(tool, *arguments), both.nodes, strict=True)
    )
    assert ours == kafka
    return "\n".join(ours[1])


def test_a_live_group_is_described_alike(both: ToolsOnBoth) -> None:
    group = ("--group", GROUP)
    with members(both):
        assert "Stable" in same(both, "--list", "--state")
        assert "Consumer" in same(both, "--list", "--type")
        for asked in (["--offsets"], ["--members"], ["--state"]):
            for verbose in ([], ["--verbose"]):
                assert GROUP in same(both, "--describe", *group, *asked, *verbose)
        assert "Error" in same(both, "--delete", *group)
        same(both, "--delete-offsets", *group, "--topic", TOPIC)
        same(both, "--reset-offsets", *group, "--topic", TOPIC, "--to-earliest", "--execute")
        assert GROUP in same(both, "--list", "--group-type", "consumer", tool="kafka-groups")
    assert "Empty" in same(both, "--describe", *group, "--state", "--verbose")
    same(both, "--describe", *group, "--members")
    same(both, "--describe", *group)


def test_a_static_member_is_described_alike(both: ToolsOnBoth) -> None:
    group = ("--group", "static")
    settings = {"group.instance.id": "sam", "group.remote.assignor": "range", "client.rack": "r"}
    with members(both, "static", **settings):
        for asked in ("--members", "--state", "--offsets"):
            same(both, "--describe", *group, asked, "--verbose")
    same(both, "--describe", *group, "--members", "--verbose")


def test_an_empty_group_is_changed_and_deleted_alike(both: ToolsOnBoth) -> None:
    group = ("--group", "changed")
    topic = ("--topic", TOPIC)
    with members(both, "changed"):
        pass
    for way in (["--to-earliest"], ["--to-offset", "2"], ["--shift-by", "-1"], ["--to-latest"]):
        for end in ("--dry-run", "--execute"):
            same(both, "--reset-offsets", *group, *topic, *way, end)
        same(both, "--describe", *group)
    same(both, "--delete-offsets", *group, "--topic", f"{TOPIC}:0")
    same(both, "--describe", *group, "--offsets")
    same(both, "--delete", *group)
    same(both, "--delete", *group)
    same(both, "--describe", *group)
