"""Three brokers in three racks, of ours and of Kafka: who is sent where, and who serves what.

The wire-level answers are compared; then unmodified clients with `client.rack` read from our
brokers, whose metrics tell which of them served the records (KIP-392).
"""

import asyncio
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from tierlog.bench.harness.processes.cluster import Cluster, Kind, separate
from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.bench.harness.requests.probe import free_port
from tierlog.bench.harness.requests.wire import Wire, topic_id
from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.producer.producer import Producer
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tierlog.clients.protocol.primitives import size_of

from ..waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.requires("java", "mvn"),
    pytest.mark.timeout(900),
]

LEADER, SECOND, THIRD = 11, 12, 13
RACKS = {LEADER: "a", SECOND: "b", THIRD: "c"}
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
TOPIC, RECORDS = "near", 300
_WITHIN_S = 180


class Racks(NamedTuple):
    """A cluster of Kafka and one of ours, each with a broker in each rack."""

    kafka: Cluster
    ours: Cluster
    metrics: dict[int, int]
    """The ports of our brokers' metrics."""


def in_racks(directory: Path, kind: Kind) -> Cluster:
    cluster = Cluster(
        directory / kind,
        separate((kind,), (kind, kind, kind)),
        {"replica.selector.class": SELECTOR},
    )
    for broker in cluster.brokers:
        broker.state({"broker.rack": RACKS[broker.node_id]})
    return cluster


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    directory = tmp_path_factory.mktemp("racks")
    kafka, ours = in_racks(directory, "kafka"), in_racks(directory, "tierlog")
    metrics = {broker.node_id: free_port() for broker in ours.brokers}
    for broker in ours.brokers:
        broker.state({"tierlog.metrics.port": str(metrics[broker.node_id])})
    with ours, kafka:
        for cluster in (kafka, ours):
            cluster.wait_until_caught_up()
            asyncio.run(asyncio.wait_for(fill(cluster), 2 * _WITHIN_S))
        pair = Racks(kafka, ours, metrics)
        wait_until_replicated(pair)
        yield pair


async def fill(cluster: Cluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        replicas = {0: [LEADER, SECOND, THIRD]}
        await admin.create_topics([NewTopic(TOPIC, replica_assignments=replicas)])
    async with Producer(cluster.bootstrap, acks=-1) as producer:
        for number in range(RECORDS):
            await producer.send(TOPIC, b"%d" % number, partition=0)


def wait_until_replicated(racks: Racks) -> None:
    """Wait until all know that the records are committed, and the leader that they have them."""

    def marks() -> list[int]:
        return [
            fetched(cluster, broker, 11, "", RECORDS).high_watermark
            for cluster in (racks.kafka, racks.ours)
            for broker in RACKS
        ]

    wait_until(lambda: set(marks()) == {RECORDS}, _WITHIN_S, lambda: f"{marks()}")


def fetched(
    cluster: Cluster, broker: int, version: int, rack: str, offset: int, *, epoch: int = -1
) -> PartitionData:
    with Wire(cluster.nodes[broker].bootstrap) as wire:
        named = topic_id(wire, TOPIC) if version >= 13 else ZERO_UUID
        partition = FetchPartition(
            partition=0,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
            current_leader_epoch=epoch,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            rack_id=rack,
            topics=[
                FetchTopic(
                    topic=TOPIC if version < 13 else "", topic_id=named, partitions=[partition]
                )
            ],
        )
        answer = wire.ask(request, version, FetchResponse)
    return answer.responses[0].partitions[0]


def shown(answer: PartitionData) -> dict[str, object]:
    """All but the content of the records, whose sizes differ with their timestamps."""
    return {
        "error": answer.error_code,
        "preferred": answer.preferred_read_replica,
        "offsets": (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset),
        "aborted": answer.aborted_transactions,
        "leader": (answer.current_leader.leader_id, answer.current_leader.leader_epoch),
        "has records": bool(answer.records and size_of(answer.records)),
    }


@pytest.mark.parametrize("version", [10, 11, 12, 17])
@pytest.mark.parametrize("broker", [LEADER, SECOND])
def test_answers_are_those_of_kafka(racks: Racks, broker: int, version: int) -> None:
    cases = [
        (rack, offset, epoch)
        for rack in ("", "a", "b", "c", "d")
        for offset in (0, RECORDS // 2, RECORDS, RECORDS + 1)
        for epoch in (-1, 0, 5)
    ]
    preferred: set[int] = set()
    for rack, offset, epoch in cases:
        kafka, ours = (
            shown(fetched(cluster, broker, version, rack, offset, epoch=epoch))
            for cluster in (racks.kafka, racks.ours)
        )
        assert ours == kafka, (rack, offset, epoch)
        assert isinstance(ours["preferred"], int)
        preferred.add(ours["preferred"])
    sent = {SECOND, THIRD} if broker == LEADER and version >= 11 else set[int]()
    assert preferred == sent | {-1}


# -- Clients ----------------------------------------------------------------------------------


def bytes_out(racks: Racks) -> dict[int, float]:
    """What each of our brokers has sent to consumers."""
    sent: dict[int, float] = {}
    for broker, port in racks.metrics.items():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            text = page.read().decode()
        pattern = r'(?m)^\S*BrokerTopicMetrics_Count\{name="BytesOutPerSec"\} (\S+)'
        (value,) = re.findall(pattern, text)
        sent[broker] = float(value)
    return sent


def served_by(racks: Racks, before: dict[int, float]) -> set[int]:
    return {broker for broker, sent in bytes_out(racks).items() if sent > before[broker]}


@pytest.mark.parametrize(("rack", "server"), [("b", SECOND), ("c", THIRD), ("d", LEADER)])
def test_librdkafka_reads_from_the_replica_in_its_rack(
    racks: Racks, rack: str, server: int
) -> None:
    before = bytes_out(racks)
    consumer = Consumer(
        {
            "bootstrap.servers": racks.ours.bootstrap,
            "client.rack": rack,
            "group.id": "none",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[bytes | None] = []
        deadline = time.monotonic() + _WITHIN_S
        while len(values) < RECORDS:
            assert time.monotonic() < deadline, f"{len(values)} records came"
            for message in consumer.consume(RECORDS, 1):
                assert message.error() is None, message.error()
                values.append(message.value())
    finally:
        consumer.close()
    assert values == [b"%d" % number for number in range(RECORDS)]
    assert served_by(racks, before) == {server}


@pytest.mark.parametrize(("rack", "server"), [("b", SECOND), ("a", LEADER)])
def test_a_java_consumer_reads_from_the_replica_in_its_rack(
    racks: Racks, rack: str, server: int
) -> None:
    before = bytes_out(racks)
    answer = run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", racks.ours.bootstrap, "--topic", TOPIC, "--partition", "0"),
        *("--offset", "earliest", "--max-messages", str(RECORDS)),
        *("--command-property", f"client.rack={rack}", "--timeout-ms", "60000"),
    )
    assert answer.stdout.split() == [str(number) for number in range(RECORDS)]
    assert served_by(racks, before) == {server}
