"""Retention by every rule, over a tier and a topic that fail at random, with crashes: seeds of it.

What must hold at every moment: no record goes before a limit or a DeleteRecords lets it go, and
each that may not can be read. What must hold in the end, once nothing fails any more: what may go
is gone, everything else is where the metadata says, and nothing else is anywhere.
"""

import asyncio
from dataclasses import replace

import pytest

from tierlog.storage.remote.remote_retention import RetentionLimits, decide_retention
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.faulty_tier import (
    Chaos,
    check_nothing_is_lost,
    check_the_tier_is_what_the_metadata_says,
)
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import MemoryTier
from tierlog.tests.tiering.tiered_broker import LOG_CONFIG, PARTITION, TieredBroker, until
from tierlog.tiering.task.expiration_task import facts_of


class Retained:
    """What a partition must still have, by all that was ever asked of it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.chance = loop.random
        self.chaos = Chaos(loop.random, MemoryTier(), SharedTopic())
        self.broker = TieredBroker(loop, self.chaos.tier, self.chaos.topic)
        self.config = LOG_CONFIG
        self.sizes: list[int] = []
        """The bytes of each record's batch."""
        self.times_ms: list[int] = []
        self.may_be_gone = 0
        """Everything from here on must be there."""

    def append(self, count: int, per_segment: int) -> None:
        log = self.broker.log
        for _ in range(count):
            before = log.size_in_bytes
            self.times_ms.append(self.broker.environment.wall_clock_ms())
            self.broker.append(1, per_segment=per_segment)
            self.sizes.append(log.size_in_bytes - before)

    def configure(self) -> None:
        """Other limits, perhaps; or records deleted by hand."""
        chance, total = self.chance, sum(self.sizes)
        copies = chance.random() < 0.8
        self.config = replace(
            LOG_CONFIG,
            retention_bytes=chance.choice((-1, -1, chance.randrange(total + 100))),
            retention_ms=chance.choice((-1, -1, 1, 5_000, 60_000)),
            remote_log_copy_disable=not copies,
            local_retention_bytes=1 if copies else -2,
        )
        self.broker.log.update_config(self.config)
        if chance.random() < 0.2:
            offset = chance.randrange(self.broker.log.high_watermark + 1)
            self.broker.log.maybe_increment_log_start_offset(offset)
            self.may_be_gone = max(self.may_be_gone, offset)

    def copy_again(self) -> None:
        """Else what a process that is gone began to copy would stay: it may be the only copy."""
        self.config = replace(self.config, remote_log_copy_disable=False, local_retention_bytes=1)
        self.broker.log.update_config(self.config)

    def unfinished(self) -> list[RemoteLogSegmentMetadata]:
        return self.broker.metadata.remote_log(PARTITION).unfinished_segments()

    def note_limits(self) -> None:
        """What the limits that hold now may have let go by now."""
        config, end = self.config, len(self.sizes)
        offset = self.may_be_gone
        if config.retention_ms >= 0:
            now_ms = self.broker.environment.wall_clock_ms()
            while offset < end and self.times_ms[offset] < now_ms - config.retention_ms:
                offset += 1
        if config.retention_bytes >= 0:
            while offset < end and sum(self.sizes[offset:]) > config.retention_bytes:
                offset += 1
        self.may_be_gone = max(offset, self.may_be_gone)

    def check(self) -> None:
        self.note_limits()
        assert self.broker.log.log_start_offset <= self.may_be_gone
        check_nothing_is_lost(self.broker, self.may_be_gone)

    async def restart(self, epoch: int) -> None:
        self.broker = await self.broker.restarted(epoch)
        self.broker.log.update_config(self.config)

    def nothing_may_go(self) -> bool:
        """Whether retention is content."""
        log, remote = self.broker.log, self.broker.metadata.remote_log(PARTITION)
        limits = RetentionLimits(self.config.retention_ms, self.config.retention_bytes)
        now_ms = self.broker.environment.wall_clock_ms()
        return not decide_retention(remote, facts_of(log, remote), limits, now_ms).expired


@pytest.mark.parametrize("seed", range(25))
async def test_nothing_goes_early_and_nothing_stays_for_ever(
    loop: SimulatedLoop, seed: int
) -> None:
    chance = loop.random
    retained = Retained(loop)
    await retained.broker.manager.start()
    retained.broker.lead()
    for epoch in range(1, 16):
        retained.chaos.stir()
        retained.append(chance.randrange(6), chance.choice((1, 2, 3)))
        if chance.random() < 0.5:
            retained.note_limits()
            retained.configure()
        await asyncio.sleep(chance.choice((0.01, 0.3, 2.0, 40.0)))
        retained.check()
        if chance.random() < 0.3:
            await retained.restart(epoch)
    retained.chaos.calm()
    retained.copy_again()
    await until(lambda: retained.broker.metadata.is_ready(PARTITION) and retained.nothing_may_go())
    # A copy that nobody was told of may be on its way still.
    await asyncio.sleep(120)
    await until(lambda: retained.nothing_may_go() and not retained.unfinished())
    retained.check()
    check_the_tier_is_what_the_metadata_says(retained.broker)
    await retained.broker.manager.stop()
