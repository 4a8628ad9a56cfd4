"""The same log is asked before and after its local copy goes: nobody can tell the difference."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, example, given, settings, strategies as st

from tierlog.clients.offset_names import (
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from tierlog.clients.record.batch import Record, TimestampType
from tierlog.clients.record.compression import CompressionType
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.tiering.shaped_log import (
    LOGS,
    Kind,
    Shape,
    append_shapes,
    ask,
    consume,
    fetch,
    first_as_young,
    timestamps,
    youngest,
)
from tierlog.tests.tiering.tiered_broker import LOG_CONFIG, TieredBroker, leading_broker, until

NAMED = (
    LATEST_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    MAX_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
)
KEPT = replace(LOG_CONFIG, local_retention_bytes=-1, local_retention_ms=-1)


def one_time(time: int, count: int = 5, *, begins_segment: bool = False) -> Shape:
    """A batch whose records all have the same time."""
    return Shape(
        (time,) * count,
        (0,) * count,
        0,
        CompressionType.NONE,
        TimestampType.CREATE_TIME,
        Kind.PLAIN,
        1,
        0,
        begins_segment,
    )


async def copied(broker: TieredBroker, shapes: Sequence[Shape], log_start: int) -> list[Record]:
    """The log with all closed segments in the tier as well, and its readable records."""
    broker.log.update_config(KEPT)
    records = append_shapes(broker, shapes)
    log = broker.log
    active = log.local.active_segment.base_offset
    await until(lambda: log.highest_remote_offset == active - 1)
    log.maybe_increment_log_start_offset(min(log_start, log.high_watermark))
    return [each for each in records if each.offset >= log.log_start_offset]


def lose_local_copy(broker: TieredBroker) -> None:
    """Everything but the active segment leaves the disk."""
    log = broker.log
    log.update_config(replace(LOG_CONFIG, local_retention_bytes=0))
    log.delete_old_segments(broker.environment.wall_clock_ms())
    assert log.local_log_start_offset == log.local.active_segment.base_offset


async def answers(broker: TieredBroker) -> dict[tuple[int, FetchIsolation], object]:
    return {
        (timestamp, isolation): await ask(broker, timestamp, isolation)
        for timestamp in (*timestamps(), *NAMED)
        for isolation in FetchIsolation
    }


async def fetched(broker: TieredBroker) -> dict[tuple[int, FetchIsolation], object]:
    """By offset and isolation, all that a consumer gets from there on."""
    log = broker.log
    return {
        (offset, isolation): await consume(broker, isolation, offset)
        for offset in range(log.log_start_offset, log.log_end_offset + 1)
        for isolation in FetchIsolation
    }


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(shapes=LOGS, log_start=st.sampled_from([0, 0, 1, 4, 9]))
@example(shapes=[one_time(1_003), one_time(1_004), one_time(1_005)], log_start=0)
def test_a_log_answers_the_same_before_and_after_its_local_copy_goes(
    shapes: list[Shape], log_start: int
) -> None:
    async def story(loop: SimulatedLoop) -> None:
        async with leading_broker(loop) as broker:
            records = await copied(broker, shapes, log_start)
            before = await answers(broker), await fetched(broker)
            for timestamp in timestamps():
                found = before[0][timestamp, FetchIsolation.HIGH_WATERMARK]
                assert isinstance(found, tuple)
                assert found[:2] == first_as_young(records, timestamp)
            found = before[0][MAX_TIMESTAMP, FetchIsolation.HIGH_WATERMARK]
            assert isinstance(found, tuple)
            assert found[:2] == youngest(records)
            lose_local_copy(broker)
            assert await answers(broker) == before[0]
            assert await fetched(broker) == before[1]
            assert (
                broker.log.log_start_offset == broker.log.local_log_start_offset
                or (await fetch(broker, broker.log.log_start_offset, FetchIsolation.LOG_END))[2]
            )

    simulate(story)
