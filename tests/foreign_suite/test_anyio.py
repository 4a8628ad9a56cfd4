"""Coroutines as tests on asyncio and on trio, by anyio; blocking clients are in its threads."""

import anyio
import pytest
from anyio import to_thread
from kafka_clients import consume, produce, stored

from tierlog.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """Both of anyio's backends."""
    return request.param


async def test_an_order_arrives(tierlog_broker, tierlog_topic, tierlog_group):
    await to_thread.run_sync(produce, tierlog_broker, tierlog_topic, b"one pear")
    read = await to_thread.run_sync(consume, tierlog_broker, tierlog_topic, tierlog_group, 1)
    assert read == [b"one pear"]


async def test_several_at_once(tierlog_broker, tierlog_topic):
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            value = b"%d" % number
            tasks.start_soon(to_thread.run_sync, produce, tierlog_broker, tierlog_topic, value)
    assert sorted(stored(tierlog_broker, tierlog_topic)) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_broker_of_its_own():
    async with Broker() as broker:
        broker.create_topic("orders")
        await to_thread.run_sync(produce, broker, "orders", b"one pear")
        assert stored(broker, "orders") == [b"one pear"]
