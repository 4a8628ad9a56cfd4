"""The index cache on disk (scenarios 8.3)."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tierlog.storage.remote_segment import RemoteLogSegmentMetadata
from tierlog.storage.transaction_index import AbortedTxn
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.tiering.memory_tier import INDEX
from tierlog.tests.tiering.remote_partition import RemotePartition
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.remote_index_cache import RemoteIndexCache
from tierlog.tiering.remote_storage import IndexType, RemoteStorageError

FOLDER = "/data/remote-log-index-cache"
ABORTED = [AbortedTxn(1, 2, 6, 5)]

Story = Callable[[RemotePartition], Coroutine[Any, Any, None]]


def told(story: Story) -> None:
    async def run(_: SimulatedLoop) -> None:
        partition = RemotePartition([(0, 0)])
        await partition.indexes.start()
        await story(partition)
        await partition.stop()

    simulate(run)


def reopened(partition: RemotePartition, max_bytes: int = 1 << 20) -> RemoteIndexCache:
    pool = ThreadedPool(1, "test")
    return RemoteIndexCache(partition.tier, partition.files, "/data", max_bytes, pool)


def three(partition: RemotePartition) -> list[RemoteLogSegmentMetadata]:
    return [partition.add([(at, at + 4, 0), (at + 5, at + 9, 0)]) for at in (0, 10, 20)]


def test_the_first_look_up_fetches_each_index_once_and_the_second_none() -> None:
    async def story(partition: RemotePartition) -> None:
        segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=ABORTED)
        entry = await partition.indexes.indexes(segment)
        assert entry.offset_index.lookup(9).position > 0
        assert entry.offset_index.lookup(3).position == 0
        assert entry.offset_index.lookup(1000).position == entry.offset_index.lookup(9).position
        assert list(entry.txn_index) == ABORTED
        assert await partition.indexes.indexes(segment) is entry
        assert len(partition.tier.asked(INDEX)) == 3
        stem = "0_AAAAAAAAAAAAAAAAAAAAAQ"
        assert partition.files.listdir(FOLDER) == [
            f"{stem}.index",
            f"{stem}.timeindex",
            f"{stem}.txnindex",
        ]

    told(story)


def test_a_missing_transaction_index_is_an_empty_one() -> None:
    async def story(partition: RemotePartition) -> None:
        segment = partition.add([(0, 4, 0)], aborted=[])
        assert (await partition.indexes.indexes(segment)).txn_index.is_empty
        assert partition.files.size(f"{FOLDER}/0_AAAAAAAAAAAAAAAAAAAAAQ.txnindex") == 0

    told(story)


def test_what_is_on_disk_after_a_restart_is_used() -> None:
    async def story(partition: RemotePartition) -> None:
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
        assert len(partition.files.listdir(FOLDER)) == 3
        await cache.stop()

    told(story)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("index", b"1234567"),
        ("index", bytes([0x7F]) * 8),
        ("timeindex", b"12345"),
        ("txnindex", b"123"),
    ],
)
def test_a_corrupt_file_on_disk_is_fetched_anew(suffix: str, content: bytes) -> None:
    async def story(partition: RemotePartition) -> None:
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

    told(story)


@pytest.mark.parametrize(
    "index_type", [IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION]
)
def test_an_index_that_the_tier_has_corrupt_is_an_error_and_is_not_kept(
    index_type: IndexType,
) -> None:
    async def story(partition: RemotePartition) -> None:
        segment = partition.add([(0, 4, 0), (5, 9, 0)], aborted=ABORTED)
        good = partition.tier.segments[segment.id]
        broken = {**good.indexes, index_type: b"1234567"}
        partition.tier.segments[segment.id] = good._replace(indexes=broken)
        with pytest.raises(RemoteStorageError, match="corrupt"):
            await partition.indexes.indexes(segment)
        on_disk = partition.files.listdir(FOLDER)
        held = sum(partition.files.size(f"{FOLDER}/{name}") for name in on_disk)
        assert partition.indexes.nbytes == held
        partition.tier.segments[segment.id] = good
        assert list((await partition.indexes.indexes(segment)).txn_index) == ABORTED
        # What was sound the first time was not fetched again.
        order = [IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION]
        fetched = order.index(index_type) + 1 + len(order) - order.index(index_type)
        assert len(partition.tier.asked(INDEX)) == fetched

    told(story)


def test_the_bound_is_in_bytes_and_the_last_used_stay() -> None:
    async def story(partition: RemotePartition) -> None:
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

    told(story)


def test_what_an_earlier_run_left_makes_room_first() -> None:
    async def story(partition: RemotePartition) -> None:
        segments = three(partition)
        for each in segments:
            await partition.indexes.indexes(each)
        total = partition.indexes.nbytes
        await partition.indexes.stop()
        cache = reopened(partition, max_bytes=total * 2 // 3)
        await cache.start()
        assert cache.nbytes <= total * 2 // 3
        assert len(partition.files.listdir(FOLDER)) == 6
        await cache.stop()

    told(story)


def test_forgetting_a_segment_removes_its_files() -> None:
    async def story(partition: RemotePartition) -> None:
        segments = three(partition)
        for each in segments:
            await partition.indexes.indexes(each)
        await partition.indexes.forget(segments[1])
        await partition.indexes.forget(segments[1])
        assert len(partition.files.listdir(FOLDER)) == 6
        assert len(partition.indexes) == 2

    told(story)
