"""What a read from the tier returns, to the batch (scenarios 3.3 to 3.5 and 4.6)."""

import asyncio

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import batches
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.remote.remote_segment import RemoteLogSegmentState
from tierlog.storage.segment.transaction_index import AbortedTxn
from tierlog.tests.tiering.memory_tier import BROKEN, FETCH, INDEX, UNREACHABLE
from tierlog.tests.tiering.remote_partition import RemotePartition, batch_bytes, remote_partition
from tierlog.tiering.reading.remote_log_reader import RemoteFetchResult
from tierlog.tiering.remote_storage import IndexType, RemoteResourceNotFound

pytestmark = pytest.mark.usefixtures("loop")


def values(result: RemoteFetchResult) -> list[str]:
    return [
        (record.value or b"").split()[0].decode()
        for batch in batches(result.records)
        for record in batch.records()
    ]


@pytest.mark.scenario("4.6")
async def test_a_read_begins_with_the_batch_that_holds_the_offset(
    partition: RemotePartition,
) -> None:
    partition.add([(0, 4, 0), (5, 9, 0), (10, 14, 0)])
    assert values(await partition.read(partition.request(7)))[0] == "5/0"
    assert len(values(await partition.read(partition.request(7)))) == 10


@pytest.mark.scenario("4.6")
async def test_4_6_the_first_batch_is_returned_whole_if_the_reader_must_make_progress(
    partition: RemotePartition,
) -> None:
    partition.add([(0, 4, 0), (5, 9, 0)])
    tight = partition.request(0, max_bytes=10)
    assert (await partition.read(tight)).records == batch_bytes((0, 4, 0))
    empty = await partition.read(tight._replace(min_one_message=False))
    assert (empty.records, empty.first_entry_incomplete) == (b"", True)


async def test_batches_are_taken_whole_while_they_fit(partition: RemotePartition) -> None:
    partition.add([(0, 4, 0), (5, 9, 0), (10, 14, 0)])
    size = len(batch_bytes((0, 4, 0)))
    result = await partition.read(partition.request(0, max_bytes=2 * size + 5))
    assert result.records == batch_bytes((0, 4, 0)) + batch_bytes((5, 9, 0))


async def test_a_batch_larger_than_a_chunk_and_the_limit_arrives_whole(
    partition: RemotePartition,
) -> None:
    partition.add([(0, 0, 0), (1, 1, 0)], value=bytes(300_000))
    result = await partition.read(partition.request(1, max_bytes=100))
    assert result.records == batch_bytes((1, 1, 0), bytes(300_000))


async def test_a_read_takes_about_a_chunk_however_much_its_reader_allows(
    partition: RemotePartition,
) -> None:
    many = [(number, number, 0) for number in range(300)]
    partition.add(many, value=bytes(1_000))
    wanted, found = 0, b""
    while len(piece := (await partition.read(partition.request(wanted))).records):
        assert len(piece) <= partition.chunks.chunk_bytes + 65_536
        found += piece
        wanted = [batch.next_offset for batch in batches(piece)][-1]
        if wanted == 300:
            break
    assert found == b"".join(batch_bytes(batch, bytes(1_000)) for batch in many)


@pytest.mark.scenario("3.3")
async def test_scenario_3_a_read_stops_where_the_history_leaves_the_segment() -> None:
    async with remote_partition([(0, 0), (1, 1)]) as partition:
        partition.add([(0, 0, 0), (1, 1, 0)])
        partition.add([(1, 1, 1)])
        assert values(await partition.read(partition.request(0))) == ["0/0"]
        assert values(await partition.read(partition.request(1))) == ["1/1"]


@pytest.mark.scenario("3.4")
async def test_scenario_4_after_an_unclean_election_the_new_branch_answers() -> None:
    async with remote_partition([(0, 0), (1, 1)]) as partition:
        partition.add([(0, 0, 0), (1, 1, 0), (2, 2, 0)])
        partition.add([(0, 0, 0), (1, 1, 1)])
        assert values(await partition.read(partition.request(0))) == ["0/0"]
        assert values(await partition.read(partition.request(1))) == ["1/1"]


@pytest.mark.scenario("3.5")
async def test_scenario_5_each_history_reads_its_own_branch() -> None:
    async with remote_partition([(0, 0), (2, 5)]) as partition:
        partition.add([(0, 1, 0), (2, 3, 0)])
        partition.add([(0, 1, 0), (2, 3, 1)])
        partition.add([(4, 4, 0), (5, 5, 2)])
        assert values(await partition.read(partition.request(2))) == ["2/0", "3/0"]
        assert values(await partition.read(partition.request(4))) == ["4/0", "5/2"]

    async with remote_partition([(0, 0), (1, 2)]) as partition:
        partition.add([(0, 1, 0), (2, 3, 0)])
        partition.add([(0, 1, 0), (2, 3, 1)])
        assert values(await partition.read(partition.request(0))) == ["0/0", "1/0"]
        assert values(await partition.read(partition.request(2))) == ["2/1", "3/1"]


@pytest.mark.scenario("4.6")
async def test_4_6_an_offset_that_was_compacted_away_is_read_from_the_next_segment(
    partition: RemotePartition,
) -> None:
    partition.add([(0, 4, 0)], end_offset=9)
    partition.add([(10, 14, 0)])
    assert values(await partition.read(partition.request(7)))[0] == "10/0"


@pytest.mark.scenario("4.6")
async def test_4_6_no_batch_and_no_next_segment_is_an_empty_answer(
    partition: RemotePartition,
) -> None:
    partition.add([(0, 4, 0)], end_offset=9)
    committed = partition.request(7)._replace(isolation=FetchIsolation.TXN_COMMITTED)
    assert await partition.read(committed) == RemoteFetchResult(b"", [])


@pytest.mark.scenario("4.6")
async def test_4_6_what_the_tier_does_not_have_is_out_of_range(partition: RemotePartition) -> None:
    partition.add([(0, 4, 0)])
    with pytest.raises(KafkaError) as refused:
        await partition.read(partition.request(5))
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert refused.value.message == (
        "Received request for offset 5 for leader epoch 0 and partition orders-0 "
        "which does not exist in remote tier."
    )


@pytest.mark.scenario("4.6")
async def test_4_6_aborted_transactions_are_found_in_later_segments_and_locally(
    partition: RemotePartition,
) -> None:
    first, second, local = (
        AbortedTxn(1, 2, 6, 5),
        AbortedTxn(2, 3, 12, 7),
        AbortedTxn(3, 4, 30, 8),
    )
    partition.add([(0, 4, 0)])
    partition.add([(5, 9, 0)], aborted=[first._replace(last_stable_offset=2)])
    partition.add([(10, 14, 0)], aborted=[second._replace(last_stable_offset=3)])
    partition.local_aborted = [local]
    read = partition.request(0)._replace(isolation=FetchIsolation.TXN_COMMITTED)
    found = (await partition.read(read)).aborted_transactions or []
    assert [txn.producer_id for txn in found] == [1, 2, 3]
    assert values(await partition.read(read)) == [f"{offset}/0" for offset in range(5)]


async def test_the_search_for_aborted_transactions_ends_where_none_can_follow(
    partition: RemotePartition,
) -> None:
    partition.add([(0, 4, 0)], aborted=[AbortedTxn(1, 0, 4, 5)])
    later = partition.add([(5, 9, 0)], aborted=[AbortedTxn(2, 1, 7, 8)])
    del partition.tier.segments[later.id]
    read = partition.request(0)._replace(isolation=FetchIsolation.TXN_COMMITTED)
    assert (await partition.read(read)).aborted_transactions == [AbortedTxn(1, 0, 4, 5)]


@pytest.mark.scenario("4.6")
async def test_kip_1058_an_index_known_to_be_empty_is_never_asked_for(
    partition: RemotePartition,
) -> None:
    partition.add([(0, 4, 0)])
    read = partition.request(0)._replace(isolation=FetchIsolation.TXN_COMMITTED)
    assert (await partition.read(read)).aborted_transactions == []
    assert len(partition.tier.asked(INDEX)) == 2


async def test_an_object_that_vanished_is_looked_up_once_more(partition: RemotePartition) -> None:
    partition.add([(0, 4, 0)])
    partition.tier.faults[FETCH] = [RemoteResourceNotFound("gone for a moment")]
    assert values(await partition.read(partition.request(0)))[0] == "0/0"


async def test_an_object_that_retention_took_is_out_of_range(partition: RemotePartition) -> None:
    metadata = partition.add([(0, 4, 0)])
    read = partition.request(2)
    del partition.tier.segments[metadata.id]
    partition.log_start_offset = 5
    with pytest.raises(KafkaError) as refused:
        await partition.read(read)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    partition.log_start_offset = 0
    partition.move(metadata, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    with pytest.raises(KafkaError) as gone:
        await partition.read(read)
    assert gone.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("fault", [UNREACHABLE, BROKEN])
async def test_a_failing_tier_is_a_retriable_error_and_nothing_is_poisoned(
    partition: RemotePartition, fault: Exception
) -> None:
    partition.add([(0, 4, 0)])
    for operation in (INDEX, FETCH):
        partition.tier.faults[operation] = [fault]
        with pytest.raises(KafkaError) as failed:
            await partition.read(partition.request(0))
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(await partition.read(partition.request(0)))[0] == "0/0"


@pytest.mark.parametrize("position", [5, 9, 17, 30, 70])
async def test_damaged_bytes_never_reach_a_client(
    partition: RemotePartition, position: int
) -> None:
    metadata = partition.add([(0, 4, 0), (5, 9, 0)])
    stored = partition.tier.segments[metadata.id]
    damaged = bytearray(stored.log)
    damaged[position] ^= 0x81
    partition.tier.segments[metadata.id] = stored._replace(log=bytes(damaged))
    with pytest.raises(KafkaError) as failed:
        await partition.read(partition.request(0))
    assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    partition.tier.segments[metadata.id] = stored
    partition.chunks.forget(metadata.id)
    assert values(await partition.read(partition.request(0)))[0] == "0/0"


async def test_a_corrupt_index_in_the_tier_is_made_again_from_the_batches(
    partition: RemotePartition,
) -> None:
    metadata = partition.add([(0, 4, 0), (5, 9, 0)])
    stored = partition.tier.segments[metadata.id]
    broken = {**stored.indexes, IndexType.OFFSET: b"1234567"}
    partition.tier.segments[metadata.id] = stored._replace(indexes=broken)
    assert values(await partition.read(partition.request(7)))[0] == "5/0"


async def test_the_next_segment_is_fetched_before_it_is_asked_for(
    partition: RemotePartition,
) -> None:
    partition.add([(0, 4, 0)])
    partition.add([(5, 9, 0)])
    await partition.read(partition.request(0))
    partition.tier.latency_seconds = 3600
    await partition.indexes.indexes(partition.remote.segments()[1])
    assert partition.tier.asked(FETCH) == [0, 5]
    assert values(await partition.read(partition.request(5)))[0] == "5/0"


async def test_several_small_segments_are_fetched_ahead_and_not_all_of_them(
    partition: RemotePartition,
) -> None:
    for number in range(20):
        partition.add([(number, number, 0)], value=bytes(500))
    await partition.read(partition.request(0))
    await partition.indexes.indexes(partition.remote.segments()[1])
    await asyncio.sleep(0.1)
    assert partition.tier.asked(FETCH) == list(range(9))
    partition.tier.latency_seconds = 3600
    for number in range(1, 9):
        assert values(await partition.read(partition.request(number))) == [f"{number}/0"]


async def test_large_segments_ahead_are_begun_one_at_a_time(partition: RemotePartition) -> None:
    for number in range(5):
        partition.add([(number, number, 0)], value=bytes(9_000))
    await partition.read(partition.request(0))
    await asyncio.sleep(0.1)
    assert set(partition.tier.asked(FETCH)) == {0, 1}


@pytest.mark.scenario("4.6")
async def test_an_abort_of_a_branch_that_was_cut_off_is_not_returned() -> None:
    """The same transaction was aborted by a deposed leader and committed by its successor."""
    async with remote_partition([(0, 0), (1, 2)]) as partition:
        partition.add([(0, 1, 0), (2, 2, 0)], aborted=[AbortedTxn(1, 0, 2, 3)])
        partition.add([(2, 4, 1)], aborted=[AbortedTxn(2, 1, 4, 5)])
        read = partition.request(0)._replace(isolation=FetchIsolation.TXN_COMMITTED)
        found = await partition.read(read)
        assert values(found) == ["0/0", "1/0"]
        assert found.aborted_transactions == [AbortedTxn(2, 1, 4, 5)]


@pytest.mark.scenario("4.6")
async def test_an_abort_is_found_however_many_segments_lie_between(
    partition: RemotePartition,
) -> None:
    """Too short a search would show a consumer what was aborted (KAFKA-17801)."""
    late = AbortedTxn(1, 0, 1_204, 1_205)
    for number in range(1_200):
        partition.add([(number, number, 0)])
    partition.add([(1_200, 1_204, 0)], aborted=[late])
    read = partition.request(0)._replace(isolation=FetchIsolation.TXN_COMMITTED)
    assert (await partition.read(read)).aborted_transactions == [late]
    beyond = partition.request(1_204)._replace(isolation=FetchIsolation.TXN_COMMITTED)
    assert (await partition.read(beyond)).aborted_transactions == [late]


async def test_where_nothing_was_aborted_no_later_segment_is_looked_at(
    partition: RemotePartition,
) -> None:
    first = partition.add([(0, 4, 0)], aborted=[AbortedTxn(1, 0, 3, 0)])
    for number in range(5, 50):
        partition.add([(number, number, 0)])
    assert partition.remote.aborted_transactions_end == 4
    partition.local_aborted = [AbortedTxn(9, 3, 60, 1)]
    read = partition.request(4)._replace(isolation=FetchIsolation.TXN_COMMITTED)
    assert (await partition.read(read)).aborted_transactions == partition.local_aborted
    partition.move(first, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    assert partition.remote.aborted_transactions_end == -1
