"""Coroutines as tests, by pytest-asyncio, with aiokafka."""

import asyncio

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tierlog.testing import Broker


@pytest_asyncio.fixture
async def producer(tierlog_broker):
    """A producer on the test's own loop."""
    async with AIOKafkaProducer(bootstrap_servers=tierlog_broker.bootstrap_servers) as producer:
        yield producer


async def received(broker, topic, count):
    address = broker.bootstrap_servers
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest")
    async with consumer:
        return [(await consumer.getone()).value for _ in range(count)]


@pytest.mark.asyncio
async def test_an_order_arrives(tierlog_broker, tierlog_topic, producer):
    await producer.send_and_wait(tierlog_topic, b"one pear")
    assert await received(tierlog_broker, tierlog_topic, 1) == [b"one pear"]


@pytest.mark.asyncio
async def test_many_at_once(tierlog_broker, tierlog_topic, producer):
    sent = [producer.send_and_wait(tierlog_topic, b"%d" % number) for number in range(50)]
    await asyncio.gather(*sent)
    assert len(await received(tierlog_broker, tierlog_topic, 50)) == 50


@pytest.mark.asyncio
async def test_a_consumer_waits_for_what_comes(tierlog_broker, tierlog_topic, producer):
    reading = asyncio.ensure_future(received(tierlog_broker, tierlog_topic, 1))
    await producer.send_and_wait(tierlog_topic, b"one pear")
    assert await reading == [b"one pear"]


@pytest.mark.asyncio
async def test_the_broker_s_methods_in_a_coroutine(tierlog_broker, tierlog_topic, producer):
    await producer.send_and_wait(tierlog_topic, b"one pear")
    tierlog_broker.offload(tierlog_topic)
    assert [record.value for record in tierlog_broker.records(tierlog_topic)] == [b"one pear"]


@pytest.mark.asyncio
async def test_a_broker_of_its_own():
    async with Broker() as broker:
        broker.create_topic("orders")
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one pear")
        assert await received(broker, "orders", 1) == [b"one pear"]


@pytest.mark.asyncio(loop_scope="module")
async def test_on_the_loop_of_the_module(tierlog_broker, tierlog_topic):
    address = tierlog_broker.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        await producer.send_and_wait(tierlog_topic, b"one pear")
    assert await received(tierlog_broker, tierlog_topic, 1) == [b"one pear"]
