"""One partition, a tier and a topic that fail at random, a broker that crashes: seeds of it.

What must hold at every moment: each record that was ever appended can be read, from the disk or
from a finished segment in the tier. What must hold in the end, once nothing fails any more:
everything closed is in the tier exactly where the metadata says, and nothing else is.
"""

import asyncio

import pytest

from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import COPY, MemoryTier
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker, until
from tierlog.tiering.remote_storage import RemoteResourceNotFound

from .faulty_tier import Chaos, check_nothing_is_lost, check_the_tier_is_what_the_metadata_says


@pytest.mark.parametrize("seed", range(40))
async def test_no_record_is_lost_and_nothing_is_left_behind(loop: SimulatedLoop, seed: int) -> None:
    chance = loop.random
    tier, topic = MemoryTier(), SharedTopic()
    chaos = Chaos(chance, tier, topic)
    broker = TieredBroker(loop, tier, topic)
    await broker.manager.start()
    broker.lead()
    for epoch in range(1, 13):
        chaos.stir()
        broker.append(chance.randrange(5), per_segment=chance.choice((1, 2, 3)))
        await asyncio.sleep(chance.choice((0.01, 0.3, 2.0, 40.0)))
        check_nothing_is_lost(broker)
        if chance.random() < 0.4:
            broker = await broker.restarted(epoch)
    chaos.calm()
    last_closed = broker.log.local.active_segment.base_offset - 1
    await until(lambda: broker.log.highest_remote_offset == last_closed)
    await until(lambda: not broker.metadata.remote_log(PARTITION).unfinished_segments())
    check_nothing_is_lost(broker)
    check_the_tier_is_what_the_metadata_says(broker)
    everything, _ = await broker.consume(0)
    assert everything == list(range(broker.log.log_end_offset))
    await broker.manager.stop()


async def test_not_found_is_a_failure_like_others_while_copying(broker: TieredBroker) -> None:
    broker.tier.faults[COPY] = [RemoteResourceNotFound("no such bucket")]
    broker.append(3)
    await until(lambda: broker.log.highest_remote_offset == 1)
    check_the_tier_is_what_the_metadata_says(broker)
