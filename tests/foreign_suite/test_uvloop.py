"""Coroutines on uvloop; the broker has a loop of its own."""

import asyncio

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka_clients import produce, stored

from tierlog.testing import Broker


async def round_trip(address, topic):
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        await producer.send_and_wait(topic, b"one pear")
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest")
    async with consumer:
        return (await consumer.getone()).value


def test_an_order_arrives(tierlog_broker, tierlog_topic):
    value = uvloop.run(round_trip(tierlog_broker.bootstrap_servers, tierlog_topic))
    assert value == b"one pear"


def test_on_a_loop_that_is_made(tierlog_broker, tierlog_topic):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        value = runner.run(round_trip(tierlog_broker.bootstrap_servers, tierlog_topic))
    assert value == b"one pear"


def test_a_blocking_client_in_its_threads(tierlog_broker, tierlog_topic):
    async def send():
        await asyncio.to_thread(produce, tierlog_broker, tierlog_topic, b"one pear")

    uvloop.run(send())
    assert stored(tierlog_broker, tierlog_topic) == [b"one pear"]


def test_a_broker_of_its_own():
    async def story():
        async with Broker() as broker:
            broker.create_topic("orders")
            return await round_trip(broker.bootstrap_servers, "orders")

    assert uvloop.run(story()) == b"one pear"
