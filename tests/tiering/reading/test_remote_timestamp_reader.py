"""Timestamps looked for in remote segments (scenarios 4.8, and -3 of section 6)."""

from dataclasses import replace

import pytest

from tierlog.clients.offset_names import MAX_TIMESTAMP
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.storage.log.fetch_data import RemoteTimestampLookup
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tierlog.storage.segment.time_index import TimestampAndOffset
from tierlog.tests.tiering.memory_tier import FETCH, StoredSegment
from tierlog.tests.tiering.remote_partition import (
    OFFSET_ENTRY,
    PARTITION,
    RemotePartition,
    remote_partition,
)
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tiering.reading.remote_timestamp_reader import RemoteTimestampReader
from tierlog.tiering.remote_storage import IndexType, RemoteResourceNotFound, RemoteStorageError

TS = 1_000

pytestmark = pytest.mark.usefixtures("loop")


def put(
    partition: RemotePartition,
    number: int,
    start: int,
    times: list[int],
    epoch: int = 0,
    *,
    said: int | None = None,
    log_start: int = 0,
) -> RemoteLogSegmentMetadata:
    """A finished segment of one-record batches; `said` is the largest timestamp of its metadata.

    `log_start` is where the log began when it was copied.
    """
    log, index = b"", b""
    for offset, time in enumerate(times, start):
        index += OFFSET_ENTRY.pack(offset - start, len(log)) if log else b""
        record = Record(offset, time, None, b"v", ())
        log += bytes(build_batch([record], base_offset=offset, leader_epoch=epoch))
    metadata = segment_metadata(
        number,
        size=len(log),
        offsets=(start, start + len(times) - 1),
        epochs=((epoch, max(start, log_start)),),
        partition=PARTITION,
        txn_index_empty=True,
    )
    metadata = replace(metadata, max_timestamp_ms=max(times) if said is None else said)
    indexes = {IndexType.OFFSET: index, IndexType.TIMESTAMP: b""}
    partition.tier.segments[metadata.id] = StoredSegment(metadata, log, indexes)
    partition.remote.apply_copy_started(metadata)
    partition.move(metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
    return metadata


async def look_up(
    partition: RemotePartition,
    timestamp: int,
    *,
    start: int = 0,
    local_start: int = 1_000,
    local: TimestampAndOffset | None = None,
) -> TimestampAndOffset | None:
    reader = RemoteTimestampReader(partition.indexes, partition.chunks)
    lookup = RemoteTimestampLookup(PARTITION, timestamp, start, local_start, local)
    history = partition.leader_epochs.entries
    return await reader.find(lookup, partition.remote, history, 10_000)


@pytest.mark.scenario("4.8")
async def test_the_first_record_that_is_as_young(partition: RemotePartition) -> None:
    put(partition, 1, 120, [TS - 1, TS + 1, TS + 2])
    assert await look_up(partition, TS) == TimestampAndOffset(TS + 1, 121, 0)
    assert await look_up(partition, TS + 2) == TimestampAndOffset(TS + 2, 122, 0)
    assert await look_up(partition, TS + 3) is None
    assert await look_up(partition, 0, start=121) == TimestampAndOffset(TS + 1, 121, 0)


@pytest.mark.scenario("4.8")
async def test_what_no_fetch_could_read_is_not_found(partition: RemotePartition) -> None:
    """The log began in the midst of the segment, and this leader has not heard of it."""
    put(partition, 1, 120, [TS, TS + 1, TS + 2], log_start=121)
    assert await look_up(partition, TS) == TimestampAndOffset(TS + 1, 121, 0)


@pytest.mark.scenario("4.8")
async def test_a_segment_of_another_branch_is_not_looked_at(partition: RemotePartition) -> None:
    put(partition, 1, 120, [TS - 1, TS + 1, TS + 2], epoch=3)
    assert await look_up(partition, TS) is None
    assert not partition.tier.events


@pytest.mark.scenario("4.8")
async def test_what_is_still_local_is_left_to_the_local_log(partition: RemotePartition) -> None:
    """KAFKA-17498."""
    put(partition, 1, 0, [TS, TS + 1])
    put(partition, 2, 2, [TS + 2, TS + 3])
    assert await look_up(partition, TS + 2, local_start=2) is None
    assert not partition.tier.events
    found = await look_up(partition, TS + 2, local_start=3)
    assert found == TimestampAndOffset(TS + 2, 2, 0)


async def test_segments_that_end_too_early_are_passed_over_unread(
    partition: RemotePartition,
) -> None:
    for number in range(5):
        put(partition, number + 1, number * 2, [TS + number * 10, TS + number * 10 + 1])
    assert await look_up(partition, TS + 31) == TimestampAndOffset(TS + 31, 7, 0)
    assert set(partition.tier.asked(FETCH)) == {6}


async def test_a_segment_that_is_deleted_meanwhile_is_looked_up_once_more(
    partition: RemotePartition,
) -> None:
    put(partition, 1, 0, [TS])
    partition.tier.faults[FETCH] = [RemoteResourceNotFound("gone for a moment")]
    assert await look_up(partition, TS) == TimestampAndOffset(TS, 0, 0)


async def test_a_damaged_segment_gives_no_answer(partition: RemotePartition) -> None:
    metadata = put(partition, 1, 0, [TS])
    stored = partition.tier.segments[metadata.id]
    damaged = bytearray(stored.log)
    damaged[-1] ^= 1
    partition.tier.segments[metadata.id] = stored._replace(log=bytes(damaged))
    with pytest.raises(RemoteStorageError, match="damaged"):
        await look_up(partition, TS)


@pytest.mark.scenario("6")
async def test_the_youngest_of_all_may_be_in_any_segment(partition: RemotePartition) -> None:
    put(partition, 1, 0, [TS, TS + 5])
    put(partition, 2, 2, [TS + 90, TS + 91, TS + 91])
    put(partition, 3, 5, [TS + 7])
    assert await look_up(partition, MAX_TIMESTAMP) == TimestampAndOffset(TS + 91, 3, 0)
    assert set(partition.tier.asked(FETCH)) == {2}
    older = TimestampAndOffset(TS + 90, 70, 0)
    found = await look_up(partition, MAX_TIMESTAMP, local=older)
    assert found == TimestampAndOffset(TS + 91, 3, 0)
    same = TimestampAndOffset(TS + 91, 70, 0)
    found = await look_up(partition, MAX_TIMESTAMP, local=same)
    assert found == TimestampAndOffset(TS + 91, 3, 0)


@pytest.mark.scenario("6")
async def test_where_the_local_record_is_younger_nothing_is_fetched(
    partition: RemotePartition,
) -> None:
    put(partition, 1, 0, [TS, TS + 5])
    younger = TimestampAndOffset(TS + 6, 70, 0)
    assert await look_up(partition, MAX_TIMESTAMP, local=younger) is None
    assert not partition.tier.events


@pytest.mark.scenario("6")
async def test_the_youngest_may_lie_below_the_log_start(partition: RemotePartition) -> None:
    put(partition, 1, 0, [TS + 99, TS + 20, TS + 21, TS + 3])
    put(partition, 2, 4, [TS + 4])
    found = await look_up(partition, MAX_TIMESTAMP, start=1)
    assert found == TimestampAndOffset(TS + 21, 2, 0)
    put(partition, 3, 5, [TS + 22])
    found = await look_up(partition, MAX_TIMESTAMP, start=1)
    assert found == TimestampAndOffset(TS + 22, 5, 0)


@pytest.mark.scenario("6")
async def test_metadata_that_claims_too_much_is_not_believed(partition: RemotePartition) -> None:
    """Kafka writes the time of the file where the records have none."""
    put(partition, 1, 0, [-1, -1], said=10 * TS)
    put(partition, 2, 2, [TS])
    assert await look_up(partition, MAX_TIMESTAMP) == TimestampAndOffset(TS, 2, 0)


async def test_of_a_segment_that_goes_on_beyond_this_history_its_own_part_counts() -> None:
    """An unclean election has cut the log at 10; the tier still has what the old leader copied."""
    async with remote_partition([(0, 0), (1, 10)]) as partition:
        old = partition.add([(0, 9, 0), (10, 19, 0)])
        partition.move(old, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        partition.add([(10, 14, 1)])
        assert await look_up(partition, 50) == TimestampAndOffset(50, 5, 0)
        assert await look_up(partition, 100) == TimestampAndOffset(100, 10, 1)
        assert await look_up(partition, 150) is None
