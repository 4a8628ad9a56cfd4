"""Stories of a tiered partition on one broker: offloaded, read back, restarted, cut off."""

import asyncio
import logging
from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.offset_names import EARLIEST_PENDING_UPLOAD_TIMESTAMP, LATEST_TIERED_TIMESTAMP
from tierlog.storage.log.fetch_data import FetchIsolation, RemoteTimestampLookup
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tierlog.storage.segment.time_index import TimestampAndOffset
from tierlog.tests.simulation.loop import SimulatedLoop
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
from tierlog.tests.tiering.shaped_log import ask
from tierlog.tests.tiering.tiered_broker import (
    PARTITION,
    TieredBroker,
    leading_broker,
    on_broker,
    until,
)
from tierlog.tiering.remote_storage import Failure, LogSegmentData, RemoteStorageError
from tierlog.tiering.tier_health import TierHealth

STATE = RemoteLogSegmentState


@pytest.mark.scenario("2.1")
async def test_2_1_segments_are_offloaded_and_consumed_from_the_tier(broker: TieredBroker) -> None:
    broker.append(5, per_segment=2)
    await until(lambda: broker.log.local_log_start_offset == 4)
    assert broker.tier.start_offsets() == [0, 2]
    assert broker.log.highest_remote_offset == 3
    everything, remote = await broker.consume(1)
    assert (everything, remote) == ([1, 2, 3, 4], [1, 2, 3])
    assert len(broker.tier.asked(FETCH)) == 2


@pytest.mark.scenario("2.1")
async def test_2_1_after_a_restart_the_metadata_is_read_again(broker: TieredBroker) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    again = await broker.restarted(1)
    with pytest.raises(KafkaError) as early:
        await again.manager.read(again.remote_read(0))
    assert early.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: again.metadata.is_ready(PARTITION))
    assert await again.consume(0) == ([0, 1, 2], [0, 1])
    await until(lambda: again.log.highest_remote_offset == 1)
    assert broker.tier.asked(COPY) == [0, 1]
    await again.manager.stop()


async def test_nothing_leaves_the_disk_before_its_copy_is_finished(broker: TieredBroker) -> None:
    broker.tier.copies_held.clear()
    broker.append(4)
    await until(lambda: broker.tier.asked(COPY) == [0])
    assert broker.log.delete_old_segments(broker.environment.wall_clock_ms()) == 0
    assert broker.log.local_log_start_offset == 0
    broker.tier.copies_held.set()
    await until(lambda: broker.log.local_log_start_offset == 3)


@pytest.mark.scenario("4.3")
async def test_only_what_is_below_the_last_stable_offset_is_copied(broker: TieredBroker) -> None:
    broker.append(6)
    broker.log.update_high_watermark(3)
    await until(lambda: broker.tier.start_offsets() == [0, 1, 2])
    for _ in range(3):
        await until(lambda: broker.metadata.is_ready(PARTITION))
    assert broker.log.highest_remote_offset == 2


def states_written(broker: TieredBroker) -> list[RemoteLogSegmentState]:
    return [
        event.state
        for event in broker.topic.events()
        if not isinstance(event, RemotePartitionDeleteMetadata)
    ]


@pytest.mark.scenario("4.7")
async def test_4_7_a_failed_copy_is_deleted_and_tried_again_under_a_new_id(
    broker: TieredBroker,
) -> None:
    broker.tier.faults[COPY] = [BROKEN]
    broker.append(2)
    await until(lambda: broker.log.highest_remote_offset == 0)
    assert broker.tier.asked(DELETE) == [0]
    assert states_written(broker) == [
        STATE.COPY_SEGMENT_STARTED,
        STATE.DELETE_SEGMENT_STARTED,
        STATE.DELETE_SEGMENT_FINISHED,
        STATE.COPY_SEGMENT_STARTED,
        STATE.COPY_SEGMENT_FINISHED,
    ]
    assert len(broker.metadata.remote_log(PARTITION)) == 1


@pytest.mark.scenario("4.7")
async def test_4_7_a_copy_that_may_succeed_later_is_not_deleted_at_once(
    broker: TieredBroker,
) -> None:
    broker.tier.faults[COPY] = [UNREACHABLE]
    broker.append(2)
    await until(lambda: broker.manager.tier_trouble != "")
    assert broker.tier.asked(DELETE) == []
    await until(lambda: broker.log.highest_remote_offset == 0)
    assert len(broker.tier.segments) == 1
    assert broker.manager.tier_trouble == ""


async def test_an_outage_leaves_one_unfinished_segment_and_is_reported_once(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with leading_broker(loop) as broker:
        broker.tier.is_down = True
        broker.append(5)
        began = broker.loop.time()
        await until(lambda: broker.loop.time() > began + 7200, seconds=8000)
        assert broker.log.local_log_start_offset == 0
        assert (await broker.consume(0))[1] == []
        assert len(broker.metadata.remote_log(PARTITION)) == 1
        assert len(broker.topic.events()) <= 3
        broker.tier.is_down = False
        await until(lambda: broker.log.highest_remote_offset == 3)
        assert broker.tier.start_offsets() == [0, 1, 2, 3]
        assert await broker.consume(0) == ([0, 1, 2, 3, 4], [0, 1, 2, 3])
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "unreachable" in messages[0]
    assert "works again" in messages[1]


async def test_a_copy_that_failed_after_the_work_leaves_no_orphan(broker: TieredBroker) -> None:
    broker.tier.fails_after_the_work = True
    broker.tier.faults[COPY] = [BROKEN, UNREACHABLE]
    broker.tier.faults[DELETE] = [UNREACHABLE, BROKEN]
    broker.append(2)
    await until(lambda: broker.log.highest_remote_offset == 0)
    assert len(broker.tier.segments) == 1
    assert len(broker.metadata.remote_log(PARTITION)) == 1


async def test_an_unconfirmed_end_of_a_copy_is_confirmed_and_not_copied_again(
    broker: TieredBroker,
) -> None:
    broker.tier.copies_held.clear()
    broker.append(2)
    await until(lambda: broker.tier.asked(COPY) == [0])
    broker.topic.loses_acknowledgements = 1
    broker.tier.copies_held.set()
    await until(lambda: broker.log.highest_remote_offset == 0)
    assert broker.tier.asked(COPY) == [0]
    assert broker.tier.asked(DELETE) == []
    assert states_written(broker).count(STATE.COPY_SEGMENT_FINISHED) == 2


async def test_what_a_crash_left_unfinished_is_removed_before_anything_is_copied(
    loop: SimulatedLoop,
) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    broker = TieredBroker(loop, tier, topic)
    tier.copies_held.clear()
    await broker.manager.start()
    broker.lead()
    broker.append(2)
    await until(lambda: tier.asked(COPY) == [0])
    again = await broker.restarted(1)
    tier.copies_held.set()
    await until(lambda: again.log.highest_remote_offset == 0)
    assert tier.asked(DELETE) == [0]
    assert len(tier.segments) == 1
    # What had been sent of it goes too, and nothing of the copy that was finished.
    (begun, *_) = topic.events()
    assert isinstance(begun, RemoteLogSegmentMetadata)
    assert tier.uploads_aborted == [begun.id]
    again.log.maybe_increment_log_start_offset(1)
    await until(lambda: tier.asked(DELETE) == [0, 0])
    assert tier.uploads_aborted == [begun.id]
    await again.manager.stop()


async def test_a_copy_that_another_leader_gave_up_is_deleted_by_who_stored_it_and_made_anew(
    broker: TieredBroker,
) -> None:
    """Its COPY_SEGMENT_FINISHED comes too late: nothing local may go on the strength of it."""
    broker.tier.copies_held.clear()
    broker.append(2)
    await until(lambda: broker.tier.asked(COPY) == [0])
    (number,) = [at for at, each in enumerate(broker.topic.partitions) if each]
    (begun,) = broker.topic.events()
    assert isinstance(begun, RemoteLogSegmentMetadata)
    broker.topic.write_event(
        number,
        RemoteLogSegmentMetadataUpdate(
            segment_id=begun.segment_id,
            event_timestamp_ms=begun.event_timestamp_ms + 1,
            state=STATE.DELETE_SEGMENT_STARTED,
            broker_id=7,
        ),
    )
    broker.tier.copies_held.set()
    await until(lambda: broker.log.highest_remote_offset == 0)
    assert broker.tier.asked(COPY) == [0, 0]
    assert broker.tier.asked(DELETE) == [0]
    assert begun.id not in broker.tier.segments
    assert await broker.consume() == ([0, 1], [0])


@pytest.mark.scenario("4.7")
async def test_4_7_too_much_custom_metadata_stops_the_partition_until_its_leader_changes(
    broker: TieredBroker,
) -> None:
    # One byte more than remote.log.metadata.custom.metadata.max.bytes allows.
    broker.tier.custom_metadata = bytes(129)
    broker.append(3)
    await until(lambda: broker.tier.asked(DELETE) == [0])
    began = broker.loop.time()
    await until(lambda: broker.loop.time() > began + 120)
    assert broker.tier.asked(COPY) == [0]
    assert broker.tier.segments == {}
    broker.tier.custom_metadata = bytes(128)
    broker.lead(1)
    await until(lambda: broker.log.highest_remote_offset == 1)
    (first, _) = broker.metadata.remote_log(PARTITION).segments()
    assert first.custom_metadata == bytes(128)


async def test_what_a_broken_store_may_hold_of_a_failed_copy_is_deleted_at_once(
    broker: TieredBroker,
) -> None:
    broker.tier.fails_after_the_work = True
    broker.tier.faults[COPY] = [BROKEN]
    broker.append(2)
    await until(lambda: broker.tier.asked(COPY) == [0])
    # Before the pause that precedes the next attempt.
    await asyncio.sleep(0.1)
    assert broker.tier.asked(DELETE) == [0]
    assert broker.tier.segments == {}
    await until(lambda: broker.log.highest_remote_offset == 0)


async def test_a_deposed_leader_deletes_what_a_store_went_on_storing(loop: SimulatedLoop) -> None:
    """An upload in somebody else's code may not let itself be interrupted."""

    class StubbornTier(MemoryTier):
        async def copy_log_segment_data(
            self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
        ) -> bytes | None:
            copying = asyncio.ensure_future(super().copy_log_segment_data(metadata, data))
            while not copying.done():
                try:
                    await asyncio.shield(copying)
                except asyncio.CancelledError:
                    interrupted.append(metadata.id)
            return copying.result()

    interrupted: list[Uuid] = []
    broker = TieredBroker(loop, StubbornTier(), SharedTopic())
    await broker.manager.start()
    broker.lead()
    broker.tier.copies_held.clear()
    broker.append(2)
    await until(lambda: broker.tier.asked(COPY) == [0])
    broker.manager.on_leadership_change([], [PARTITION])
    await until(lambda: bool(interrupted))
    broker.tier.copies_held.set()
    await until(lambda: broker.tier.asked(DELETE) == [0])
    assert STATE.COPY_SEGMENT_FINISHED not in states_written(broker)
    assert broker.tier.segments == {}
    assert broker.log.highest_remote_offset == -1
    await broker.manager.stop()


async def test_a_deposed_leader_does_not_finish_what_it_stored(broker: TieredBroker) -> None:
    broker.tier.copies_held.clear()
    broker.append(2)
    await until(lambda: broker.tier.asked(COPY) == [0])
    broker.manager.on_leadership_change([], [PARTITION])
    broker.tier.copies_held.set()
    began = broker.loop.time()
    await until(lambda: broker.loop.time() > began + 60)
    assert STATE.COPY_SEGMENT_FINISHED not in states_written(broker)
    assert broker.log.highest_remote_offset == -1


async def test_a_follower_learns_from_the_metadata_what_it_may_delete(loop: SimulatedLoop) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    leader = TieredBroker(loop, tier, topic)
    follower = TieredBroker(loop, tier, topic, config=on_broker(1))
    for broker in (leader, follower):
        await broker.manager.start()
        broker.append(4)
    leader.lead()
    follower.manager.on_leadership_change([], [PARTITION])
    await until(lambda: follower.log.highest_remote_offset == 2)
    assert tier.asked(COPY) == [0, 1, 2]
    assert (await follower.consume(0))[0] == [0, 1, 2, 3]
    for broker in (leader, follower):
        await broker.manager.stop()


async def test_what_was_copied_before_an_unclean_election_is_found_anew(
    broker: TieredBroker,
) -> None:
    broker.append(4, per_segment=2)
    broker.log.roll(broker.environment.wall_clock_ms())
    kept = broker.log.config
    broker.log.update_config(replace(kept, local_retention_bytes=-1, retention_bytes=-1))
    await until(lambda: broker.log.highest_remote_offset == 3)
    broker.manager.on_leadership_change([], [PARTITION])
    broker.log.truncate_to(1)
    broker.topic.is_down = True
    broker.lead(1)
    broker.append(5, per_segment=2)
    assert broker.log.highest_remote_offset == -1
    broker.log.update_config(kept)
    assert broker.log.delete_old_segments(broker.environment.wall_clock_ms()) == 0
    broker.topic.is_down = False
    last_closed = broker.log.local.active_segment.base_offset - 1
    await until(lambda: broker.log.highest_remote_offset == last_closed)
    everything, _ = await broker.consume(0)
    assert everything == list(range(6))


async def test_the_metadata_topic_may_be_away_for_long(broker: TieredBroker) -> None:
    broker.topic.is_down = True
    broker.append(3)
    began = broker.loop.time()
    await until(lambda: broker.loop.time() > began + 3600, seconds=4000)
    assert broker.tier.events == []
    assert "not available" in broker.metadata.status
    broker.topic.is_down = False
    await until(lambda: broker.log.highest_remote_offset == 1)
    assert broker.metadata.status == ""


async def test_a_copy_waits_for_its_quota(loop: SimulatedLoop) -> None:
    async with leading_broker(loop, on_broker(0, copy_max_bytes_per_second=10)) as broker:
        broker.append(6)
        size = broker.log.local.segments.first.size
        began = broker.loop.time()
        await until(lambda: broker.log.highest_remote_offset == 4, seconds=3600)
        assert broker.loop.time() - began >= 3 * size / 10 - 12


async def test_a_throttled_read_is_empty_and_no_error(broker: TieredBroker) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    broker.manager.reads.fetch_quota.bytes_per_second = 1
    assert (await broker.read(0))[0] == [0]
    assert (await broker.manager.read(broker.remote_read(0))).records == b""
    await until(lambda: broker.manager.reads.fetch_quota.throttle_seconds(broker.loop.time()) <= 0)
    assert (await broker.read(0))[0] == [0]


@pytest.mark.scenario("2.9")
async def test_copy_disable_stops_copies_and_leaves_reads(broker: TieredBroker) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    copying = broker.log.config
    broker.log.update_config(
        replace(copying, remote_log_copy_disable=True, local_retention_bytes=-2)
    )
    broker.append(3)
    began = broker.loop.time()
    await until(lambda: broker.loop.time() > began + 60)
    assert broker.tier.asked(COPY) == [0, 1]
    assert await broker.consume(0) == ([0, 1, 2, 3, 4, 5], [0, 1])
    broker.log.update_config(copying)
    await until(lambda: broker.log.highest_remote_offset == 4)


@pytest.mark.scenario("2.8")
async def test_what_a_deleted_topic_has_in_the_tier_goes_each_segment_once(
    broker: TieredBroker,
) -> None:
    broker.append(3)
    await until(lambda: broker.log.highest_remote_offset == 1)
    broker.deleted.add(PARTITION.topic_id)
    broker.manager.stop_partitions([PARTITION], delete=True)
    remote = broker.metadata.remote_log(PARTITION)
    finished = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
    await until(lambda: remote.partition_delete_state is finished)
    assert len(remote) == 0
    assert sorted(broker.tier.asked(DELETE)) == [0, 1]
    assert not broker.tier.segments


@pytest.mark.scenario("4.8")
async def test_4_8_a_timestamp_is_looked_for_in_the_tier_and_then_locally(
    broker: TieredBroker,
) -> None:
    for timestamp in (1000, 2000, 3000, 4000):
        broker.append(1, per_segment=2, timestamp=timestamp)
    broker.append(1, per_segment=2, timestamp=9000)
    await until(lambda: broker.log.local_log_start_offset == 4)
    answers: dict[int, int] = {}
    for timestamp in (1, 1500, 3000, 4000, 4001):
        lookup = broker.log.offset_for_timestamp(timestamp)
        assert isinstance(lookup, RemoteTimestampLookup)
        found = await broker.manager.offset_for_timestamp(lookup)
        assert found is not None
        answers[timestamp] = found.offset
    assert answers == {1: 0, 1500: 1, 3000: 2, 4000: 3, 4001: 4}


async def test_an_unreachable_tier_fails_the_read_and_not_the_broker(broker: TieredBroker) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    broker.tier.is_down = True
    with pytest.raises(KafkaError) as failed:
        await broker.read(0)
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert failed.value.is_retriable
    assert (await broker.read(2))[0] == [2]
    broker.tier.is_down = False
    assert (await broker.read(0))[0] == [0]
    assert broker.tier.asked(INDEX)
    assert broker.manager.statistics.remote_fetch_errors == {"orders": 1}


async def test_a_store_that_hangs_turns_no_read_away_and_is_read_again_when_it_answers(
    broker: TieredBroker,
) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    broker.tier.latency_seconds = 120.0
    began = broker.loop.time()
    for _ in range(20):
        reads = [broker.manager.read(broker.remote_read(0)) for _ in range(20)]
        async with asyncio.timeout(0.6):
            done, waiting = await asyncio.wait(
                [asyncio.ensure_future(each) for each in reads], timeout=0.55
            )
        assert all(each.result().records == b"" for each in done)
        assert len(waiting) <= 10
        assert broker.manager.reads.waiting == 0
    assert broker.loop.time() - began < 20
    broker.tier.latency_seconds = 0
    await asyncio.sleep(300)
    assert await broker.read(0) == ([0], True)


async def test_how_far_the_tier_has_the_log_is_reported_once_it_is_known(
    loop: SimulatedLoop,
) -> None:
    broker = TieredBroker(loop, MemoryTier(), SharedTopic())
    await broker.manager.start()
    broker.lead()
    broker.append(4)
    await until(lambda: broker.log.highest_remote_offset == 2)
    broker.topic.holds_back_reads = True
    again = await broker.restarted(epoch=1)
    await asyncio.sleep(5)
    names = (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP)
    for name in names:
        assert await ask(again, name, FetchIsolation.HIGH_WATERMARK) == "OFFSET_NOT_AVAILABLE"
    again.topic.holds_back_reads = False
    await until(lambda: again.log.bounds.knows_remote)
    answers = [await ask(again, name, FetchIsolation.HIGH_WATERMARK) for name in names]
    assert answers == [TimestampAndOffset(-1, 2, 0), TimestampAndOffset(-1, 3, 0)]
    await again.manager.stop()


async def test_read_committed_of_a_log_without_transactions_has_an_empty_list(
    broker: TieredBroker,
) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    read = broker.remote_read(0)._replace(isolation=FetchIsolation.TXN_COMMITTED)
    assert (await broker.manager.read(read)).aborted_transactions == []


async def test_the_tier_is_in_trouble_while_readers_meet_damage(broker: TieredBroker) -> None:
    """Though the store answers, and copies go well."""
    broker.append(9, per_segment=3)
    await until(lambda: broker.log.local_log_start_offset == 6)
    assert broker.manager.tier_trouble == ""
    first = next(each for each in broker.tier.segments.values() if each.metadata.start_offset == 3)
    segment_id = first.metadata.id
    broker.tier.segments[segment_id] = first._replace(log=bytes(len(first.log)))
    for _ in range(2):
        with pytest.raises(KafkaError, match="is damaged in the tier"):
            await broker.read(3)
    trouble = broker.manager.tier_trouble
    assert trouble.startswith("Offset 3 of orders-0 cannot be read from the remote tier now")
    assert trouble.endswith("(2 times in a row).")
    # Another segment is whole, and copies go on: that does not mend this one.
    await broker.read(0)
    broker.append(3, per_segment=3)
    await until(lambda: broker.log.local_log_start_offset == 9)
    assert broker.manager.tier_trouble == trouble
    broker.tier.segments[segment_id] = first
    await broker.read(3)
    assert broker.manager.tier_trouble == ""


async def test_trouble_that_nobody_meets_any_more_is_forgotten(broker: TieredBroker) -> None:
    broker.append(9, per_segment=3)
    await until(lambda: broker.log.local_log_start_offset == 6)
    for each in list(broker.tier.segments.values()):
        del broker.tier.segments[each.metadata.id]
    with pytest.raises(KafkaError):
        await broker.read(0)
    assert "(once)" in broker.manager.tier_trouble
    await asyncio.sleep(601)
    assert broker.manager.tier_trouble == ""


async def test_a_request_that_alone_gets_no_answer_is_no_outage(
    broker: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Its partition is named; an operator need not look for an outage that there was not."""
    caplog.set_level(logging.WARNING)
    loop, health = asyncio.get_running_loop(), TierHealth()
    began = loop.time()
    await asyncio.sleep(20)
    health.works()
    await asyncio.sleep(10)
    silence = RemoteStorageError(
        "The remote tier s3://b is unreachable (no answer within 30 s for orders-0-x/0.log)",
        Failure.UNREACHABLE,
    )
    health.task_fails("Copying of orders-0", began, silence)
    assert health.trouble == ""
    (line,) = caplog.messages
    assert line.startswith("Copying of orders-0 is held up by a request of its own")
    assert "for orders-0-x/0.log" in line
    # The next one finds nobody who is answered meanwhile.
    began = loop.time()
    await asyncio.sleep(30)
    health.task_fails("Copying of orders-0", began, silence)
    assert health.trouble == str(silence)
    health.works()
    assert [each.split(" (")[0] for each in caplog.messages[1:]] == [
        "The remote tier s3://b is unreachable",
        "The remote tier works again",
    ]
