"""Kafka's tools on a tiered topic say of us what they say of a tiered Apache Kafka.

Both brokers are given the same batches, so that segments begin at the same offsets; then all but
the active segment goes to the tier and leaves the disk.
"""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch

from ..broker_process import RawClient
from ..waiting import wait_until
from .many_tools import ManyTools, ToolsOnBoth
from .meaningful_requests import ask, error_codes
from .side_by_side import Plain, at
from .twins import Side

pytestmark = pytest.mark.requires("java", "mvn")

TIERED, PLAIN = "tiered", "plain"
BATCHES, RECORDS_EACH, VALUE_BYTES = 45, 10, 10_000
END = BATCHES * RECORDS_EACH
FIRST_TIMESTAMP = 1_700_000_000_000
SETTINGS = {"node.id": "1", "auto.create.topics.enable": "false"}
OURS = {
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
}
TOPIC_CONFIG = {"segment.bytes": "1048576", "retention.ms": "-1"}
TIERING = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
EARLIEST_LOCAL, LATEST_TIERED = -4, -5


def fill(node: BrokerNode) -> int:
    """The same into each topic; the offset at which the tiered one's disk begins in the end."""
    with RawClient(node.port) as client:
        side = Side(client)
        for name, configs in ((TIERED, TOPIC_CONFIG | TIERING), (PLAIN, TOPIC_CONFIG)):
            made = {
                "name": name,
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": [{"name": key, "value": value} for key, value in configs.items()],
            }
            created = ask(side, ApiKey.CREATE_TOPICS, 7, topics=[made], timeout_ms=10_000)
            assert error_codes(created) == {0}
            for number in range(BATCHES):
                produce(side, name, number)
        wait_until(lambda: tiered_up_to(side) > 0, 120, lambda: node.log_tail())
        return tiered_up_to(side)


def produce(side: Side, name: str, number: int) -> None:
    first = number * RECORDS_EACH
    records = [
        Record(n, FIRST_TIMESTAMP + 1_000 * (first + n), b"key", b"%06d" % (first + n), ())
        for n in range(RECORDS_EACH - 1)
    ]
    large = b"x" * VALUE_BYTES * RECORDS_EACH
    last = FIRST_TIMESTAMP + 1_000 * (first + RECORDS_EACH - 1)
    records.append(Record(RECORDS_EACH - 1, last, b"key", large, ()))
    data = [{"index": 0, "records": build_batch(records)}]
    topics = [{"name": name, "partition_data": data}]

    def is_taken() -> bool:
        answer = ask(side, ApiKey.PRODUCE, 9, acks=-1, timeout_ms=10_000, topic_data=topics)
        return error_codes(answer) == {0}

    # A new topic's leader comes a little after the topic.
    wait_until(is_taken, 60, f"{name} takes no batch")


def tiered_up_to(side: Side) -> int:
    """Where the disk begins, once the tier ends there too; 0 before."""

    def offset(timestamp: int) -> Plain:
        partitions = [{"partition_index": 0, "timestamp": timestamp}]
        topics = [{"name": TIERED, "partitions": partitions}]
        listed = ask(side, ApiKey.LIST_OFFSETS, 9, replica_id=-1, topics=topics)
        return at(listed, "topics", 0, "partitions", 0, "offset")

    local, tiered = offset(EARLIEST_LOCAL), offset(LATEST_TIERED)
    assert isinstance(local, int)
    assert isinstance(tiered, int)
    # Four segments of ten batches each are full.
    return local if local == tiered + 1 >= 4 * 10 * RECORDS_EACH else 0


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsOnBoth]:
    kafka = KafkaNode(
        tmp_path_factory.mktemp("kafka"), tiered=True, properties=SETTINGS, heap="512m"
    )
    ours = TierlogNode(tmp_path_factory.mktemp("ours"), properties=SETTINGS | OURS)
    with kafka, ours, ThreadPoolExecutor() as pool:
        begins = set(pool.map(fill, (kafka, ours)))
        assert len(begins) == 1
        with ManyTools() as tools:
            yield ToolsOnBoth(tools, kafka, ours)


@pytest.mark.parametrize(
    ("time", "tiered", "plain"),
    [
        ("earliest", 0, 0),
        ("-2", 0, 0),
        ("latest", END, END),
        ("-1", END, END),
        ("max-timestamp", END - 1, END - 1),
        ("-3", END - 1, END - 1),
        ("earliest-local", 400, 0),
        ("-4", 400, 0),
        ("latest-tiered", 399, None),
        ("-5", 399, None),
        ("earliest-pending-upload", 400, None),
        ("-6", 400, None),
        (str(FIRST_TIMESTAMP + 123_000), 123, 123),
        (str(FIRST_TIMESTAMP + 430_000), 430, 430),
        (str(FIRST_TIMESTAMP * 2), None, None),
    ],
)
def test_offsets_are_shown(
    both: ToolsOnBoth, time: str, tiered: int | None, plain: int | None
) -> None:
    partitions = ("--topic-partitions", f"{TIERED}:0,{PLAIN}:0")
    output = both.same("kafka-get-offsets", *partitions, "--time", time)
    expected = [f"{PLAIN}:0:{plain}"] if plain is not None else []
    expected += [f"{TIERED}:0:{tiered}"] if tiered is not None else []
    assert output.splitlines() == expected


def test_what_the_tier_holds_is_read_with_keys_timestamps_and_offsets(both: ToolsOnBoth) -> None:
    shown = ("print.timestamp", "print.key", "print.offset", "print.partition")
    formatter = [word for each in shown for word in ("--formatter-property", f"{each}=true")]
    reading = ("--topic", TIERED, "--partition", "0", "--offset", "35", "--max-messages", "3")
    output = both.same("kafka-console-consumer", *reading, *formatter)
    assert output.splitlines()[:2] == [
        f"CreateTime:{FIRST_TIMESTAMP + 1_000 * n}\tPartition:0\tOffset:{n}\tkey\t{n:06}"
        for n in (35, 36)
    ]


def test_records_in_the_tier_are_deleted(both: ToolsOnBoth, tmp_path: Path) -> None:
    file = tmp_path / "deletions.json"
    deletion = {"topic": TIERED, "partition": 0, "offset": 215}
    file.write_text(json.dumps({"version": 1, "partitions": [deletion]}))
    output = both.same("kafka-delete-records", "--offset-json-file", str(file))
    assert f"partition: {TIERED}-0\tlow_watermark: 215" in output
    for time, offset in (("earliest", 215), ("earliest-local", 400), ("latest-tiered", 399)):
        arguments = ("--topic", TIERED, "--time", time)
        assert both.same("kafka-get-offsets", *arguments) == f"{TIERED}:0:{offset}\n"
    reading = ("--topic", TIERED, "--from-beginning", "--max-messages", "1")
    assert both.same("kafka-console-consumer", *reading).splitlines()[0] == "000215"


def test_a_group_is_reset_into_the_tier(both: ToolsOnBoth) -> None:
    reset = ("--reset-offsets", "--group", "g", "--topic", TIERED, "--execute")
    for way, offset in (
        (("--to-earliest",), 215),
        (("--to-latest",), END),
        (("--to-datetime", "2023-11-14T22:18:20.000"), 300),
    ):
        output = both.same("kafka-consumer-groups", *reset, *way)
        row = next(line for line in output.splitlines() if line.startswith("g "))
        assert re.split(r" +", row.strip())[:4] == ["g", TIERED, "0", str(offset)]
