"""A partition that comes to be led while the remote log manager is still starting."""

import asyncio

from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import COPY, MemoryTier
from tierlog.tests.tiering.tiered_broker import TieredBroker, until


def test_it_is_copied_once() -> None:
    """Found by seed 24 of the simulation: two loops copied each segment, and both copies stayed."""

    async def story(loop: SimulatedLoop) -> None:
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

    simulate(story)
