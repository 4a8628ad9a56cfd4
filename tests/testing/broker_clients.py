"""What tests of a test's broker send to it, read from it, and see of it."""

import threading

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


def our_threads() -> list[str]:
    """Those that run: Python also names one whose start was interrupted before it began."""
    return [
        each.name
        for each in threading.enumerate()
        if each.name.startswith("tierlog") and each.is_alive()
    ]
