"""Kafka's tools for transactions read us: who writes, what hangs, and what the log says."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool
from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tierlog.clients.record.builder import RecordBatchBuilder

from ..broker_process import BrokerProcess, RawClient

pytestmark = pytest.mark.requires("java", "mvn")

TOPIC = "written"
LONG_AGO_MS = 1_700_000_000_000
OLD_PRODUCE = 11


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "node.id": "1",
        "transaction.state.log.num.partitions": "1",
        # So that a transaction can hang at all.
        "transaction.partition.verification.enable": "false",
        "log.retention.ms": "-1",
    }
    with BrokerProcess.on(tmp_path_factory.mktemp("broker"), settings) as process:
        yield process
        assert "Traceback" not in process.log.read_text()


def table(answer: str) -> list[list[str]]:
    """The rows that a tool prints, without their heading."""
    return [line.split() for line in answer.splitlines() if line.strip()][1:]


def hang(port: int) -> None:
    """A batch of a transaction that no coordinator knows of, from long ago."""
    builder = RecordBatchBuilder(
        producer_id=4_711, producer_epoch=2, base_sequence=0, is_transactional=True
    )
    builder.append(LONG_AGO_MS, b"k", b"v")
    data = PartitionProduceData(index=0, records=memoryview(builder.build()))
    request = ProduceRequest(
        transactional_id="hanging",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )
    with RawClient(port) as client:
        answer = client.ask(request, OLD_PRODUCE, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_kafka_transactions_and_the_dump_tool_do_their_job(
    broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    client = import_module("confluent_kafka")
    server = ("--bootstrap-server", broker.bootstrap)
    tool = ("kafka-transactions", *server)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "mine"}
    producer = client.Producer(settings)
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(TOPIC, b"value", partition=0)
        producer.flush()
        end(30)
    producer.begin_transaction()
    producer.produce(TOPIC, b"value", partition=0)
    producer.flush()

    (listed,) = table(run_tool(*tool, "list").stdout)
    assert (listed[0], listed[1], listed[3]) == ("mine", "1", "Ongoing")
    (described,) = table(run_tool(*tool, "describe", "--transactional-id", "mine").stdout)
    assert described[0] == "1"
    assert described[1] == "mine"
    assert described[2] == listed[2]
    assert described[4] == "Ongoing"
    assert described[-1] == f"{TOPIC}-0"

    hang(broker.port)
    partition = ("--topic", TOPIC, "--partition", "0")
    writers = table(run_tool(*tool, "describe-producers", *partition).stdout)
    assert sorted(row[0] for row in writers) == sorted([listed[2], "4711"])
    (hanging,) = table(run_tool(*tool, "find-hanging", "--broker-id", "1").stdout)
    assert (hanging[0], hanging[1], hanging[2]) == (TOPIC, "0", "4711")
    start = hanging[5]
    run_tool(*tool, "abort", *partition, "--start-offset", start)
    assert table(run_tool(*tool, "find-hanging", "--broker-id", "1").stdout) == []
    producer.commit_transaction(30)

    (log,) = Path(broker.log.parent, "data", "__transaction_state-0").glob("*.log")
    decoder = ("--transaction-log-decoder", "--files", str(log))
    dumped = run_tool("kafka-dump-log", *decoder).stdout
    lines = [line for line in dumped.splitlines() if "transactionalId" in line]
    # librdkafka adds partitions by itself, once a transaction.
    assert len(lines) >= 10
    assert all('"transactionalId":"mine"' in line for line in lines)
    assert '"topic":"written"' in dumped
    assert "ERROR" not in dumped
