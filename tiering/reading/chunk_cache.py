"""Caches chunks of remote segments, so that a sequential reader does not wait for each fetch.

Segments are read in chunks of a fixed size, aligned in the segment. A chunk is loaded once however
many readers want it, the cache is bounded in bytes, and when a reader takes a chunk the next one is
prefetched: object stores respond after tens of milliseconds, and a consumer that reads a segment
from beginning to end should wait that long only once.

A chunk serves several reads, until it was read to its end. Such spent chunks are dropped first; one
that is partly read or not read yet is not dropped for another reader. With more readers than
chunks, a reader that finds no room gets just the bytes it asks for, without prefetching: if readers
evicted each other's chunks, every read would load its chunk again. A chunk that is not read again
counts as spent after several hundred other reads.

At most half of the bound is being loaded at once: many readers of a slow store must not fill the
memory with responses that arrive together. A failed load is not kept.
"""

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..remote_storage import RemoteStorageManager
from .cache_counts import CacheCounts
from .single_flight import SingleFlight

_LOADS_WAITING_MAX = 4096
"""Loads that wait for room hold no bytes yet; the reader pool bounds how many there are."""

_PREFETCHES_MAX = 64
"""No prefetch starts while this many loads are in progress: waiting readers come first."""


_ABANDONED_AFTER_READS = 512
"""After this many other reads, a chunk that is not read to its end counts as spent."""

_SHARED_CHUNKS = 8
"""A cache of at least this many chunks keeps an eighth free for readers that find no room."""


class _ChunkKey(NamedTuple):
    segment_id: Uuid
    number: int


class _Chunk:
    """The bytes of a chunk, and the number of the read that used it last."""

    __slots__ = ("content", "touched")

    def __init__(self, content: bytes, touched: int) -> None:
        self.content = content
        self.touched = touched


class ChunkCache:
    """Caches byte ranges of remote segments."""

    def __init__(self, storage: RemoteStorageManager, max_bytes: int, chunk_bytes: int) -> None:
        self._storage = storage
        self.chunk_bytes = min(chunk_bytes, max_bytes)
        """Size of one fetch."""
        self._fresh: OrderedDict[_ChunkKey, _Chunk] = OrderedDict()
        """Chunks not yet read to their end, by last use."""
        self._spent: OrderedDict[_ChunkKey, _Chunk] = OrderedDict()
        """Chunks read to their end, by last use."""
        self._bytes = self._fresh_bytes = 0
        self._reads = 0
        self.counts = CacheCounts()
        chunks = max_bytes // self.chunk_bytes
        self._room = asyncio.Semaphore(max(1, chunks // 2))
        self._loading = 0
        """Bytes being loaded."""
        self._max_bytes = max_bytes
        self._fresh_max = max_bytes - (max_bytes // 8 if chunks >= _SHARED_CHUNKS else 0)
        self._flights: SingleFlight[_ChunkKey, bytes] = SingleFlight(_LOADS_WAITING_MAX)

    @property
    def nbytes(self) -> int:
        """Bytes held, without those being loaded."""
        return self._bytes

    async def read(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> memoryview:
        """Exactly `size` bytes from `position`, or fewer at the segment's end.

        Bytes within one chunk are a view that keeps the whole chunk in memory: copy them to keep
        them for long. Raises RemoteStorageError.
        """
        end = min(position + size, segment.segment_size_bytes)
        if position >= end:
            return memoryview(b"")
        self._reads += 1
        first, last = position // self.chunk_bytes, (end - 1) // self.chunk_bytes
        pieces: list[memoryview] = []
        for number in range(first, last + 1):
            start = number * self.chunk_bytes
            key = _ChunkKey(segment.id, number)
            begin, until = max(position - start, 0), min(end - start, self.chunk_bytes)
            pieces.append(await self._piece(segment, key, begin, until))
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def prefetch(self, segment: RemoteLogSegmentMetadata, number: int = 0) -> None:
        """Start loading a chunk that will be needed soon, if it exists and there is room."""
        key = _ChunkKey(segment.id, number)
        if number * self.chunk_bytes >= segment.segment_size_bytes or self._holds(key):
            return
        if key in self._flights or len(self._flights) >= _PREFETCHES_MAX:
            return
        if self._has_room():
            self._flights.begin(key, lambda: self._load(segment, key))

    async def _piece(
        self, segment: RemoteLogSegmentMetadata, key: _ChunkKey, begin: int, until: int
    ) -> memoryview:
        """Bytes [begin, until) of one chunk, relative to its start."""
        content = self._look_at(key, until)
        if content is not None:
            self.counts.hits += 1
            self.prefetch(segment, key.number + 1)
            return memoryview(content)[begin:until]
        is_under_way = key in self._flights
        self.counts.waits(is_under_way)
        start = key.number * self.chunk_bytes
        if not is_under_way and not self._has_room():
            return memoryview(await self._fetch(segment, start + begin, until - begin))
        # Request the next chunk before waiting, so that both load at once.
        self._flights.begin(key, lambda: self._load(segment, key))
        self.prefetch(segment, key.number + 1)
        content = await self._flights.load(key, lambda: self._load(segment, key))
        self._look_at(key, until)
        return memoryview(content)[begin:until]

    async def _load(self, segment: RemoteLogSegmentMetadata, key: _ChunkKey) -> bytes:
        start = key.number * self.chunk_bytes
        content = await self._fetch(segment, start, self.chunk_bytes)
        self._fresh[key] = _Chunk(content, self._reads)
        self._bytes += len(content)
        self._fresh_bytes += len(content)
        self._make_room()
        return content

    async def _fetch(self, segment: RemoteLogSegmentMetadata, start: int, size: int) -> bytes:
        """Fetch from the tier once a load may start, making room for the bytes beforehand."""
        async with self._room:
            self._loading += size
            try:
                self._make_room()
                return await self._storage.fetch_log_segment(segment, start, start + size - 1)
            finally:
                self._loading -= size

    def holds(self, segment: RemoteLogSegmentMetadata, position: int) -> bool:
        """Whether the chunk with this position is cached; does not count as a use."""
        return self._holds(_ChunkKey(segment.id, position // self.chunk_bytes))

    def _holds(self, key: _ChunkKey) -> bool:
        return key in self._fresh or key in self._spent

    def _look_at(self, key: _ChunkKey, until: int) -> bytes | None:
        """The bytes of a cached chunk, marked as read up to `until`; None if it is not cached."""
        chunk = self._fresh.get(key)
        is_fresh = chunk is not None
        if chunk is None and (chunk := self._spent.get(key)) is None:
            return None
        chunk.touched = self._reads
        if is_fresh and until < len(chunk.content):
            self._fresh.move_to_end(key)
        elif is_fresh:
            self._spend(key)
        else:
            self._spent.move_to_end(key)
        return chunk.content

    def _spend(self, key: _ChunkKey) -> None:
        chunk = self._spent[key] = self._fresh.pop(key)
        self._fresh_bytes -= len(chunk.content)

    def _has_room(self) -> bool:
        """Whether one more chunk fits beside those that are not read to their end."""
        while self._fresh:
            key, chunk = next(iter(self._fresh.items()))
            if chunk.touched > self._reads - _ABANDONED_AFTER_READS:
                break
            self._spend(key)
        load_bytes = (len(self._flights) + 1) * self.chunk_bytes
        return self._fresh_bytes + load_bytes <= self._fresh_max

    def _make_room(self) -> None:
        """Drop chunks until those held and those being loaded are within the bound."""
        most = self._max_bytes - self._loading
        while self._bytes > most and len(self._spent) + len(self._fresh) > 1:
            if self._spent:
                _, dropped = self._spent.popitem(last=False)
            else:
                _, dropped = self._fresh.popitem(last=False)
                self._fresh_bytes -= len(dropped.content)
            self._bytes -= len(dropped.content)

    def forget(self, segment_id: Uuid) -> None:
        """Drop the chunks of a deleted or damaged segment."""
        for key in [key for key in self._fresh if key.segment_id == segment_id]:
            self._spend(key)
        for key in [key for key in self._spent if key.segment_id == segment_id]:
            self._bytes -= len(self._spent.pop(key).content)

    async def stop(self) -> None:
        """Cancel the loads in progress."""
        await self._flights.stop()
