"""A damaged index in the tier, or in the cache of indexes, never hides a record."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import batches
from tierlog.storage.log.fetch_data import RemoteTimestampLookup
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.storage.segment.time_index import TimestampAndOffset
from tierlog.tests.tiering.memory_tier import FETCH, StoredSegment
from tierlog.tests.tiering.remote_partition import PARTITION, RemotePartition, remote_partition
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.reading.remote_index_cache import DIRECTORY, RemoteIndexCache
from tierlog.tiering.reading.remote_log_reader import RemoteLogReader
from tierlog.tiering.reading.remote_timestamp_reader import RemoteTimestampReader
from tierlog.tiering.remote_storage import IndexType, RemoteStorageError
from tierlog.tiering.store.object_keys import object_key

BATCHES = [(first, first + 4, 0) for first in range(0, 40, 5)]
pytestmark = pytest.mark.usefixtures("loop")


@asynccontextmanager
async def one_segment() -> AsyncGenerator[tuple[RemotePartition, RemoteLogSegmentMetadata]]:
    async with remote_partition([(0, 0)]) as partition:
        yield partition, partition.add(BATCHES)


async def opened_again(partition: RemotePartition, *, keeps_files: bool) -> None:
    """As after a restart of the broker, with or without what it had cached."""
    await partition.indexes.stop()
    folder = f"/data/{DIRECTORY}"
    for name in () if keeps_files else partition.files.listdir(folder):
        partition.files.remove(f"{folder}/{name}")
    pool = ThreadedPool(1, "test")
    partition.indexes = RemoteIndexCache(partition.tier, partition.files, "/data", 1 << 20, pool)
    await partition.indexes.start()
    partition.reader = RemoteLogReader(partition.indexes, partition.chunks)


async def check_all(partition: RemotePartition) -> None:
    """Each offset and each time leads to its own record."""
    for offset in range(0, 40, 3):
        found = await partition.read(partition.request(offset))
        first = next(batches(found.records))
        assert first.base_offset <= offset <= first.last_offset
    reader = RemoteTimestampReader(partition.indexes, partition.chunks)
    for offset in range(0, 40, 3):
        lookup = RemoteTimestampLookup(PARTITION, offset * 10, 0, 1000, None)
        history = partition.leader_epochs.entries
        record = await reader.find(lookup, partition.remote, history, 1000)
        assert record == TimestampAndOffset(offset * 10, offset, 0)


def damages(content: bytes) -> Iterator[bytes]:
    """The content with each of its bits flipped, cut at each entry, and cut within one."""
    for at in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[at] ^= 1 << bit
            yield bytes(changed)
    for size in range(len(content)):
        yield content[:size]
    yield bytes(len(content))
    yield b"\xff" * len(content)


@pytest.mark.parametrize("index_type", [IndexType.OFFSET, IndexType.TIMESTAMP])
async def test_whatever_happens_to_an_index_in_the_tier_each_record_is_found(
    index_type: IndexType,
) -> None:
    async with one_segment() as (partition, segment):
        stored = partition.tier.segments[segment.id]
        for number, content in enumerate(damages(stored.indexes[index_type])):
            if number % STEP:
                continue
            changed = {**stored.indexes, index_type: content}
            partition.tier.segments[segment.id] = stored._replace(indexes=changed)
            await opened_again(partition, keeps_files=False)
            await check_all(partition)


STEP = 4
"""Of so many damages one is tried; 1 tries all, in half a minute."""


@pytest.mark.parametrize("index_type", [IndexType.OFFSET, IndexType.TIMESTAMP])
async def test_whatever_happens_to_a_cached_index_each_record_is_found(
    index_type: IndexType,
) -> None:
    async with one_segment() as (partition, segment):
        await partition.indexes.indexes(segment)
        folder = f"/data/{DIRECTORY}"
        (name,) = (
            each
            for each in partition.files.listdir(folder)
            if each.endswith(f".{index_type.value}")
        )
        sound = partition.files.read(f"{folder}/{name}")
        for number, content in enumerate(damages(sound)):
            if number % STEP:
                continue
            await partition.indexes.stop()
            partition.files.atomic_replace(f"{folder}/{name}", content)
            await opened_again(partition, keeps_files=True)
            await check_all(partition)


async def test_indexes_are_made_again_once_and_not_for_each_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with one_segment() as (partition, segment):
        stored = partition.tier.segments[segment.id]
        shifted = bytearray(stored.indexes[IndexType.OFFSET])
        shifted[3] -= 5
        changed = {**stored.indexes, IndexType.OFFSET: bytes(shifted)}
        partition.tier.segments[segment.id] = stored._replace(indexes=changed)
        await check_all(partition)
        fetched = len(partition.tier.asked(FETCH))
        await check_all(partition)
        assert len(partition.tier.asked(FETCH)) == fetched
    (line,) = caplog.records
    assert "is corrupt" in line.getMessage()


def noise(stored: StoredSegment) -> StoredSegment:
    return stored._replace(log=bytes((each * 7 + 13) % 251 for each in range(len(stored.log))))


def one_bit(stored: StoredSegment) -> StoredSegment:
    log = bytearray(stored.log)
    for at in range(61, len(log), 100):
        log[at] ^= 1
    return stored._replace(log=bytes(log))


def zeros(stored: StoredSegment) -> StoredSegment:
    return stored._replace(log=bytes(len(stored.log)))


@pytest.mark.parametrize("damage", [noise, zeros, one_bit])
@pytest.mark.parametrize("reads", [1, 3])
async def test_a_segment_that_is_whole_again_is_read_again(
    damage: Callable[[StoredSegment], StoredSegment], reads: int, caplog: pytest.LogCaptureFixture
) -> None:
    """As a bad answer of the store, or an object that was damaged and is restored."""
    async with one_segment() as (partition, segment):
        sound = partition.tier.segments[segment.id]
        partition.tier.segments[segment.id] = damage(sound)
        for _ in range(reads):
            for offset in (0, 22):
                with pytest.raises(KafkaError) as failure:
                    await partition.read(partition.request(offset))
                assert failure.value.code is ErrorCode.KAFKA_STORAGE_ERROR
                # The object that is damaged is named, and no other.
                assert object_key(segment, "log").rpartition("/")[2] in failure.value.message
                assert "index" not in failure.value.message
        partition.tier.segments[segment.id] = sound
        await check_all(partition)
    assert "is corrupt" not in caplog.text


async def test_one_bad_answer_of_the_store_is_asked_for_again() -> None:
    """The bytes do not fit the index; what comes the second time does."""
    async with one_segment() as (partition, segment):
        sound = partition.tier.segments[segment.id]
        partition.tier.segments[segment.id] = noise(sound)
        await partition.chunks.read(segment, 0, 10)
        partition.tier.segments[segment.id] = sound
        await check_all(partition)


async def test_a_search_by_time_reads_again_too() -> None:
    async with one_segment() as (partition, segment):
        sound = partition.tier.segments[segment.id]
        partition.tier.segments[segment.id] = noise(sound)
        reader = RemoteTimestampReader(partition.indexes, partition.chunks)
        history = partition.leader_epochs.entries
        lookup = RemoteTimestampLookup(PARTITION, 220, 0, 1000, None)
        for _ in range(2):
            with pytest.raises(RemoteStorageError) as failure:
                await reader.find(lookup, partition.remote, history, 1000)
            assert object_key(segment, "log").rpartition("/")[2] in str(failure.value)
        partition.tier.segments[segment.id] = sound
        await check_all(partition)
