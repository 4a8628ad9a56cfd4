"""The index cache on disk (scenarios 8.3)."""

import asyncio

import pytest

from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.storage.segment.transaction_index import AbortedTxn
from tierlog.tests.tiering.memory_tier import INDEX
from tierlog.tests.tiering.remote_partition import RemotePartition
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.reading.remote_index_cache import RemoteIndexCache
from tierlog.tiering.remote_storage import IndexType, RemoteStorageError

pytestmark = pytest.mark.scenario("8.3")

FOLDER = "/data/remote-log-index-cache"
ABORTED = [AbortedTxn(1, 2, 6, 5)]
ENTRY_BYTES = 34
FILES = 4
"""Of one segment: three indexes, and the sum of one of them."""


def reopened(partition: RemotePartition, max_bytes: int = 1 << 20) -> RemoteIndexCache:
    pool = ThreadedPool(1, "test")
    return RemoteIndexCache(partition.tier, partition.files, "/data", max_bytes, pool)


def three(partition: RemotePartition) -> list[RemoteLogSegmentMetadata]:
    return [partition.add([(at, at + 4, 0), (at + 5, at + 9, 0)]) for at in (0, 10, 20)]


async def test_the_first_look_up_fetches_each_index_once_and_the_second_none(
    partition: RemotePartition,
) -> None:
    segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=ABORTED)
    entry = await partition.indexes.indexes(segment)
    assert entry.offset_index.lookup(9).position > 0
    assert entry.offset_index.lookup(3).position == 0
    assert entry.offset_index.lookup(1000).position == entry.offset_index.lookup(9).position
    assert list(entry.txn_index) == ABORTED
    assert await partition.indexes.indexes(segment) is entry
    counts = partition.indexes.counts
    assert (counts.hits, counts.joined, counts.misses) == (1, 0, 1)
    assert len(partition.tier.asked(INDEX)) == 3
    stem = "0_AAAAAAAAAAAAAAAAAAAAAQ"
    assert partition.files.listdir(FOLDER) == [
        f"{stem}.index",
        f"{stem}.timeindex",
        f"{stem}.txnindex",
        f"{stem}.txnsum",
    ]


async def test_a_missing_transaction_index_is_an_empty_one(partition: RemotePartition) -> None:
    segment = partition.add([(0, 4, 0)], aborted=[])
    assert (await partition.indexes.indexes(segment)).txn_index.is_empty
    assert partition.files.size(f"{FOLDER}/0_AAAAAAAAAAAAAAAAAAAAAQ.txnindex") == 0


async def test_what_is_on_disk_after_a_restart_is_used(partition: RemotePartition) -> None:
    segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=ABORTED)
    await partition.indexes.indexes(segment)
    held = partition.indexes.nbytes
    await partition.indexes.stop()
    partition.files.open(f"{FOLDER}/left.index.tmp", create=True).close()
    cache = reopened(partition)
    await cache.start()
    assert cache.nbytes == held
    assert list((await cache.indexes(segment)).txn_index) == ABORTED
    assert cache.nbytes == held
    assert len(partition.tier.asked(INDEX)) == 3
    assert len(partition.files.listdir(FOLDER)) == FILES
    await cache.stop()


async def test_a_folder_in_a_file_s_place_is_set_aside_and_the_index_fetched_anew(
    partition: RemotePartition,
) -> None:
    segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=ABORTED)
    await partition.indexes.indexes(segment)
    await partition.indexes.stop()
    path = f"{FOLDER}/0_AAAAAAAAAAAAAAAAAAAAAQ.index"
    partition.files.remove(path)
    partition.files.mkdirs(path)
    for _ in range(2):
        cache = reopened(partition)
        await cache.start()
        assert list((await cache.indexes(segment)).txn_index) == ABORTED
        await cache.stop()
    assert len(partition.tier.asked(INDEX)) == 4


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("index", b"1234567"),
        ("index", bytes([0x7F]) * 8),
        ("timeindex", b"12345"),
        ("txnindex", b"123"),
    ],
)
async def test_a_corrupt_file_on_disk_is_fetched_anew(
    partition: RemotePartition, suffix: str, content: bytes
) -> None:
    segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=ABORTED)
    await partition.indexes.indexes(segment)
    await partition.indexes.stop()
    path = f"{FOLDER}/0_AAAAAAAAAAAAAAAAAAAAAQ.{suffix}"
    partition.files.atomic_replace(path, content)
    cache = reopened(partition)
    await cache.start()
    assert list((await cache.indexes(segment)).txn_index) == ABORTED
    assert len(partition.tier.asked(INDEX)) == 4
    assert partition.files.read(path) != content
    await cache.stop()


@pytest.mark.parametrize("entries", [0, 1])
async def test_a_transaction_index_on_disk_that_lost_whole_entries_is_fetched_anew(
    partition: RemotePartition, entries: int
) -> None:
    """It looks sound, and a reader would take aborted records for committed ones."""
    aborted = [AbortedTxn(1, 2, 4, 3), AbortedTxn(2, 5, 6, 5)]
    segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=aborted)
    await partition.indexes.indexes(segment)
    await partition.indexes.stop()
    path = f"{FOLDER}/0_AAAAAAAAAAAAAAAAAAAAAQ.txnindex"
    whole = partition.files.read(path)
    partition.files.atomic_replace(path, whole[: entries * ENTRY_BYTES])
    cache = reopened(partition)
    await cache.start()
    assert list((await cache.indexes(segment)).txn_index) == aborted
    assert partition.files.read(path) == whole
    await cache.stop()


async def test_a_transaction_index_that_the_tier_has_corrupt_is_an_error_and_is_not_kept(
    partition: RemotePartition,
) -> None:
    segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=ABORTED)
    good = partition.tier.segments[segment.id]
    broken = {**good.indexes, IndexType.TRANSACTION: b"1234567"}
    partition.tier.segments[segment.id] = good._replace(indexes=broken)
    with pytest.raises(RemoteStorageError, match="corrupt"):
        await partition.indexes.indexes(segment)
    on_disk = partition.files.listdir(FOLDER)
    held = sum(partition.files.size(f"{FOLDER}/{name}") for name in on_disk)
    assert partition.indexes.nbytes == held
    partition.tier.segments[segment.id] = good
    assert list((await partition.indexes.indexes(segment)).txn_index) == ABORTED
    # What was sound the first time was not fetched again.
    assert len(partition.tier.asked(INDEX)) == 4


async def test_the_folder_may_be_removed_while_the_broker_runs(partition: RemotePartition) -> None:
    first, second, third = three(partition)
    await partition.indexes.indexes(first)
    partition.files.remove_tree(FOLDER)
    for segment in (second, first, third):
        entry = await partition.indexes.indexes(segment)
        assert entry.offset_index.lookup(segment.end_offset).position > 0


async def test_a_segment_that_is_forgotten_while_it_is_loaded_leaves_nothing(
    partition: RemotePartition,
) -> None:
    segment = partition.add([(0, 4, 0), (5, 9, 0)])
    partition.tier.latency_seconds = 1.0
    partition.indexes.prefetch(segment)
    await asyncio.sleep(1.5)
    await partition.indexes.forget(segment)
    await asyncio.sleep(10)
    assert (len(partition.indexes), partition.indexes.nbytes) == (0, 0)
    assert partition.files.listdir(FOLDER) == []


async def test_the_bound_is_in_bytes_and_the_last_used_stay(partition: RemotePartition) -> None:
    segments = three(partition)
    await partition.indexes.indexes(segments[0])
    one = partition.indexes.nbytes
    await partition.indexes.resize(2 * one)
    for each in segments:
        await partition.indexes.indexes(each)
    assert (len(partition.indexes), partition.indexes.nbytes) == (2, 2 * one)
    asked = len(partition.tier.asked(INDEX))
    await partition.indexes.indexes(segments[0])
    assert len(partition.tier.asked(INDEX)) > asked
    await partition.indexes.resize(1)
    assert (len(partition.indexes), partition.indexes.nbytes) == (0, 0)
    assert partition.files.listdir(FOLDER) == []


async def test_what_an_earlier_run_left_makes_room_first(partition: RemotePartition) -> None:
    segments = three(partition)
    for each in segments:
        await partition.indexes.indexes(each)
    total = partition.indexes.nbytes
    await partition.indexes.stop()
    cache = reopened(partition, max_bytes=total * 2 // 3)
    await cache.start()
    assert cache.nbytes <= total * 2 // 3
    assert len(partition.files.listdir(FOLDER)) == 2 * FILES
    await cache.stop()


async def test_forgetting_a_segment_removes_its_files(partition: RemotePartition) -> None:
    segments = three(partition)
    for each in segments:
        await partition.indexes.indexes(each)
    await partition.indexes.forget(segments[1])
    await partition.indexes.forget(segments[1])
    assert len(partition.files.listdir(FOLDER)) == 2 * FILES
    assert len(partition.indexes) == 2


async def test_resizing_down_and_up_keeps_the_last_used_without_a_fetch(
    partition: RemotePartition,
) -> None:
    segments = three(partition)
    await partition.indexes.indexes(segments[0])
    one = partition.indexes.nbytes
    for bound in (2 * one, one, one, 2 * one):
        await partition.indexes.resize(bound)
        for each in segments[:2]:
            if bound == 2 * one:
                await partition.indexes.indexes(each)
        assert (len(partition.indexes), partition.indexes.nbytes) == (bound // one, bound)
        asked = len(partition.tier.asked(INDEX))
        await partition.indexes.indexes(segments[1])
        assert len(partition.tier.asked(INDEX)) == asked


async def test_what_kafka_marked_for_deletion_is_removed_at_the_start(
    partition: RemotePartition,
) -> None:
    segment = partition.add([(0, 4, 0)])
    await partition.indexes.indexes(segment)
    for name in ("0_AAAAAAAAAAAAAAAAAAAAAQ.index.deleted", "1_x.txnindex.deleted"):
        partition.files.open(f"{FOLDER}/{name}", create=True).close()
    await partition.indexes.stop()
    cache = reopened(partition)
    await cache.start()
    assert not [name for name in partition.files.listdir(FOLDER) if "deleted" in name]
    await cache.indexes(segment)
    assert len(partition.tier.asked(INDEX)) == 2
    await cache.stop()


async def test_after_its_end_it_refuses_and_ends_again_without_a_word(
    partition: RemotePartition,
) -> None:
    segment = partition.add([(0, 4, 0)])
    await partition.indexes.indexes(segment)
    await partition.indexes.stop()
    await partition.indexes.stop()
    with pytest.raises(RemoteStorageError, match="closed"):
        await partition.indexes.indexes(segment)
    partition.indexes.prefetch(segment)


async def test_indexes_larger_than_the_whole_cache_are_found_all_the_same(
    partition: RemotePartition,
) -> None:
    """What a reader waits for is not dropped before it has looked (KAFKA-15481)."""
    segments = [
        partition.add([(at, at + 4, 0)], aborted=[AbortedTxn(1, at, at + 3, at)])
        for at in (0, 10, 20)
    ]
    await partition.indexes.resize(1)

    async def look_up(segment: RemoteLogSegmentMetadata) -> None:
        entry = await partition.indexes.indexes(segment)
        assert [txn.first_offset for txn in entry.txn_index] == [segment.start_offset]

    async with asyncio.TaskGroup() as group:
        for each in segments * 5:
            group.create_task(look_up(each))
    assert len(partition.files.listdir(FOLDER)) <= 3 * FILES


async def test_removal_and_use_of_the_same_entry_at_once(partition: RemotePartition) -> None:
    """Both end without an error, and an entry is there if and only if its files are."""
    segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=ABORTED)

    async def look_up() -> None:
        for _ in range(20):
            assert list((await partition.indexes.indexes(segment)).txn_index) == ABORTED
            await asyncio.sleep(0)

    async def remove() -> None:
        for turn in range(20):
            await partition.indexes.forget(segment)
            await asyncio.sleep(0.001 * (turn % 3))

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(look_up())
            group.create_task(remove())
    files = partition.files.listdir(FOLDER)
    assert len(files) == FILES * len(partition.indexes)


async def test_many_who_want_the_same_indexes_cause_one_load(partition: RemotePartition) -> None:
    segment = partition.add([(0, 4, 0)], aborted=ABORTED)
    partition.tier.latency_seconds = 1
    waiting = [asyncio.ensure_future(partition.indexes.indexes(segment)) for _ in range(9)]
    await asyncio.sleep(0.5)
    waiting[0].cancel()
    await asyncio.gather(*waiting[1:])
    assert len(partition.tier.asked(INDEX)) == 3
