"""A broker that was stopped cleanly and dies at the first thing that its next run writes."""

import pytest

from tierlog.broker.broker import StartError
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.broker_clients import consume, create_topic, produce
from tierlog.tests.simulation.disk import Fault, Kind, Survival
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import SimulatedNetwork, on_host

MARKER = ".kafka_cleanshutdown"


async def stopped_cleanly(loop: SimulatedLoop) -> tuple[SimulatedBroker, dict[int, bytes]]:
    broker = SimulatedBroker(loop, SimulatedNetwork(loop))
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        acknowledged = await produce(loop, broker)
    await broker.stop()
    assert MARKER in broker.disk.directory("/data").durable
    return broker, acknowledged


async def test_the_next_start_recovers_even_if_this_one_dies_at_its_first_write(
    loop: SimulatedLoop,
) -> None:
    broker, acknowledged = await stopped_cleanly(loop)
    broker.disk.faults.append(Fault(Kind.WRITE, suffix=".log"))
    with pytest.raises(StartError):
        await broker.start()
    assert MARKER not in broker.disk.directory("/data").durable
    broker.cut_power(Survival.EVERYTHING)
    await broker.start()
    with on_host("client"):
        found = await consume(loop, broker)
    assert {record.offset: record.value for record in found} == acknowledged
    await broker.stop()


async def test_a_start_that_loses_its_power_anywhere_is_followed_by_one_that_works(
    loop: SimulatedLoop, simulation_seed: int
) -> None:
    broker, acknowledged = await stopped_cleanly(loop)
    broker.disk.when_power_fails = lambda: broker.cut_power(
        loop.random.choice((Survival.BY_CHANCE, Survival.NAMES, Survival.EVERYTHING))
    )
    for _ in range(8):
        broker.disk.power_fails_at = broker.disk.operations + loop.random.randint(1, 25)
        if await broker.start_unless_killed():
            broker.disk.power_fails_at = None
            broker.cut_power()
    await broker.start()
    with on_host("client"):
        found = await consume(loop, broker)
    assert {record.offset: record.value for record in found} == acknowledged
    broker.disk.when_power_fails = None
    await broker.stop()
