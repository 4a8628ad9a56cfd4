"""Whole brokers with a tier: clients on a network, the metadata in its topic, and kill -9.

Everything is production code but clock, network and disk; the tier is fsspec's memory file system,
which survives the broker as a bucket would.
"""

import asyncio
import logging

import pytest

from tierlog.clients.admin import Admin
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.producer.producer import Producer
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import on_host
from tierlog.tests.tiering.tiered_broker import until
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC

from .whole_broker import (
    RECORDS,
    TOPIC,
    check_all,
    consume,
    create_topic,
    produce,
    segments_in_tier,
    tiered_broker,
)


async def earliest_local(loop: SimulatedLoop, broker: SimulatedBroker) -> int:
    """ListOffsets -4."""
    partition = TopicPartition(TOPIC, 0)
    async with Admin(broker.bootstrap, environment=SimulatedEnvironment(loop, "asker")) as admin:
        return (await admin.list_offsets({partition: -4}))[partition].offset


async def test_old_segments_are_read_from_the_tier_by_clients(loop: SimulatedLoop) -> None:
    broker = tiered_broker(loop, "whole-broker")
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, RECORDS)
        await until(lambda: len(segments_in_tier("whole-broker")) > 10)
        await asyncio.sleep(5)
        assert await earliest_local(loop, broker) > RECORDS - 10
        check_all(await consume(loop, broker), RECORDS)
    await broker.stop()


@pytest.mark.parametrize("seed", range(10))
async def test_a_killed_broker_finds_its_tier_again(loop: SimulatedLoop, seed: int) -> None:
    name = f"killed-broker-{seed}"
    broker = tiered_broker(loop, name)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
    for part in range(4):
        with on_host("client"):
            await produce(loop, broker, part * 20, 20)
        await asyncio.sleep(loop.random.uniform(0, 2))
        broker.kill()
        await broker.start()
    with on_host("client"):
        await until(lambda: len(set(segments_in_tier(name))) > 10)
        await asyncio.sleep(30)
        check_all(await consume(loop, broker), RECORDS)
    await broker.stop()
    starts = segments_in_tier(name)
    assert starts == sorted(set(starts)), "a copy was left behind"


async def test_strangers_write_nothing_to_the_metadata_of_the_tier(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """What Kafka lets anybody do would empty the tier: events say what is deleted."""
    name = "strangers"
    strangers = ("someone", "__remote_log_metadata_client", "__admin_client")
    caplog.set_level(logging.DEBUG)
    broker = tiered_broker(loop, name)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 40)
        await until(lambda: len(segments_in_tier(name)) > 4)
        for client_id in strangers:
            environment = SimulatedEnvironment(loop, client_id)
            async with Producer(
                broker.bootstrap, acks=-1, client_id=client_id, environment=environment
            ) as producer:
                with pytest.raises(KafkaError) as refused:
                    await producer.send(METADATA_TOPIC, b"forged", partition=0)
                assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        environment = SimulatedEnvironment(loop, "deleter")
        async with Admin(broker.bootstrap, environment=environment) as admin:
            with pytest.raises(KafkaError) as kept:
                await admin.delete_topics([METADATA_TOPIC])
            assert kept.value.code is ErrorCode.POLICY_VIOLATION
        before = len(segments_in_tier(name))
        await produce(loop, broker, 40, 40)
        await until(lambda: len(segments_in_tier(name)) > before)
        check_all(await consume(loop, broker), 80)
    await broker.stop()
    said = "".join(record.getMessage() for record in caplog.records)
    assert "__remote_log_metadata_client-" not in said, "the name that only it knows"
