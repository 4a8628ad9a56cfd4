"""Clients that log in: where they connect, and how each library writes values and reads them."""

import asyncio
import ssl
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer

from tierlog.tests.forgotten_sockets import collect_forgotten_sockets

VALUES = [b"%05d" % number * 100 for number in range(50)]


class Door(NamedTuple):
    """A listener, and what its clients need to trust it."""

    protocol: str
    port: int
    ca: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def context(self) -> ssl.SSLContext | None:
        if self.protocol != "SASL_SSL":
            return None
        return ssl.create_default_context(cafile=str(self.ca))


def transfer_by_librdkafka(settings: Mapping[str, Any], topic: str) -> list[bytes]:
    """Write `VALUES` to a topic, and read as many in a group."""
    producer = Producer(dict(settings))
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    while len(values) < len(VALUES):
        for message in consumer.consume(len(VALUES), 1.0):
            read = message.value()
            assert isinstance(read, bytes)
            values.append(read)
    consumer.close()
    return values


def transfer_by_kafka_python(login: Mapping[str, Any], topic: str) -> list[bytes]:
    """Write `VALUES` to a topic, and read as many in a group."""
    # Its import warns, which only the filter of those tests allows.
    kafka = import_module("kafka")
    producer = kafka.KafkaProducer(**login)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, **login, group_id=topic, auto_offset_reset="earliest")
    values = [next(consumer).value for _ in VALUES]
    consumer.close()
    del producer, consumer
    collect_forgotten_sockets()
    return values


def transfer_by_aiokafka(login: Mapping[str, Any], topic: str) -> list[bytes]:
    """Write `VALUES` to a topic, and read as many in a group."""
    aiokafka = import_module("aiokafka")

    async def transfer() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(**login)
        await producer.start()
        for value in VALUES:
            await producer.send(topic, value)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **login, group_id=topic, auto_offset_reset="earliest"
        )
        await consumer.start()
        values = [(await consumer.getone()).value for _ in VALUES]
        await consumer.stop()
        return values

    return asyncio.run(transfer())


def refusal(settings: Mapping[str, Any]) -> KafkaError:
    """The error that librdkafka reports of a client that is not let in."""
    errors: list[KafkaError] = []
    client = Producer({**settings, "error_cb": errors.append, "log_level": 0})
    for _ in range(300):
        client.poll(0.1)
        for error in errors:
            if error.code() != KafkaError._ALL_BROKERS_DOWN:
                return error
    raise AssertionError("No error was reported.")
