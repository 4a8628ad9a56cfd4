"""How three client libraries, unmodified, write values to a secured broker and read them."""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from confluent_kafka import Consumer, Producer

from tierlog.tests.forgotten_sockets import collect_forgotten_sockets

VALUES = [b"%05d" % number * 100 for number in range(500)]


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
        for message in consumer.consume(len(VALUES) - len(values), 1.0):
            assert message.error() is None, message.error()
            read = message.value()
            assert isinstance(read, bytes)
            values.append(read)
    consumer.close()
    return values


def transfer_by_kafka_python(settings: Mapping[str, Any], topic: str) -> list[bytes]:
    """Write `VALUES` to a topic, and read as many in a group."""
    # Its import warns, which only the filter of those tests allows.
    kafka = import_module("kafka")
    producer = kafka.KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
    values = [next(consumer).value for _ in VALUES]
    consumer.close()
    del producer, consumer
    collect_forgotten_sockets()
    return values


def transfer_by_aiokafka(settings: Mapping[str, Any], topic: str) -> list[bytes]:
    """Write `VALUES` to a topic, and read as many in a group."""
    aiokafka = import_module("aiokafka")

    async def transfer() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        for value in VALUES:
            await producer.send(topic, value)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, **settings, group_id=topic, auto_offset_reset="earliest"
        )
        await consumer.start()
        values = [(await consumer.getone()).value for _ in VALUES]
        await consumer.stop()
        return values

    return asyncio.run(transfer())
