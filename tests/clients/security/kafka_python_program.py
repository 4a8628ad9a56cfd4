"""kafka-python as a program that works off orders: what it raises, and what it logs as an error."""

import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from .orders import Order
from .python_program import ErrorLog, obey

kafka = import_module("kafka")
oauth = import_module("kafka.net.sasl.oauth")
log = ErrorLog("kafka")


class Provider(oauth.AbstractTokenProvider):  # type: ignore[misc, name-defined]  # it has no types
    """Shows what is in a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def token(self) -> str:
        return self._path.read_text()


def login(order: Order) -> dict[str, Any]:
    """The settings of a client."""
    given = {
        "sasl_mechanism": order.mechanism,
        "sasl_plain_username": order.user,
        "sasl_plain_password": order.password,
        "ssl_cafile": order.ca,
        "ssl_certfile": order.identity,
        "ssl_keyfile": order.identity,
    }
    stated: dict[str, object] = {name: value for name, value in given.items() if value}
    if order.token:
        stated["sasl_oauth_token_provider"] = Provider(order.token)
    return {"bootstrap_servers": order.address, "security_protocol": order.protocol, **stated}


class Sent(Protocol):
    """The promise of a record."""

    def get(self, timeout: float) -> object: ...


class Producer(Protocol):
    """What is used of `KafkaProducer` when it sends."""

    def send(self, topic: str, value: bytes) -> Sent: ...


def send(producer: Producer, order: Order, values: Iterable[str]) -> None:
    """Write the values and wait for each."""
    for sent in [producer.send(order.topic, value.encode()) for value in values]:
        sent.get(timeout=order.patience_s)


def produce(order: Order, values: list[str]) -> None:
    producer = kafka.KafkaProducer(
        **login(order), max_block_ms=order.patience_s * 1000, bootstrap_timeout_ms=1000
    )
    try:
        send(producer, order, values)
    finally:
        producer.close(timeout=0)


def transact(order: Order, committed: list[str]) -> None:
    producer = kafka.KafkaProducer(
        **login(order),
        transactional_id=order.transactional_id,
        max_block_ms=order.patience_s * 1000,
        bootstrap_timeout_ms=1000,
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, order, ["aborted"])
        producer.abort_transaction()
        producer.begin_transaction()
        send(producer, order, committed)
        producer.commit_transaction()
    finally:
        producer.close(timeout=0)


def consume(order: Order, count: int) -> list[str]:
    consumer = kafka.KafkaConsumer(
        order.topic,
        **login(order),
        bootstrap_timeout_ms=1000,
        group_id=order.group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    values: list[str] = []
    deadline = time.monotonic() + order.patience_s
    try:
        while len(values) < count and time.monotonic() < deadline:
            if order.what == "consume" and log.has_any:
                # A topic that it may not read it only logs, again and again.
                break
            for records in consumer.poll(timeout_ms=1000).values():
                values += [each.value.decode() for each in records]
    finally:
        consumer.close()
    if not values:
        raise TimeoutError("nothing came")
    return values


def do(order: Order) -> list[str]:
    """What the order says."""
    numbers = range(order.records)
    if order.what in ("work", "produce"):
        produce(order, [f"plain {each}" for each in numbers] or ["one"])
    if order.what in ("work", "transact"):
        transact(order, [f"committed {each}" for each in numbers])
    if order.what in ("work", "consume"):
        return consume(order, 2 * order.records or 1)
    return []


if __name__ == "__main__":
    obey(do, log.take)
