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


class PlainProducer:
    """acks=all; each record is acknowledged or refused within the time, and a `send` is a batch."""

    def __init__(self, bootstrap: str, topic: str, timeout_ms: int = 3_000) -> None:
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._sent = Sent([], [])
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "message.timeout.ms": timeout_ms,
                # Nothing leaves before the flush: how many batches there are is not left to chance.
                "linger.ms": timeout_ms // 2,
                "log_level": 0,
            }
        )

    def _on_delivery(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error is not None:
            self._sent.refused.append(error)
            return
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert isinstance(value, bytes)
        self._sent.acknowledged.append((offset, value))

    def send(self, values: Iterable[bytes]) -> Sent:
        """Send them; all that became of this producer's records so far."""
        for value in values:
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._on_delivery)
            self._producer.poll(0)
        self._producer.flush(self._timeout_ms / 1000 + 30)
        return self._sent


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes], *, timeout_ms: int = 3_000
) -> Sent:
    """Send with a producer of their own."""
    return PlainProducer(bootstrap, topic, timeout_ms).send(values)


def read(
    bootstrap: str, topic: str, count: int, *, start: int = 0, timeout_s: float = 120
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
