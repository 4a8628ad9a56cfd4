"""Stories of tiering that is switched off: the copying, the whole, and on again (KIP-950)."""

import asyncio
from dataclasses import replace

import pytest

from tierlog.clients.errors import KafkaError
from tierlog.storage.remote.remote_segment import RemoteLogSegmentState
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import (
    ABORT,
    BROKEN,
    COPY,
    DELETE,
    FETCH,
    UNREACHABLE,
    MemoryTier,
)
from tierlog.tests.tiering.tiered_broker import (
    CONFIG,
    LOG_CONFIG,
    PARTITION,
    TieredBroker,
    leading_broker,
    on_broker,
    until,
)
from tierlog.tiering.remote_log_manager import LeaderPartition

STATE = RemoteLogSegmentState
COPY_DISABLED = replace(
    LOG_CONFIG, remote_log_copy_disable=True, local_retention_bytes=-2, local_retention_ms=-2
)
NOT_TIERED = replace(LOG_CONFIG, remote_storage_enable=False, remote_log_delete_on_disable=True)


def clean(broker: TieredBroker) -> None:
    broker.log.delete_old_segments(broker.environment.wall_clock_ms())


async def seconds(broker: TieredBroker, count: float) -> None:
    end = broker.loop.time() + count
    await until(lambda: broker.loop.time() >= end, seconds=count + 10)


async def offloaded(broker: TieredBroker, count: int) -> None:
    broker.append(count)
    last = broker.log.log_end_offset - 1
    await until(lambda: broker.log.local_log_start_offset == last)


def disable(broker: TieredBroker) -> None:
    broker.log.update_config(NOT_TIERED)
    broker.manager.on_tiering_disabled([LeaderPartition(PARTITION, broker.epoch)], [])


@pytest.mark.scenario("2.9")
async def test_copying_stops_and_resumes_and_then_all_of_it_goes(broker: TieredBroker) -> None:
    await offloaded(broker, 3)
    broker.log.update_config(COPY_DISABLED)
    assert await broker.consume(0) == ([0, 1, 2], [0, 1])
    assert broker.tier.asked(FETCH) == [0, 1]
    broker.log.update_config(LOG_CONFIG)
    await offloaded(broker, 1)
    assert broker.tier.start_offsets() == [0, 1, 2]
    broker.log.update_config(COPY_DISABLED)
    assert await broker.consume(0) == ([0, 1, 2, 3], [0, 1, 2])
    broker.log.maybe_increment_log_start_offset(1)
    await until(lambda: broker.tier.asked(DELETE) == [0])
    await seconds(broker, 5)
    assert broker.tier.start_offsets() == [1, 2]
    disable(broker)
    assert broker.log.log_start_offset == 3
    await until(lambda: not broker.tier.segments)
    assert await broker.consume(3) == ([3], [])
    assert broker.tier.asked(COPY) == [0, 1, 2]


async def test_a_copy_that_waits_for_its_quota_is_not_begun_once_copying_is_disabled(
    loop: SimulatedLoop,
) -> None:
    """KAFKA-17236."""
    async with leading_broker(loop, on_broker(0, copy_max_bytes_per_second=1)) as broker:
        broker.append(6)
        await until(lambda: broker.tier.asked(COPY) == [0])
        broker.log.update_config(COPY_DISABLED)
        await seconds(broker, 600)
        assert broker.tier.asked(COPY) == [0]
        assert broker.manager.statistics.copy_throttle_times.count == 1


async def test_a_copy_under_way_is_finished_when_copying_is_disabled(broker: TieredBroker) -> None:
    broker.tier.copies_held.clear()
    broker.append(4)
    await until(lambda: broker.tier.asked(COPY) == [0])
    broker.log.update_config(COPY_DISABLED)
    broker.tier.copies_held.set()
    await seconds(broker, 30)
    (copied,) = broker.metadata.remote_log(PARTITION).segments()
    assert (copied.state, copied.start_offset) == (STATE.COPY_SEGMENT_FINISHED, 0)
    assert (broker.log.highest_remote_offset, broker.tier.asked(COPY)) == (0, [0])
    # What nobody is going to copy is no lag.
    lag = broker.manager.statistics.remote_copy_lag_segments
    await until(lambda: lag.by_topic() == {"orders": 0.0})


async def test_what_a_crash_left_half_copied_goes_with_its_records_where_copying_is_disabled(
    broker: TieredBroker,
) -> None:
    """Nobody reads what is local any more, so the copy may be the only sound one until then."""
    broker.tier.copies_held.clear()
    broker.append(3)
    await until(lambda: broker.tier.asked(COPY) == [0])
    again = await broker.restarted(1)
    again.log.update_config(COPY_DISABLED)
    broker.tier.copies_held.set()
    await asyncio.sleep(600)
    assert broker.tier.asked(DELETE) == []
    again.log.maybe_increment_log_start_offset(again.log.high_watermark)
    await until(lambda: broker.tier.asked(DELETE) == [0])
    await until(lambda: len(again.metadata.remote_log(PARTITION)) == 0)
    await again.manager.stop()


async def test_copying_resumes_behind_what_was_never_copied_and_leaves_no_hole(
    broker: TieredBroker,
) -> None:
    """What went from the disk uncopied took the log start with it."""
    await offloaded(broker, 3)
    size = broker.log.local.segments.first.size
    broker.log.update_config(replace(COPY_DISABLED, retention_bytes=2 * size))
    broker.append(6)
    clean(broker)
    assert broker.log.log_start_offset == broker.log.local_log_start_offset == 7
    await until(lambda: not broker.tier.segments)
    broker.log.update_config(LOG_CONFIG)
    broker.lead(broker.epoch)
    await until(lambda: broker.log.highest_remote_offset == 7)
    assert broker.tier.start_offsets() == [7]
    assert (await broker.consume(7))[0] == [7, 8]


async def test_a_changed_configuration_is_obeyed_without_waiting_for_the_interval(
    loop: SimulatedLoop,
) -> None:
    async with leading_broker(loop, replace(CONFIG, task_interval_ms=3600000)) as broker:
        await until(lambda: broker.metadata.is_ready(PARTITION))
        await seconds(broker, 60)
        broker.append(3)
        began = broker.loop.time()
        broker.lead(broker.epoch)
        await until(lambda: broker.log.highest_remote_offset == 1)
        assert broker.loop.time() - began < 60
        assert broker.tier.asked(COPY) == [0, 1]


async def test_a_removal_goes_on_until_all_is_gone(broker: TieredBroker) -> None:
    await offloaded(broker, 5)
    broker.tier.faults[DELETE] = [BROKEN, None, UNREACHABLE]
    disable(broker)
    await until(lambda: not broker.tier.segments)
    await until(lambda: len(broker.metadata.remote_log(PARTITION)) == 0)
    remote = broker.metadata.remote_log(PARTITION)
    # Nothing is said of the partition itself: it may be tiered again.
    assert remote.partition_delete_state is None
    with pytest.raises(KafkaError):
        broker.remote_read(0)


async def test_a_removal_that_its_leader_left_is_taken_up_by_the_next(
    broker: TieredBroker, loop: SimulatedLoop
) -> None:
    await offloaded(broker, 5)
    broker.tier.is_down = True
    disable(broker)
    await until(lambda: len(broker.tier.asked(DELETE) + broker.tier.asked(ABORT)) > 2)
    await broker.manager.stop()
    broker.tier.is_down = False
    other = TieredBroker(loop, broker.tier, broker.topic, config=on_broker(1))
    other.log.update_config(NOT_TIERED)
    disable(other)
    await other.manager.start()
    await until(lambda: not broker.tier.segments)
    await until(lambda: len(other.metadata.remote_log(PARTITION)) == 0)
    await other.manager.stop()


async def test_a_follower_of_what_is_tiered_no_more_deletes_nothing(loop: SimulatedLoop) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    leader = TieredBroker(loop, tier, topic)
    follower = TieredBroker(loop, tier, topic, config=on_broker(1))
    for broker in (leader, follower):
        await broker.manager.start()
        broker.append(4)
    leader.lead()
    follower.manager.on_leadership_change([], [PARTITION])
    await until(lambda: follower.log.highest_remote_offset == 2)
    clean(follower)
    assert follower.log.local_log_start_offset == 3
    follower.log.update_config(NOT_TIERED)
    follower.manager.on_tiering_disabled([], [PARTITION])
    await seconds(leader, 30)
    assert (tier.asked(DELETE), follower.log.log_start_offset) == ([], 3)
    for broker in (leader, follower):
        await broker.manager.stop()


async def test_a_topic_is_tiered_again_in_the_midst_of_its_removal(broker: TieredBroker) -> None:
    await offloaded(broker, 5)
    broker.tier.latency_seconds = 2
    disable(broker)
    await until(lambda: len(broker.tier.segments) == 2)
    broker.tier.latency_seconds = 0
    broker.log.update_config(LOG_CONFIG)
    broker.lead(broker.epoch)
    await offloaded(broker, 3)
    await until(lambda: broker.tier.start_offsets() == [4, 5, 6])
    await until(lambda: len(broker.metadata.remote_log(PARTITION)) == 3)
    assert await broker.consume(4) == ([4, 5, 6, 7], [4, 5, 6])


async def test_tiering_an_existing_topic_takes_its_old_segments_to_the_tier(
    loop: SimulatedLoop,
) -> None:
    broker = TieredBroker(loop, MemoryTier(), SharedTopic())
    await broker.manager.start()
    broker.log.update_config(replace(LOG_CONFIG, remote_storage_enable=False))
    broker.append(4)
    await seconds(broker, 10)
    assert broker.tier.events == []
    broker.log.update_config(LOG_CONFIG)
    broker.lead()
    await until(lambda: broker.log.local_log_start_offset == 3)
    assert broker.tier.start_offsets() == [0, 1, 2]
    assert await broker.consume(0) == ([0, 1, 2, 3], [0, 1, 2])
    await broker.manager.stop()
