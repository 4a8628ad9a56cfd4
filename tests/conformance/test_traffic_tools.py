"""Kafka's verifiable and measuring producers and consumers write to us and read from us."""

import json
import re
from collections.abc import Iterator
from typing import cast

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode

pytestmark = pytest.mark.requires("java", "mvn")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    properties = {"num.partitions": "3", "offsets.topic.num.partitions": "2"}
    with TierlogNode(tmp_path_factory.mktemp("traffic"), properties=properties) as node:
        yield "--bootstrap-server", node.bootstrap


def events(output: str, name: str) -> list[dict[str, object]]:
    lines = [cast("dict[str, object]", json.loads(line)) for line in output.splitlines()]
    return [line for line in lines if line["name"] == name]


def test_the_verifiable_consumer_reads_what_the_verifiable_producer_wrote(
    server: tuple[str, str],
) -> None:
    topic = ("--topic", "verified", "--max-messages", "500")
    written = run_tool("kafka-verifiable-producer", *server, *topic, "--value-prefix", "7").stdout
    sent = events(written, "producer_send_success")
    assert len(sent) == 500
    reading = ("--group-id", "verifiers", "--reset-policy", "earliest", "--verbose")
    consumed = run_tool("kafka-verifiable-consumer", *server, *topic, *reading).stdout
    read = events(consumed, "record_data")

    def places(lines: list[dict[str, object]]) -> list[str]:
        names = ("partition", "offset", "value")
        return sorted(repr([line[name] for name in names]) for line in lines)

    assert places(read) == places(sent)
    commits = events(consumed, "offsets_committed")
    assert commits
    assert all(commit["success"] for commit in commits)


def test_the_measuring_tools_count_every_record(server: tuple[str, str]) -> None:
    load = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    properties = ("--command-property", f"bootstrap.servers={server[1]}")
    produced = run_tool(
        "kafka-producer-perf-test", "--topic", "measured", *load, *properties
    ).stdout
    assert "20000 records sent" in produced
    reading = ("--topic", "measured", "--num-records", "20000", "--hide-header")
    consumed = run_tool("kafka-consumer-perf-test", *server, *reading).stdout
    columns = re.split(r",\s*", consumed.strip().splitlines()[-1])
    assert int(columns[4]) == 20_000


def test_the_latency_tool_gets_every_record_back(server: tuple[str, str]) -> None:
    measuring = ("--topic", "there-and-back", "--num-records", "300", "--record-size", "50")
    output = run_tool("kafka-e2e-latency", *server, *measuring, "--producer-acks", "all").stdout
    assert re.search(r"Avg latency: \d+\.\d+ ms\n", output)
    assert re.search(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+", output)
    # The tool itself compares each record that it reads with the one that it wrote.
    ends = run_tool("kafka-get-offsets", *server, "--topic", "there-and-back").stdout
    assert ends == "there-and-back:0:300\n"


def test_the_console_consumer_shows_the_input_of_the_console_producer(
    server: tuple[str, str],
) -> None:
    shown = ("print.key", "print.headers", "print.partition", "print.offset")
    parsed = ("parse.key=true", "parse.headers=true")
    reader = [word for each in parsed for word in ("--reader-property", each)]
    line = "colour:red,size:9\tkey\tvalue\n"
    run_tool("kafka-console-producer", *server, "--topic", "spoken", *reader, stdin=line * 3)
    formatter = [word for each in shown for word in ("--formatter-property", f"{each}=true")]
    reading = ("--topic", "spoken", "--from-beginning", "--max-messages", "3")
    heard = run_tool("kafka-console-consumer", *server, *reading, *formatter).stdout
    lines = [re.sub(r"Partition:\d", "Partition:p", each) for each in heard.splitlines()]
    assert lines == [
        f"Partition:p\tOffset:{offset}\tcolour:red,size:9\tkey\tvalue" for offset in range(3)
    ]
