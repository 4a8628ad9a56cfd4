"""A copy that began and never ended goes only once its records are in a finished one."""

import asyncio
import logging
from dataclasses import replace

import pytest

from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_tier import COPY, DELETE
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker, leading_broker, until
from tierlog.tiering.metadata.metadata_events import metadata_partition

STATE = RemoteLogSegmentState
FIRST_SEGMENT = "/data/orders-0/00000000000000000000.log"


def steps(broker: TieredBroker) -> list[tuple[int, RemoteLogSegmentState]]:
    """Each event as (which announced segment it tells of, the state that it tells)."""
    ids: list[object] = []
    events: list[tuple[int, RemoteLogSegmentState]] = []
    for event in broker.topic.events():
        assert isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
        if event.segment_id not in ids:
            ids.append(event.segment_id)
        events.append((ids.index(event.segment_id), event.state))
    return events


async def crashed_in_a_copy(broker: TieredBroker, *, damage: int | None = None) -> TieredBroker:
    """The next process, after one that ended while it copied [0, 2]; a byte of it may have gone."""
    broker.tier.copies_held.clear()
    broker.append(4, per_segment=3)
    await until(lambda: broker.tier.asked(COPY) == [0])
    await broker.manager.stop()
    if damage is not None:
        broker.files.disk.file(FIRST_SEGMENT).content[damage] ^= 1
    again = TieredBroker(broker.loop, broker.tier, broker.topic, broker.files, broker.config)
    again.tier.copies_held.set()
    await again.manager.start()
    return again


async def test_the_old_copy_goes_after_the_new_one_is_finished(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with leading_broker(loop) as broker:
        again = await crashed_in_a_copy(broker)
        again.lead(1)
        await until(lambda: again.tier.asked(DELETE) == [0])
        await until(lambda: again.metadata.remote_log(PARTITION).unfinished_segments() == [])
        assert steps(again) == [
            (0, STATE.COPY_SEGMENT_STARTED),
            (1, STATE.COPY_SEGMENT_STARTED),
            (1, STATE.COPY_SEGMENT_FINISHED),
            (0, STATE.DELETE_SEGMENT_STARTED),
            (0, STATE.DELETE_SEGMENT_FINISHED),
        ]
        await again.manager.stop()
    assert [each for each in caplog.messages if each.endswith("an unfinished copy")]


async def test_the_old_copy_is_kept_while_the_local_segment_is_damaged(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async with leading_broker(loop) as broker:
        again = await crashed_in_a_copy(broker, damage=100)
        again.lead(1)
        again.append(6, per_segment=3)
        await until(lambda: "damaged" in caplog.text)
        began = again.loop.time()
        await until(lambda: again.loop.time() > began + 600, seconds=700)
        assert again.tier.asked(DELETE) == []
        assert steps(again) == [(0, STATE.COPY_SEGMENT_STARTED)]
        assert again.log.local_log_start_offset == 0
        await again.manager.stop()
    assert "segment 00000000000000000000.log of orders-0 is damaged" in caplog.text


async def test_the_old_copy_is_kept_where_nothing_is_copied_any_more(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with leading_broker(loop) as broker:
        again = await crashed_in_a_copy(broker)
        disabled = replace(again.log.config, remote_log_copy_disable=True)
        again.log.update_config(disabled)
        again.lead(1)
        began = again.loop.time()
        await until(lambda: again.loop.time() > began + 600, seconds=700)
        assert again.tier.asked(DELETE) == []
        again.log.maybe_increment_log_start_offset(3)
        await until(lambda: again.tier.asked(DELETE) == [0])
        await again.manager.stop()
    messages = [each for each in caplog.messages if "is kept" in each]
    assert len(messages) == 1, messages


async def test_the_old_copy_goes_although_the_copies_have_stopped_after_the_new_one(
    loop: SimulatedLoop,
) -> None:
    """Nothing is copied any more, and so retention does what the next copy would have done."""
    async with leading_broker(loop) as broker:
        again = await crashed_in_a_copy(broker)
        held = again.tier.copies_held
        held.clear()
        again.append(3, per_segment=3)
        again.lead(1)
        await until(lambda: again.tier.asked(COPY) == [0, 0])
        # This lets one copy go on, and the next one waits.
        held.set()
        held.clear()
        await until(lambda: again.tier.asked(COPY) == [0, 0, 3])
        again.tier.custom_metadata = bytes(129)
        held.set()
        await until(lambda: again.tier.asked(DELETE) == [3, 0])
        await until(lambda: again.metadata.remote_log(PARTITION).unfinished_segments() == [])
        await again.manager.stop()


async def test_an_upload_that_ends_after_another_leader_gave_it_up_leaves_no_object(
    broker: TieredBroker,
) -> None:
    """This broker was paused in its upload, and has not yet heard that it does not lead."""
    tier, topic = broker.tier, broker.topic
    tier.copies_held.clear()
    broker.append(4, per_segment=3)
    await until(lambda: tier.asked(COPY) == [0])
    (started,) = topic.events()
    assert isinstance(started, RemoteLogSegmentMetadata)
    for state in (STATE.DELETE_SEGMENT_STARTED, STATE.DELETE_SEGMENT_FINISHED):
        update = RemoteLogSegmentMetadataUpdate(
            segment_id=started.segment_id, event_timestamp_ms=2, state=state, broker_id=2
        )
        topic.write_event(metadata_partition(PARTITION, len(topic.partitions)), update)
    await asyncio.sleep(5)
    tier.copies_held.set()
    await until(lambda: broker.log.highest_remote_offset == 2)
    (finished,) = broker.metadata.remote_log(PARTITION).segments()
    assert finished.id != started.id
    assert list(tier.segments) == [finished.id]
