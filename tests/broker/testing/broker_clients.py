"""What tests of a test's broker send to it and read from it."""

from confluent_kafka import Producer

from tierlog.testing import Broker

TIMEOUT_S = 60.0


def produce(broker: Broker, topic: str, pairs: list[tuple[bytes, bytes | None]]) -> None:
    """Send these keys and values, and wait until the broker has them."""
    producer = Producer(broker.config(linger_ms=0))
    for key, value in pairs:
        producer.produce(topic, value, key)
    assert producer.flush(TIMEOUT_S) == 0


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]
