"""Producing and reading one partition with librdkafka where a story minds every record.

No group, no retries beyond a few seconds: what the broker answered is what the story gets.
"""

from collections.abc import Iterable
from typing import NamedTuple

import confluent_kafka

from tierlog.tests.waiting import wait_until

RECORD_BYTES = 1024


class Sent(NamedTuple):
    """What became of the records of one producer."""

    acknowledged: list[tuple[int, bytes]]
    refused: list[confluent_kafka.KafkaError]


def value_of(index: int) -> bytes:
    return b"%08d" % index * (RECORD_BYTES // 8)


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes], *, timeout_ms: int = 3_000, **more: object
) -> Sent:
    """Send with acks=all; each record is acknowledged or refused within the time."""
    sent = Sent([], [])

    def on_delivery(
        error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error is not None:
            sent.refused.append(error)
            return
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        sent.acknowledged.append((offset, value))

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0}
    producer = confluent_kafka.Producer({**settings, "message.timeout.ms": timeout_ms, **more})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(timeout_ms / 1000 + 30)
    return sent


def read(
    bootstrap: str, topic: str, count: int, *, start: int = 0, timeout_s: float = 30
) -> list[tuple[int, bytes]]:
    """`count` records from an offset on; fewer if they do not come in time."""
    consumer = _consumer(bootstrap, topic, start)
    found: list[tuple[int, bytes]] = []

    def has_all() -> bool:
        for message in consumer.consume(min(1_000, count - len(found)), timeout=0.2):
            offset, value = message.offset(), message.value()
            # An error that is worth another attempt is no record.
            if message.error() is None:
                assert offset is not None
                assert isinstance(value, bytes)
                found.append((offset, value))
        return len(found) >= count

    try:
        wait_until(has_all, timeout_s, lambda: f"{len(found)} of {count} records of {topic}")
    finally:
        consumer.close()
    return found


def _consumer(bootstrap: str, topic: str, start: int) -> confluent_kafka.Consumer:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
    return consumer
