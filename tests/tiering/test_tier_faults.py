"""One partition, a tier and a topic that fail at random, a broker that crashes: seeds of it.

What must hold at every moment: each record that was ever appended can be read, from the disk or
from a finished segment in the tier. What must hold in the end, once nothing fails any more:
everything closed is in the tier exactly where the metadata says, and nothing else is.
"""

import asyncio
import random

import pytest

from tierlog.clients.record.batch import batches
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import (
    BROKEN,
    COPY,
    DELETE,
    FETCH,
    INDEX,
    UNREACHABLE,
    MemoryTier,
)
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker, on_a_leader, until
from tierlog.tiering.remote_storage import RemoteResourceNotFound

FAULTS: tuple[Exception | None, ...] = (None, None, UNREACHABLE, BROKEN)


class Chaos:
    """Faults, drawn from the run's seed."""

    def __init__(self, chance: random.Random, tier: MemoryTier, topic: SharedTopic) -> None:
        self.chance = chance
        self.tier = tier
        self.topic = topic

    def stir(self) -> None:
        """Change what will fail next."""
        chance, tier, topic = self.chance, self.tier, self.topic
        tier.is_down = chance.random() < 0.15
        tier.fails_after_the_work = chance.random() < 0.4
        tier.latency_seconds = chance.choice((0.0, 0.01, 2.0))
        for operation in (COPY, DELETE, INDEX, FETCH):
            tier.faults[operation] = [chance.choice(FAULTS) for _ in range(chance.randrange(4))]
        topic.is_down = chance.random() < 0.15
        topic.loses_acknowledgements = chance.choice((0, 0, 1, 2))

    def calm(self) -> None:
        """Let everything work from now on."""
        self.tier.is_down = self.topic.is_down = self.tier.fails_after_the_work = False
        self.tier.latency_seconds = 0.0
        self.tier.faults.clear()
        self.topic.loses_acknowledgements = 0


def truth(topic: SharedTopic) -> RemoteLog:
    """The metadata as the topic tells it, whatever a broker has read of it so far."""
    remote = RemoteLog(PARTITION)
    for event in topic.events():
        if isinstance(event, RemoteLogSegmentMetadata):
            remote.apply_copy_started(event)
        elif isinstance(event, RemoteLogSegmentMetadataUpdate):
            remote.apply_update(event)
    return remote


def check_nothing_is_lost(broker: TieredBroker, first: int = 0) -> None:
    """Whatever is not on the disk is in a finished segment, from the first that must be there."""
    log, remote = broker.log, truth(broker.topic)
    for offset in range(first, log.local_log_start_offset):
        assert any(
            segment.start_offset <= offset <= segment.end_offset
            and segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            and segment.id in broker.tier.segments
            for segment in remote.segments()
        ), f"offset {offset} is neither local nor in the tier"


def check_the_tier_is_what_the_metadata_says(broker: TieredBroker) -> None:
    remote = broker.metadata.remote_log(PARTITION)
    assert {segment.id for segment in remote.segments()} == set(broker.tier.segments)
    assert remote.unfinished_segments() == []
    for stored in broker.tier.segments.values():
        offsets = [record.offset for batch in batches(stored.log) for record in batch.records()]
        assert offsets == list(range(stored.metadata.start_offset, stored.metadata.end_offset + 1))


@pytest.mark.parametrize("seed", range(40))
def test_no_record_is_lost_and_nothing_is_left_behind(seed: int) -> None:
    async def story(loop: SimulatedLoop) -> None:
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

    simulate(story, seed)


def test_not_found_is_a_failure_like_others_while_copying() -> None:
    async def story(broker: TieredBroker) -> None:
        broker.tier.faults[COPY] = [RemoteResourceNotFound("no such bucket")]
        broker.append(3)
        await until(lambda: broker.log.highest_remote_offset == 1)
        check_the_tier_is_what_the_metadata_says(broker)

    on_a_leader(story)
