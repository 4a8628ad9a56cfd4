"""The same life of a group leaves the same records in `__consumer_offsets`, here and in Kafka.

Read with Kafka's own tools: the dump tool on the files, the console consumer's formatters over the
wire.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.clients.protocol.messages.leave_group import MemberIdentity

from ..broker_process import BrokerProcess
from .twins import Twins, committing, leaving, prepare, syncing, topic_ids

pytestmark = pytest.mark.requires("java", "mvn")

SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
# What each cluster draws or measures for itself.
OWN = re.compile(
    r'"(commitTimestamp|expireTimestamp|currentStateTimestamp|topicId)":("[^"]*"|\d+)'
    r"|(?<=raw-|sam-)[0-9a-f-]{36}"
)


class Lives:
    """The two brokers after the same story."""

    def __init__(self, kafka: KafkaNode, ours: BrokerProcess, directory: Path) -> None:
        self.kafka = kafka
        self.ours = ours
        self.logs = (kafka.directory / "logs", directory / "data")


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    directory = tmp_path_factory.mktemp("ours")
    kafka = KafkaNode(tmp_path_factory.mktemp("kafka"), properties=SETTINGS, heap="512m")
    with kafka, BrokerProcess.on(directory, SETTINGS) as ours:
        for port in (kafka.port, ours.port):
            prepare(port)
        twins = Twins(kafka.port, ours.port)
        topic_ids(twins)
        live(twins)
        twins.close()
        yield Lives(kafka, ours, directory)


def live(twins: Twins) -> None:
    """A member joins, is given everything, commits in several versions and leaves; a static one."""
    twins.join("anna", 9)
    twins.join("anna", 9)
    twins.same(syncing("anna", 1), 5)
    twins.same(committing("anna", 1), 10)
    twins.same(committing("anna", 1), 9)
    twins.same(committing(group_id="timed", retention_time_ms=3_600_000), 2)
    twins.same(leaving(MemberIdentity(member_id="anna")), 5)
    twins.join("sam", 9, group_instance_id="sam")
    twins.same(syncing("sam", 3, group_instance_id="sam"), 5)
    twins.join("sam", 9, member_id="", group_instance_id="sam")
    twins.same(leaving(MemberIdentity(group_instance_id="sam")), 5)
    twins.join("old", 2, protocol_type="connect", group_id="older")


def without_own(text: str) -> str:
    return OWN.sub("…", text)


def dumped(directory: Path) -> list[str]:
    """Key and value of every record, as Kafka's dump tool prints them."""
    file = directory / "__consumer_offsets-0" / "00000000000000000000.log"
    printed = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(file)).stdout
    return [
        without_own(line[line.index(" key: ") :])
        for line in printed.splitlines()
        if line.startswith("| offset:")
    ]


def test_the_same_records_are_written_in_the_same_order(lives: Lives) -> None:
    kafka, ours = (dumped(directory) for directory in lives.logs)
    assert ours == kafka
    assert len(ours) >= 10


def formatted(port: int, formatter: str) -> list[str]:
    """What the console consumer prints of all records; it ends when none has come for a while."""
    printed: list[str] = []
    for patience_ms in (3_000, 10_000, 30_000):
        before = printed
        answer = run_tool(
            "kafka-console-consumer",
            "--bootstrap-server",
            f"127.0.0.1:{port}",
            "--topic",
            "__consumer_offsets",
            "--from-beginning",
            "--timeout-ms",
            str(patience_ms),
            "--formatter",
            f"org.apache.kafka.tools.consumer.{formatter}",
            check=False,
        )
        # The formatters put nothing between two records.
        records = re.split(r'(?=\{"key":)', answer.stdout)[1:]
        # The console consumer's own group comes and goes in the log as well.
        printed = [without_own(each) for each in records if "console-consumer" not in each]
        # On a busy machine the first may end before it has begun to read.
        if printed and printed == before:
            break
    return printed


@pytest.mark.parametrize("formatter", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"])
def test_the_console_consumers_formatters_print_the_same(lives: Lives, formatter: str) -> None:
    kafka, ours = (formatted(each.port, formatter) for each in (lives.kafka, lives.ours))
    assert ours == kafka
    assert len(ours) >= 3
