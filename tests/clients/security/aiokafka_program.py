"""aiokafka as a program that works off orders: what it raises, and what it logs as an error."""

import asyncio
import ssl
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from .orders import Order
from .python_program import ErrorLog, obey

aiokafka = import_module("aiokafka")
oauth = import_module("aiokafka.abc")


class Provider(oauth.AbstractTokenProvider):  # type: ignore[misc, name-defined]  # it has no types
    """Shows what is in a file."""

    def __init__(self, path: str) -> None:
        self._token = Path(path).read_text()

    async def token(self) -> str:
        return self._token


def login(order: Order) -> dict[str, Any]:
    """The settings of a client."""
    stated: dict[str, Any] = {
        "bootstrap_servers": order.address,
        "security_protocol": order.protocol,
        "retry_backoff_ms": 100,
    }
    if order.mechanism:
        stated |= {
            "sasl_mechanism": order.mechanism,
            "sasl_plain_username": order.user,
            "sasl_plain_password": order.password,
        }
    if order.token:
        stated["sasl_oauth_token_provider"] = Provider(order.token)
    if order.ca:
        context = ssl.create_default_context(cafile=order.ca)
        if order.identity:
            context.load_cert_chain(order.identity)
        stated["ssl_context"] = context
    return stated


class Producer(Protocol):
    """What is used of `AIOKafkaProducer` when it sends."""

    async def send_and_wait(self, topic: str, value: bytes) -> object: ...


async def send(producer: Producer, topic: str, values: Sequence[str]) -> None:
    """Write the values and wait for each."""
    for value in values:
        await producer.send_and_wait(topic, value.encode())


async def produce(order: Order, values: Sequence[str]) -> None:
    producer = aiokafka.AIOKafkaProducer(**login(order))
    try:
        await producer.start()
        await send(producer, order.topic, values)
    finally:
        await producer.stop()


async def transact(order: Order, committed: Sequence[str]) -> None:
    producer = aiokafka.AIOKafkaProducer(**login(order), transactional_id=order.transactional_id)
    try:
        await producer.start()
        await producer.begin_transaction()
        await send(producer, order.topic, ["aborted"])
        await producer.abort_transaction()
        await producer.begin_transaction()
        await send(producer, order.topic, committed)
        await producer.commit_transaction()
    finally:
        await producer.stop()


async def consume(order: Order, count: int) -> list[str]:
    consumer = aiokafka.AIOKafkaConsumer(
        order.topic,
        **login(order),
        group_id=order.group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    try:
        await consumer.start()
        return [(await consumer.getone()).value.decode() for _ in range(count)]
    finally:
        await consumer.stop()


async def work(order: Order) -> list[str]:
    """What the order says."""
    numbers = range(order.records)
    if order.what in ("work", "produce"):
        await produce(order, [f"plain {each}" for each in numbers] or ["one"])
    if order.what in ("work", "transact"):
        await transact(order, [f"committed {each}" for each in numbers])
    if order.what in ("work", "consume"):
        return await consume(order, 2 * order.records or 1)
    return []


def do(order: Order) -> list[str]:
    """What the order says, within the patience."""
    return asyncio.run(asyncio.wait_for(work(order), order.patience_s))


if __name__ == "__main__":
    obey(do, ErrorLog("aiokafka").take)
