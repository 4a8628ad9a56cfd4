"""Pieces of remote segments in memory, so that a sequential reader does not wait for each fetch.

Segments are read in chunks of a fixed size, aligned in the segment. A chunk is loaded once however
many readers want it, kept by last use within a bound in bytes, and when a reader takes one the next
one is fetched behind its back: object stores answer after tens of milliseconds, and a consumer that
reads a segment from beginning to end should feel that once.

Half of the bound is for what is being loaded: many readers of a slow store must not fill the memory
with answers that all come at once. A failed load is not kept.
"""

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from ..clients.kafka_uuid import Uuid
from ..storage.remote_segment import RemoteLogSegmentMetadata
from .cache_counts import CacheCounts
from .remote_storage import RemoteStorageManager
from .single_flight import SingleFlight

_LOADS_WAITING_MAX = 4096
"""Loads that wait for room hold no bytes yet; the reader pool bounds who can ask for them."""

_PREFETCHES_MAX = 64
"""With so many loads under way nobody's future is fetched at the cost of somebody's present."""


class _ChunkKey(NamedTuple):
    segment_id: Uuid
    number: int


class ChunkCache:
    """The bytes of remote segments, by range."""

    def __init__(self, storage: RemoteStorageManager, max_bytes: int, chunk_bytes: int) -> None:
        self._storage = storage
        self.chunk_bytes = min(chunk_bytes, max_bytes)
        """What is fetched at a time."""
        self._chunks: OrderedDict[_ChunkKey, bytes] = OrderedDict()
        self._bytes = 0
        self.counts = CacheCounts()
        loads_at_once = max(1, max_bytes // self.chunk_bytes // 2)
        self._room = asyncio.Semaphore(loads_at_once)
        self._kept_max = max_bytes - loads_at_once * self.chunk_bytes
        self._flights: SingleFlight[_ChunkKey, bytes] = SingleFlight(_LOADS_WAITING_MAX)

    @property
    def nbytes(self) -> int:
        """Bytes held, without what is under way."""
        return self._bytes

    async def read(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> memoryview:
        """Exactly `size` bytes from `position`, or fewer at the segment's end.

        They are a view of what is cached where they lie in one chunk, and keep all of that chunk in
        memory: who needs them for long copies them. Raises RemoteStorageError.
        """
        end = min(position + size, segment.segment_size_bytes)
        if position >= end:
            return memoryview(b"")
        first, last = position // self.chunk_bytes, (end - 1) // self.chunk_bytes
        pieces: list[memoryview] = []
        for number in range(first, last + 1):
            # Ask for the next one before waiting: the two travel together.
            self.prefetch(segment, number + 1)
            chunk = await self._chunk(segment, number)
            start = number * self.chunk_bytes
            pieces.append(memoryview(chunk)[max(position - start, 0) : end - start])
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def prefetch(self, segment: RemoteLogSegmentMetadata, number: int = 0) -> None:
        """Begin to load a chunk that will be wanted soon, if there is such a chunk and room."""
        key = _ChunkKey(segment.id, number)
        if number * self.chunk_bytes >= segment.segment_size_bytes or key in self._chunks:
            return
        if key not in self._flights and len(self._flights) < _PREFETCHES_MAX:
            self._flights.begin(key, lambda: self._load(segment, key))

    async def _chunk(self, segment: RemoteLogSegmentMetadata, number: int) -> bytes:
        key = _ChunkKey(segment.id, number)
        chunk = self._chunks.get(key)
        if chunk is not None:
            self._chunks.move_to_end(key)
            self.counts.hits += 1
            return chunk
        self.counts.waits(key in self._flights)
        return await self._flights.load(key, lambda: self._load(segment, key))

    async def _load(self, segment: RemoteLogSegmentMetadata, key: _ChunkKey) -> bytes:
        start = key.number * self.chunk_bytes
        async with self._room:
            chunk = await self._storage.fetch_log_segment(
                segment, start, start + self.chunk_bytes - 1
            )
        self._keep(key, chunk)
        return chunk

    def _keep(self, key: _ChunkKey, chunk: bytes) -> None:
        self._chunks[key] = chunk
        self._bytes += len(chunk)
        while self._bytes > self._kept_max and len(self._chunks) > 1:
            _, dropped = self._chunks.popitem(last=False)
            self._bytes -= len(dropped)

    def forget(self, segment_id: Uuid) -> None:
        """Drop what is held of a segment that is gone."""
        for key in [key for key in self._chunks if key.segment_id == segment_id]:
            self._bytes -= len(self._chunks.pop(key))

    async def stop(self) -> None:
        """Cancel what is being loaded."""
        await self._flights.stop()
