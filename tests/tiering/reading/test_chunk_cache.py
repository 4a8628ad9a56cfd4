"""The chunk cache: exact bytes, one load each, ahead of the reader, within its bound."""

import asyncio

import pytest
from hypothesis import given, strategies as st

from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.tiering.memory_tier import FETCH, UNREACHABLE, MemoryTier, StoredSegment
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tiering.reading.chunk_cache import ChunkCache
from tierlog.tiering.remote_storage import RemoteStorageError

pytestmark = pytest.mark.usefixtures("loop")


class RangedTier(MemoryTier):
    """One that remembers which bytes were fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int]] = []

    async def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> bytes:
        piece = await super().fetch_log_segment(metadata, start_position, end_position)
        self.ranges.append((start_position, len(piece)))
        return piece


def stored(tier: MemoryTier, number: int, size: int) -> RemoteLogSegmentMetadata:
    metadata = segment_metadata(number, size=size)
    log = bytes((number + position) % 251 for position in range(size))
    tier.segments[metadata.id] = StoredSegment(metadata, log, {})
    return metadata


@given(
    size=st.integers(1, 300),
    chunk=st.integers(1, 64),
    ranges=st.lists(st.tuples(st.integers(0, 310), st.integers(0, 120)), max_size=8),
)
def test_any_range_is_read_exactly(size: int, chunk: int, ranges: list[tuple[int, int]]) -> None:
    async def story(_: SimulatedLoop) -> None:
        tier = MemoryTier()
        metadata = stored(tier, 1, size)
        cache = ChunkCache(tier, 8 * chunk, chunk)
        log = tier.segments[metadata.id].log
        for position, length in ranges:
            expected = log[position : position + length]
            assert await cache.read(metadata, position, length) == expected
            assert cache.nbytes <= 8 * chunk
        await cache.stop()

    simulate(story)


async def test_a_sequential_reader_waits_once_and_each_chunk_is_fetched_once(
    loop: SimulatedLoop,
) -> None:
    tier = MemoryTier()
    metadata = stored(tier, 1, 100)
    cache = ChunkCache(tier, 100, 10)
    tier.latency_seconds = 1
    began = loop.time()
    for position in range(0, 100, 10):
        await cache.read(metadata, position, 10)
        await asyncio.sleep(1)
    assert loop.time() - began < 12
    assert len(tier.asked(FETCH)) == 10
    await cache.stop()


async def test_what_is_there_on_its_way_and_missing_is_counted_apart() -> None:
    tier = MemoryTier()
    metadata = stored(tier, 1, 30)
    cache = ChunkCache(tier, 100, 10)
    tier.latency_seconds = 1
    both = asyncio.ensure_future(cache.read(metadata, 0, 10))
    await cache.read(metadata, 0, 10)
    await both
    assert (cache.counts.hits, cache.counts.joined, cache.counts.misses) == (0, 1, 1)
    # The second piece was fetched ahead with the first, the third is on its way with it.
    await cache.read(metadata, 10, 10)
    await cache.read(metadata, 20, 10)
    assert (cache.counts.hits, cache.counts.joined, cache.counts.misses) == (1, 2, 1)
    await cache.stop()


async def test_a_cancelled_reader_leaves_the_chunk_for_its_retry() -> None:
    tier = MemoryTier()
    metadata = stored(tier, 1, 10)
    cache = ChunkCache(tier, 100, 10)
    tier.latency_seconds = 5
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await cache.read(metadata, 0, 10)
    await asyncio.sleep(5)
    assert cache.nbytes == 10
    await cache.read(metadata, 0, 10)
    assert len(tier.asked(FETCH)) == 1
    await cache.stop()


async def test_a_failed_load_is_not_kept() -> None:
    tier = MemoryTier()
    metadata = stored(tier, 1, 10)
    cache = ChunkCache(tier, 100, 10)
    tier.faults[FETCH] = [UNREACHABLE]
    with pytest.raises(RemoteStorageError):
        await cache.read(metadata, 0, 10)
    assert len(await cache.read(metadata, 0, 10)) == 10
    await cache.stop()


async def test_many_readers_of_a_slow_tier_do_not_fill_the_memory() -> None:
    tier = MemoryTier()
    segments = [stored(tier, number, 10) for number in range(50)]
    cache = ChunkCache(tier, 40, 10)
    tier.latency_seconds = 1
    under_way = 0

    async def watch() -> None:
        nonlocal under_way
        for _ in range(100):
            under_way = max(under_way, len(tier.events) - finished())
            assert cache.nbytes <= 40
            await asyncio.sleep(0.1)

    reads = [asyncio.ensure_future(cache.read(each, 0, 10)) for each in segments]

    def finished() -> int:
        return sum(read.done() for read in reads)

    await watch()
    await asyncio.gather(*reads)
    assert under_way <= 2
    await cache.stop()


async def test_the_last_used_chunk_stays() -> None:
    tier = MemoryTier()
    first, second, third = (stored(tier, number, 10) for number in (1, 2, 3))
    cache = ChunkCache(tier, 20, 10)
    for each in (first, second, first, third, first):
        await cache.read(each, 0, 10)
    assert len(tier.asked(FETCH)) == 3
    await cache.read(second, 0, 10)
    assert len(tier.asked(FETCH)) == 4
    cache.forget(second.id)
    await cache.read(second, 0, 10)
    assert len(tier.asked(FETCH)) == 5
    await cache.stop()


@pytest.mark.parametrize("readers", [1, 5, 10, 30])
async def test_readers_at_places_of_their_own_do_not_throw_out_each_others_chunks(
    readers: int,
) -> None:
    tier = RangedTier()
    segments = [stored(tier, number, 640) for number in range(readers)]
    cache = ChunkCache(tier, 640, 40)
    tier.latency_seconds = 0.01

    async def read(segment: RemoteLogSegmentMetadata) -> None:
        log = tier.segments[segment.id].log
        for position in range(0, 640, 9):
            # As a fetch does, a little more than it will take.
            piece = await cache.read(segment, position, 10)
            assert piece == log[position : position + 10]
            assert cache.nbytes <= 640
            await asyncio.sleep(0.001)

    await asyncio.gather(*(read(each) for each in segments))
    fetched = sum(size for _, size in tier.ranges)
    assert fetched <= 1.2 * 640 * readers
    await cache.stop()


async def test_what_nobody_comes_back_for_makes_room_in_the_end() -> None:
    tier = RangedTier()
    abandoned = [stored(tier, number, 10) for number in range(7)]
    cache = ChunkCache(tier, 80, 10)
    for each in abandoned:
        await cache.read(each, 0, 5)
    other = stored(tier, 9, 10)
    await cache.read(other, 0, 5)
    assert len(tier.ranges) == 8
    for _again in range(2):
        # There is no room for it yet: each read fetches what it needs.
        await cache.read(other, 0, 5)
    assert tier.ranges[-2:] == [(0, 5), (0, 5)]
    for _again in range(600):
        await cache.read(other, 0, 5)
    before = len(tier.ranges)
    await cache.read(other, 5, 5)
    assert len(tier.ranges) == before
    await cache.stop()
