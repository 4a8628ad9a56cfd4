"""Shared by tests: a tier whose operations fail."""

import random

from tierlog.clients.record.batch import batches
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
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
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker

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
