"""A partition that comes to be led while the remote log manager is still starting."""

import asyncio

from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import COPY, MemoryTier
from tierlog.tests.tiering.tiered_broker import TieredBroker, until


async def test_it_is_copied_once(loop: SimulatedLoop) -> None:
    """Found by seed 24 of the simulation: two loops copied each segment, and both copies stayed."""
    broker = TieredBroker(loop, MemoryTier(), SharedTopic())
    broker.tier.latency_seconds = 0.1
    starting = loop.create_task(broker.manager.start())
    await asyncio.sleep(0)
    broker.lead()
    await starting
    broker.append(5)
    await until(lambda: broker.log.highest_remote_offset == 3)
    await asyncio.sleep(10)
    assert broker.tier.asked(COPY) == [0, 1, 2, 3]
    await broker.manager.stop()
