"""Shared by tests: what a client of a simulated broker does."""

import asyncio

from tierlog.clients.admin import Admin, NewTopic
from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.producer.producer import Producer
from tierlog.clients.producer.sender import ProducerOptions
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

TOPIC = "orders"
RECORDS = 60


async def create_topic(loop: SimulatedLoop, broker: SimulatedBroker) -> None:
    environment = SimulatedEnvironment(loop, "admin")
    async with Admin(broker.bootstrap, environment=environment) as admin:
        await admin.create_topics([NewTopic(TOPIC, 1, 1, {"segment.bytes": "1048576"})])


async def produce(loop: SimulatedLoop, broker: SimulatedBroker) -> dict[int, bytes]:
    """Send records one after the other: what was acknowledged, by its offset."""
    environment = SimulatedEnvironment(loop, "producer")
    acknowledged: dict[int, bytes] = {}
    options: ProducerOptions = {"acks": -1, "enable_idempotence": True, "environment": environment}
    async with Producer(broker.bootstrap, **options) as producer:
        for number in range(RECORDS):
            value = b"%06d" % number
            sent = await producer.send(TOPIC, value, partition=0)
            assert sent.offset not in acknowledged
            acknowledged[sent.offset] = value
            await asyncio.sleep(loop.random.uniform(0, 0.2))
    return acknowledged


async def consume(loop: SimulatedLoop, broker: SimulatedBroker) -> list[ConsumerRecord]:
    """Everything in the topic, from its beginning."""
    environment = SimulatedEnvironment(loop, "consumer")
    partition = TopicPartition(TOPIC, 0)
    records: list[ConsumerRecord] = []
    async with Consumer(broker.bootstrap, environment=environment) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while len(records) < end:
            records += await consumer.poll(timeout_ms=1000)
    return records
