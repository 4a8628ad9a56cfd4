"""Stories of retention over both tiers, on one broker and on two."""

import logging
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.config import LogConfig
from tierlog.storage.remote.remote_log import RemoteLog
from tierlog.storage.remote.remote_retention import DeleteReason, ExpiredSegment, RetentionDecision
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import BROKEN, COPY, DELETE, FETCH, UNREACHABLE, MemoryTier
from tierlog.tests.tiering.tiered_broker import (
    CONFIG,
    LOG_CONFIG,
    PARTITION,
    TieredBroker,
    leading_broker,
    on_broker,
    until,
)
from tierlog.tiering.config import RemoteLogManagerConfig
from tierlog.tiering.remote_storage import Failure, RemoteStorageError

STATE = RemoteLogSegmentState
HOUR_MS = 3_600_000


def with_config(broker: TieredBroker, **changes: int | bool) -> LogConfig:
    """Configure the topic anew, as the broker does: the log first, then the manager."""
    config = replace(LOG_CONFIG, **changes)  # type: ignore[arg-type]  # names of its fields
    broker.log.update_config(config)
    return config


async def offloaded(broker: TieredBroker, count: int = 4, start: int = 0) -> None:
    """That many records more; all but the last of them are in the tier and nowhere else."""
    broker.append(count)
    last = broker.log.log_end_offset - 1
    await until(lambda: broker.log.local_log_start_offset == last)
    assert start <= last


async def seconds(broker: TieredBroker, count: float) -> None:
    end = broker.loop.time() + count
    await until(lambda: broker.loop.time() >= end, seconds=count + 10)


@pytest.mark.scenario("2.6")
@pytest.mark.parametrize("limits", [{"retention_bytes": 1}, {"retention_ms": 1}])
async def test_what_retention_lets_go_leaves_the_tier(
    broker: TieredBroker, limits: dict[str, int]
) -> None:
    broker.append(3)
    broker.append(1, timestamp=broker.environment.wall_clock_ms() + HOUR_MS)
    await until(lambda: broker.log.local_log_start_offset == 3)
    with_config(broker, **limits)
    await until(lambda: not broker.tier.segments)
    assert sorted(broker.tier.asked(DELETE)) == [0, 1, 2]
    assert broker.log.log_start_offset == 3
    assert broker.log.leader_epochs.entries[0] == (0, 3)
    await until(lambda: len(broker.metadata.remote_log(PARTITION)) == 0)
    assert await broker.consume(3) == ([3], [])
    assert broker.tier.asked(FETCH) == []


@pytest.mark.scenario("2.6")
async def test_a_record_from_the_future_leaves_the_disk_and_stays_in_the_tier(
    broker: TieredBroker,
) -> None:
    """KAFKA-20609."""
    broker.append(3)
    broker.append(1, timestamp=broker.environment.wall_clock_ms() + HOUR_MS)
    await offloaded_up_to(broker, 3)
    with_config(broker, retention_ms=1, local_retention_bytes=-2)
    for _ in range(3):
        await seconds(broker, 1)
        broker.log.delete_old_segments(broker.environment.wall_clock_ms())
    assert broker.log.local_log_start_offset == 4
    assert broker.tier.start_offsets() == [3]
    assert broker.log.log_start_offset == 3
    assert await broker.consume(3) == ([3], [3])


async def offloaded_up_to(broker: TieredBroker, local_start: int) -> None:
    await until(lambda: broker.log.local_log_start_offset == local_start)


async def test_the_log_starts_later_before_anything_is_deleted(broker: TieredBroker) -> None:
    """KAFKA-15352: a reader of what goes is told so, and never that something is missing."""
    await offloaded(broker)
    log_starts: list[int] = []
    delete = broker.tier.delete_log_segment_data

    async def watched(metadata: object) -> None:
        log_starts.append(broker.log.log_start_offset)
        with pytest.raises(KafkaError) as gone:
            broker.remote_read(0)
        assert gone.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        await delete(metadata)  # type: ignore[arg-type]  # handed on as it came

    broker.tier.delete_log_segment_data = watched  # type: ignore[method-assign]  # to look on
    with_config(broker, retention_bytes=1)
    await until(lambda: not broker.tier.segments)
    assert log_starts == [3, 3, 3]


@pytest.mark.scenario("3.7")
async def test_records_deleted_in_the_middle_of_the_tier(broker: TieredBroker) -> None:
    broker.append(7, per_segment=2)
    await offloaded_up_to(broker, 6)
    broker.log.maybe_increment_log_start_offset(3)
    await until(lambda: broker.tier.start_offsets() == [2, 4])
    assert broker.tier.asked(DELETE) == [0]
    assert await broker.consume(3) == ([3, 4, 5, 6], [3, 4, 5])
    assert (broker.log.log_start_offset, broker.log.local_log_start_offset) == (3, 6)
    broker.log.maybe_increment_log_start_offset(7)
    await until(lambda: not broker.tier.segments)
    assert broker.log.local_log_start_offset == 7


async def test_a_segment_that_cannot_be_deleted_keeps_no_other_from_it(
    broker: TieredBroker,
) -> None:
    await offloaded(broker, 5)
    broker.tier.faults[DELETE] = [BROKEN, None, BROKEN]
    with_config(broker, retention_bytes=1)
    await until(lambda: not broker.tier.segments)
    assert broker.tier.asked(DELETE) == [0, 1, 2, 3, 0, 2]
    assert broker.manager.statistics.remote_delete_errors["orders"] == 2
    assert broker.manager.statistics.remote_delete_requests["orders"] == 6
    await until(lambda: len(broker.metadata.remote_log(PARTITION)) == 0)


DENIED = RemoteStorageError("The tier denies access", Failure.DENIED)


async def test_denied_deletions_end_a_round(broker: TieredBroker) -> None:
    """Each is a request and a log line: with a hundred thousand expired segments, a flood."""
    await offloaded(broker, 20)
    broker.tier.faults[DELETE] = [DENIED] * 100_000
    with_config(broker, retention_bytes=1)
    await seconds(broker, 3600)
    asked = broker.tier.asked(DELETE)
    assert 3 <= len(asked) <= 3 * 3600 / 20
    broker.tier.faults[DELETE].clear()
    await until(lambda: not broker.tier.segments)


async def test_segments_that_are_never_given_up_keep_no_others(
    broker: TieredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under a legal hold."""
    delete = MemoryTier.delete_log_segment_data

    async def held(self: MemoryTier, metadata: RemoteLogSegmentMetadata) -> None:
        if metadata.start_offset < 6:
            raise DENIED
        await delete(self, metadata)

    monkeypatch.setattr(MemoryTier, "delete_log_segment_data", held)
    await offloaded(broker, 20)
    with_config(broker, retention_bytes=1)
    await until(lambda: broker.tier.start_offsets() == [0, 1, 2, 3, 4, 5])


async def test_an_outage_holds_expiration_up_and_is_reported_once(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with leading_broker(loop) as broker:
        await offloaded(broker, 20)
        broker.tier.is_down = True
        with_config(broker, retention_bytes=1)
        await seconds(broker, 3600)
        # A few try in a row, then the pause doubles up to half a minute.
        assert 3 <= len(broker.tier.asked(DELETE)) <= 3 * 3600 / 20
        assert broker.log.log_start_offset == 19
        assert broker.manager.statistics.remote_delete_errors["orders"] == 0
        broker.tier.is_down = False
        await until(lambda: not broker.tier.segments)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2, messages
    assert "unreachable" in messages[0]
    assert "works again" in messages[1]


async def test_a_crash_in_the_middle_of_a_deletion_is_made_good_by_the_next_start(
    broker: TieredBroker,
) -> None:
    await offloaded(broker)
    broker.tier.faults[DELETE] = [UNREACHABLE] * 100
    with_config(broker, retention_bytes=1)
    await until(lambda: len(broker.tier.asked(DELETE)) > 0)
    broker.tier.faults[DELETE] = []
    again = await broker.restarted(1)
    # Unlimited now: what has begun is ended all the same, and nothing else is touched.
    begun = len(again.metadata.remote_log(PARTITION).unfinished_segments())
    await until(lambda: len(broker.tier.segments) < 3)
    await seconds(again, 60)
    remote = again.metadata.remote_log(PARTITION)
    assert remote.unfinished_segments() == []
    assert begun == 0
    assert broker.tier.start_offsets() == [each.start_offset for each in remote.segments()]
    assert again.log.log_start_offset == min(broker.tier.start_offsets(), default=3)
    await again.manager.stop()


async def test_nothing_expires_before_it_is_known_how_far_the_tier_has_the_log(
    broker: TieredBroker,
) -> None:
    """KAFKA-20732: local and remote copies of the same records are not two."""
    broker.append(4)
    config = with_config(broker, local_retention_bytes=-1)
    await until(lambda: broker.log.highest_remote_offset == 2)
    total = broker.log.size_in_bytes
    broker.topic.is_down = True
    broker.log.update_config(replace(config, retention_bytes=total))
    broker.lead(1)
    assert broker.log.highest_remote_offset == -1
    await seconds(broker, 30)
    broker.topic.is_down = False
    await until(lambda: broker.log.highest_remote_offset == 2)
    await seconds(broker, 30)
    assert broker.tier.start_offsets() == [0, 1, 2]
    assert broker.log.log_start_offset == 0


async def test_nothing_expires_before_the_metadata_is_read(broker: TieredBroker) -> None:
    await offloaded(broker)
    broker.topic.is_down = True
    again = await broker.restarted(1)
    with_config(again, retention_bytes=1)
    await seconds(again, 60)
    assert (again.log.log_start_offset, broker.tier.asked(DELETE)) == (0, [])
    broker.topic.is_down = False
    await until(lambda: not broker.tier.segments)
    await again.manager.stop()


async def test_a_slow_copy_delays_no_deletion(loop: SimulatedLoop) -> None:
    async with leading_broker(
        loop, replace(CONFIG, copier_threads=1, expiration_threads=1)
    ) as broker:
        await offloaded(broker)
        broker.tier.copies_held.clear()
        broker.append(2)
        await until(lambda: broker.tier.asked(COPY)[-1] == 3)
        broker.log.maybe_increment_log_start_offset(2)
        await until(lambda: broker.tier.start_offsets() == [2])
        broker.tier.copies_held.set()
        await until(lambda: broker.tier.start_offsets() == [2, 3, 4])


async def test_what_is_being_copied_is_not_deleted(broker: TieredBroker) -> None:
    """KAFKA-16511, KAFKA-17062."""
    broker.tier.copies_held.clear()
    broker.append(3)
    await until(lambda: broker.tier.asked(COPY) == [0])
    with_config(broker, retention_bytes=1, remote_log_copy_disable=True)
    broker.log.maybe_increment_log_start_offset(2)
    await seconds(broker, 30)
    assert broker.tier.asked(DELETE) == []
    broker.tier.copies_held.set()
    await until(lambda: broker.tier.asked(DELETE) == [0])
    await until(lambda: len(broker.metadata.remote_log(PARTITION)) == 0)


async def test_a_follower_expires_nothing(loop: SimulatedLoop) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    leader = TieredBroker(loop, tier, topic)
    follower = TieredBroker(loop, tier, topic, config=on_broker(1))
    for broker in (leader, follower):
        await broker.manager.start()
        broker.append(4)
    leader.lead()
    follower.manager.on_leadership_change([], [PARTITION])
    await until(lambda: follower.log.highest_remote_offset == 2)
    with_config(follower, retention_bytes=1)
    await seconds(leader, 30)
    assert tier.asked(DELETE) == []
    # It takes over, with a log that starts where its leader's did.
    leader.manager.on_leadership_change([], [PARTITION])
    follower.lead(1)
    await until(lambda: not tier.segments)
    assert follower.log.log_start_offset == 3
    deletions = follower.manager.statistics.remote_delete_requests["orders"]
    assert (deletions, leader.manager.statistics.remote_delete_requests["orders"]) == (3, 0)
    for broker in (leader, follower):
        await broker.manager.stop()


async def test_a_leader_that_is_deposed_stops_between_two_segments(broker: TieredBroker) -> None:
    await offloaded(broker, 6)
    broker.tier.latency_seconds = 5
    with_config(broker, retention_bytes=1)
    await until(lambda: len(broker.tier.asked(DELETE)) == 2)
    broker.manager.on_leadership_change([], [PARTITION])
    await seconds(broker, 120)
    assert len(broker.tier.asked(DELETE)) == 2


async def test_segments_of_a_history_that_is_lost_leave_the_tier(loop: SimulatedLoop) -> None:
    """Their epochs are older than the log's first; no limit has to be reached."""
    tier, topic = MemoryTier(), SharedTopic()
    old = TieredBroker(loop, tier, topic)
    await old.manager.start()
    old.lead()
    await offloaded(old)
    await old.manager.stop()
    new = TieredBroker(loop, tier, topic, config=on_broker(1))
    await new.manager.start()
    new.lead(2)
    new.append(2)
    await until(lambda: tier.asked(DELETE) == [0, 1, 2])
    await until(lambda: tier.start_offsets() == [0])
    assert (await new.consume(0))[0] == [0, 1]
    await new.manager.stop()


@pytest.mark.scenario("2.3")
async def test_a_lost_checkpoint_of_the_log_start_is_made_good_from_the_tier(
    broker: TieredBroker,
) -> None:
    """KAFKA-16146."""
    await offloaded(broker, 6)
    broker.log.maybe_increment_log_start_offset(2)
    await until(lambda: broker.tier.start_offsets() == [2, 3, 4])
    # Its log is opened as one without a checkpoint, from 0 on.
    again = await broker.restarted(1)
    await until(lambda: again.log.highest_remote_offset == 4)
    assert again.log.log_start_offset == 2
    assert await again.consume(2) == ([2, 3, 4, 5], [2, 3, 4])
    assert broker.tier.asked(COPY) == [0, 1, 2, 3, 4]
    await again.manager.stop()


@pytest.mark.scenario("4.2")
async def test_a_leader_that_finds_nothing_in_the_tier_begins_where_its_disk_does(
    loop: SimulatedLoop,
) -> None:
    """A former leader deleted everything there, and this one was not told of its log start."""
    tier, topic = MemoryTier(), SharedTopic()
    leader = TieredBroker(loop, tier, topic)
    follower = TieredBroker(loop, tier, topic, config=on_broker(1))
    for broker in (leader, follower):
        await broker.manager.start()
        broker.append(7)
    leader.lead()
    follower.manager.on_leadership_change([], [PARTITION])
    await until(lambda: follower.log.highest_remote_offset == 5)
    follower.log.delete_old_segments(follower.environment.wall_clock_ms())
    leader.log.maybe_increment_log_start_offset(6)
    await until(lambda: not tier.segments)
    await until(lambda: len(leader.metadata.remote_log(PARTITION)) == 0)
    leader.manager.on_leadership_change([], [PARTITION])
    assert (follower.log.log_start_offset, follower.log.local_log_start_offset) == (0, 6)
    follower.lead(1)
    await until(lambda: follower.log.log_start_offset == 6)
    for broker in (leader, follower):
        await broker.manager.stop()


async def test_a_log_whose_metadata_is_lost_keeps_its_beginning(broker: TieredBroker) -> None:
    """What is in the tier may be told of again, and must not have been given up by then."""
    await offloaded(broker)
    broker.topic = SharedTopic()
    again = await broker.restarted(1)
    await until(lambda: again.metadata.is_ready(PARTITION))
    await seconds(again, 30)
    assert (again.log.log_start_offset, broker.tier.asked(DELETE)) == (0, [])
    assert broker.tier.start_offsets() == [0, 1, 2]
    await again.manager.stop()


async def test_the_lags_and_sizes_are_reported(loop: SimulatedLoop) -> None:
    async with leading_broker(loop, replace(CONFIG, retry_backoff_max_ms=1000)) as broker:
        statistics = broker.manager.statistics
        await offloaded(broker, 5)
        await until(lambda: statistics.remote_log_metadata_count.by_topic() == {"orders": 4.0})
        size = sum(len(stored.log) for stored in broker.tier.segments.values())
        assert statistics.remote_log_size_bytes.by_topic() == {"orders": float(size)}
        assert statistics.remote_copy_lag_segments.by_topic() == {"orders": 0.0}
        broker.tier.is_down = True
        with_config(broker, retention_bytes=1)
        broker.append(3)
        await until(lambda: statistics.remote_copy_lag_segments.by_topic()["orders"] == 3)
        await until(lambda: statistics.remote_delete_lag_segments.by_topic()["orders"] == 4)
        assert statistics.remote_delete_lag_bytes.by_topic()["orders"] == size
        assert statistics.remote_copy_lag_bytes.by_topic()["orders"] > 0
        broker.tier.is_down = False
        await until(lambda: statistics.remote_delete_lag_segments.by_topic()["orders"] == 0)
        broker.manager.on_leadership_change([], [PARTITION])
        assert numbers(gauge.by_topic() for gauge in statistics.gauges.values()) == {0}


def numbers(topics: Iterable[dict[str, float]]) -> set[float]:
    return {value for topic in topics for value in topic.values()} or {0}


def test_the_pools_are_as_large_as_configured_and_can_be_changed() -> None:
    config = RemoteLogManagerConfig.from_properties(
        {
            "remote.log.manager.copier.thread.pool.size": "3",
            "remote.log.manager.expiration.thread.pool.size": "4",
            "remote.log.manager.follower.thread.pool.size": "5",
            "remote.log.reader.threads": "6",
        },
        0,
        "/data",
    )
    assert (config.copier_threads, config.expiration_threads) == (3, 4)
    assert (config.follower_threads, config.threads) == (5, 3 + 4 + 6)


async def test_a_decision_that_deletes_what_readers_may_ask_for_is_caught(
    broker: TieredBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def too_much(remote: RemoteLog, *_: object) -> RetentionDecision:
        expired = [
            ExpiredSegment(segment, DeleteReason.TIME) for segment in remote.segments_for_epoch(0)
        ]
        return RetentionDecision(0, expired)

    await offloaded(broker)
    monkeypatch.setattr("tierlog.tiering.task.expiration_task.decide_retention", too_much)
    await until(lambda: "The log start offset is raised before" in caplog.text)
    assert broker.tier.asked(DELETE) == []
    assert broker.tier.start_offsets() == [0, 1, 2]
    # The expiration of this partition is tried again; the assertion is not met any more.
    monkeypatch.undo()
    with_config(broker, retention_ms=1)
    await until(lambda: broker.tier.start_offsets() == [])
