"""A metadata log that has lost its end gives nobody the producer id of another."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tierlog.clients.record.batch import batches
from tierlog.replication.metadata.durable_end import DURABLE_END_FILE
from tierlog.replication.metadata.metadata_records import ProducerIdsRecord, decode_record
from tierlog.tests.broker_process import BrokerProcess
from tierlog.tests.scenarios.foreign_clients import CLIENTS

TOPIC = "numbered"
PROPERTIES = {"remote.log.storage.system.enable": "false"}


def produce(bootstrap: str, value: bytes) -> int:
    """The offset that a producer of its own was told."""
    offsets: list[int] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None
        offsets.append(message.offset() or 0)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce(TOPIC, value, partition=0, on_delivery=delivered)
    producer.flush(30)
    return offsets[0]


def read(bootstrap: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = consumer.consume(count, timeout=60)
    consumer.close()
    return [message.value() for message in found]


def damage_producer_ids(data: Path) -> None:
    path = data / "__cluster_metadata-0" / f"{0:020d}.log"
    content, position = bytearray(path.read_bytes()), 0
    for batch in batches(bytes(content)):
        decoded = (
            decode_record(record.value or b"") for record in batch.records() if not batch.is_control
        )
        if any(isinstance(each, ProducerIdsRecord) for each in decoded):
            content[position + batch.size_in_bytes - 1] ^= 1
        position += batch.size_in_bytes
    path.write_bytes(content)
    # Somebody goes on without what is lost; else the start is refused.
    (path.parent / DURABLE_END_FILE).unlink()


@pytest.mark.slow
def test_a_producer_id_that_a_log_knows_is_not_given_out_again(tmp_path: Path) -> None:
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        CLIENTS["confluent-kafka"].create_topic(broker.bootstrap, TOPIC, {})
        assert produce(broker.bootstrap, b"first") == 0
        broker.kill()
    damage_producer_ids(tmp_path / "data")
    with BrokerProcess.on(tmp_path, PROPERTIES) as broker:
        assert produce(broker.bootstrap, b"second") == 1
        assert read(broker.bootstrap, 2) == [b"first", b"second"]
