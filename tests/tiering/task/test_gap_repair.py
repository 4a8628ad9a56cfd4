"""A log whose metadata lost what is in the tier: found again where it is, never deleted."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from tierlog.storage.remote.remote_segment import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierlog.tests.tiering.memory_tier import DELETE
from tierlog.tests.tiering.tiered_broker import PARTITION, TieredBroker, until
from tierlog.tiering.metadata.metadata_events import decode_event

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


def is_end_of_copy(event: RemoteLogMetadata) -> bool:
    return isinstance(event, RemoteLogSegmentMetadataUpdate) and event.state is FINISHED


def everything(_: RemoteLogMetadata) -> bool:
    return True


def lose(broker: TieredBroker, is_lost: Callable[[RemoteLogMetadata], bool]) -> None:
    """The metadata topic comes back without some of its events."""
    for records in broker.topic.partitions:
        records[:] = [value for value in records if not is_lost(decode_event(value))]


async def copied(broker: TieredBroker) -> None:
    """Nine records in three segments; two are in the tier and nowhere else."""
    broker.append(9, per_segment=3)
    await until(lambda: broker.log.local_log_start_offset == 6)
    assert broker.tier.start_offsets() == [0, 3]


def settled(broker: TieredBroker) -> Callable[[], bool]:
    return lambda: broker.log.highest_remote_offset == 5


async def finds_everything_again(broker: TieredBroker) -> None:
    """The next start does, and deletes nothing."""
    again = await broker.restarted(1)
    await until(settled(again))
    assert again.log.log_start_offset == 0
    assert await again.consume(0) == (list(range(9)), list(range(6)))
    assert again.tier.asked(DELETE) == []
    await again.manager.stop()


async def test_a_copy_whose_end_was_lost_is_finished_and_not_deleted(broker: TieredBroker) -> None:
    await copied(broker)
    lose(broker, is_end_of_copy)
    await finds_everything_again(broker)


@pytest.mark.parametrize("kept", [0, 1, 2])
async def test_copies_that_the_metadata_has_lost_are_announced_again(
    broker: TieredBroker, kept: int
) -> None:
    await copied(broker)
    first = min(broker.tier.segments.values(), key=lambda each: each.metadata.start_offset)

    def is_lost(event: RemoteLogMetadata) -> bool:
        of_first = (
            not isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
            or event.segment_id == first.metadata.segment_id
        )
        return {0: True, 1: of_first, 2: not of_first}[kept]

    lose(broker, is_lost)
    await finds_everything_again(broker)


async def test_an_only_copy_that_is_not_whole_is_kept_and_reported(
    broker: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    await copied(broker)
    lose(broker, is_end_of_copy)
    broker.tier.incomplete.update(broker.tier.segments)
    again = await broker.restarted(1)
    again.append(6, per_segment=3)
    await asyncio.sleep(600)
    assert again.tier.start_offsets()[:2] == [0, 3]
    assert again.tier.asked(DELETE) == []
    assert again.log.log_start_offset == 0
    assert "are in no finished remote segment and cannot be read" in caplog.text
    # Once the log gives them up, they go.
    again.log.maybe_increment_log_start_offset(6)
    await until(lambda: min(again.tier.start_offsets(), default=6) >= 6)
    await again.manager.stop()


async def test_a_log_begins_where_it_can_be_read_when_nothing_below_is_left(
    broker: TieredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a consumer of the earliest offset would be told that it is out of range, for ever."""
    caplog.set_level(logging.WARNING)
    await copied(broker)
    lose(broker, everything)
    broker.tier.segments.clear()
    again = await broker.restarted(1)
    await until(lambda: again.log.log_start_offset == 6)
    assert (await again.consume(6))[0] == [6, 7, 8]
    assert "moves from 0 to 6" in caplog.text
    await again.manager.stop()


async def test_nothing_is_decided_while_the_store_cannot_be_asked(broker: TieredBroker) -> None:
    await copied(broker)
    lose(broker, everything)
    broker.tier.is_down = True
    again = await broker.restarted(1)
    await asyncio.sleep(600)
    assert again.log.log_start_offset == 0
    assert again.topic.events() == []
    broker.tier.is_down = False
    await until(settled(again))
    assert (await again.consume(0))[0] == list(range(9))
    await again.manager.stop()


async def test_what_a_crash_left_of_a_copy_whose_records_are_here_still_goes(
    broker: TieredBroker,
) -> None:
    broker.topic.is_down = False
    broker.tier.copies_held.clear()
    broker.append(4, per_segment=3)
    await until(lambda: len(broker.topic.events()) == 1)
    again = await broker.restarted(1)
    again.tier.copies_held.set()
    await until(lambda: again.log.highest_remote_offset == 2)
    assert again.metadata.remote_log(PARTITION).unfinished_segments() == []
    assert again.tier.asked(DELETE) == [0]
    await again.manager.stop()
