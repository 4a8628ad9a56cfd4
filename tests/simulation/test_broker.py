"""A producer and a broker that dies again and again: no acknowledged record is ever lost.

Kafka acknowledges what is in the page cache. So a killed process loses nothing; a power loss loses
nothing only of what was flushed, here with log.flush.interval.messages=1 before every answer.
"""

import asyncio
from collections.abc import Callable

import pytest

from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork, on_host

from .broker_clients import RECORDS, consume, create_topic, produce


async def read_back(
    loop: SimulatedLoop, broker: SimulatedBroker, acknowledged: dict[int, bytes]
) -> None:
    """What was acknowledged is there, where the answer said; nothing twice, all in order."""
    with on_host("client"):
        found = await consume(loop, broker)
    assert [record.offset for record in found] == list(range(len(found)))
    values = [record.value or b"" for record in found]
    assert len(acknowledged) == RECORDS
    assert {offset: values[offset] for offset in acknowledged} == acknowledged
    assert values == sorted(set(values)), "repeated or out of order"


async def produce_while_it_dies(
    loop: SimulatedLoop, broker: SimulatedBroker, die: Callable[[SimulatedBroker], None]
) -> None:
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        producing = loop.create_task(produce(loop, broker))
    while not producing.done():
        await asyncio.sleep(loop.random.uniform(0.2, 2.0))
        die(broker)
        await asyncio.sleep(loop.random.uniform(0.0, 0.5))
        await broker.start()
    await read_back(loop, broker, await producing)
    assert broker.starts > 2
    await broker.stop()


async def killed(loop: SimulatedLoop) -> None:
    broker = SimulatedBroker(loop, SimulatedNetwork(loop))
    await produce_while_it_dies(loop, broker, SimulatedBroker.kill)


async def powerless(loop: SimulatedLoop) -> None:
    properties = {"log.flush.interval.messages": "1"}
    broker = SimulatedBroker(loop, SimulatedNetwork(loop), properties)
    await produce_while_it_dies(loop, broker, SimulatedBroker.cut_power)


async def powerless_and_careless(loop: SimulatedLoop) -> None:
    broker = SimulatedBroker(loop, SimulatedNetwork(loop))
    await produce_while_it_dies(loop, broker, SimulatedBroker.cut_power)


async def disconnected(loop: SimulatedLoop) -> None:
    network = SimulatedNetwork(loop)
    broker = SimulatedBroker(loop, network)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        producing = loop.create_task(produce(loop, broker))
    while not producing.done():
        await asyncio.sleep(loop.random.uniform(0.05, 0.5))
        if loop.random.random() < 0.7:
            network.cut()
        else:
            network.part({"client"}, {broker.host})
            await asyncio.sleep(loop.random.uniform(0.1, 3))
            network.heal()
    await read_back(loop, broker, await producing)
    await broker.stop()


def test_a_killed_broker_loses_nothing_that_it_acknowledged(simulation_seed: int) -> None:
    simulate(killed, simulation_seed, time_limit_s=3600)


def test_a_power_loss_takes_nothing_that_was_flushed_before_its_acknowledgement(
    simulation_seed: int,
) -> None:
    simulate(powerless, simulation_seed, time_limit_s=3600)


def test_cut_and_parted_connections_lose_and_repeat_nothing(simulation_seed: int) -> None:
    simulate(disconnected, simulation_seed, time_limit_s=3600)


def test_the_simulation_sees_what_a_power_loss_takes_where_nothing_was_flushed() -> None:
    with pytest.raises(AssertionError):
        for seed in range(5):
            simulate(powerless_and_careless, seed, time_limit_s=3600)


def test_one_seed_is_one_run() -> None:
    def trace() -> list[tuple[float, int, int]]:
        seen: list[tuple[float, int, int]] = []

        async def story(loop: SimulatedLoop) -> None:
            broker = SimulatedBroker(loop, SimulatedNetwork(loop))

            def die(broker: SimulatedBroker) -> None:
                seen.append((loop.time(), broker.disk.operations, broker.disk.used_bytes()))
                broker.kill()

            await produce_while_it_dies(loop, broker, die)

        simulate(story, seed=11, time_limit_s=3600)
        return seen

    assert trace() == trace()


@pytest.mark.simulated(time_limit_s=3600)
async def test_a_clean_stop_and_start_keeps_topics_and_records(loop: SimulatedLoop) -> None:
    broker = SimulatedBroker(loop, SimulatedNetwork(loop))
    await broker.start()
    await create_topic(loop, broker)
    acknowledged = await produce(loop, broker)
    await broker.stop()
    await broker.start()
    found = await consume(loop, broker)
    assert {record.offset: record.value for record in found} == acknowledged
    await broker.stop()
