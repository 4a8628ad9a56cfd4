"""What a kind of file system gives so that a tier can stand on it, and what is handed to it.

    LocalStore      `file`: our own door to the disk, with fsync and rename
    BlockingStore   synchronous file systems of fsspec, in the bounded pool
    NativeStore     asynchronous ones, in our own loop: s3, gs, abfs

A store raises whatever its library raises; `file_system.py` tells the errors apart. Each request
has a deadline of its own, so a server that accepts a connection and then says nothing is an error
and not a task that waits for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from ...clients.record.checksum import crc32c
from ..blocking_pool import BlockingPool
from ..remote_storage import RemoteStorageError, SegmentBytes

PIECE_BYTES = 8 * 1024 * 1024
"""How much of an object is in memory at once while it is written; S3's parts are as large."""


class TierObject(NamedTuple):
    """One object of the tier."""

    key: str
    """Relative to the tier's root."""
    size: int
    modified_ms: int | None
    """By the store's own clock; None where it does not say."""


class Readable(Protocol):
    """What is read when its turn comes."""

    def read(self) -> bytes: ...


IsLeft = Callable[[str, int], bool]
"""Of an upload in parts: its key, and when it began by the store's clock in milliseconds."""

SliceAt = Callable[[int, int], Readable | SegmentBytes]
"""Gives `size` bytes from a position of what is to be written, read only when they are needed."""


class Source:
    """An object on its way to the tier, read once, front to back, in pieces."""

    def __init__(self, size: int, slice_at: SliceAt, pool: BlockingPool) -> None:
        self.size = size
        self.crc = 0
        """Of the pieces read so far."""
        self._slice_at = slice_at
        self._pool = pool

    async def pieces(self, piece_bytes: int = PIECE_BYTES) -> AsyncIterator[bytes]:
        """All of it, at least one piece; only the last one is shorter than `piece_bytes`."""
        self.crc = 0
        for position in range(0, max(self.size, 1), piece_bytes):
            size = min(piece_bytes, self.size - position)
            yield await self._pool.run(partial(self._read, position, size))

    async def whole(self) -> bytes:
        """All of an object that is one piece."""
        assert self.size <= PIECE_BYTES, "Larger objects are read in pieces"
        return b"".join([piece async for piece in self.pieces()])

    def _read(self, position: int, size: int) -> bytes:
        try:
            content = self._slice_at(position, size).read()
        except OSError as error:
            raise RemoteStorageError(
                f"What was to be written to the remote tier could not be read here ({error})"
            ) from error
        if len(content) != size:
            raise RemoteStorageError(
                "What was to be written to the remote tier is shorter here than it was"
            )
        self.crc = crc32c(content, self.crc)
        return content


class TierStore(Protocol):
    """One kind of file system. Keys are relative to the tier's root."""

    async def put(self, key: str, source: Source) -> None:
        """Write an object; when this fails nothing is left that looks whole, as far as it can."""
        ...

    async def get(self, key: str, start: int | None, end: int | None) -> bytes: ...

    async def remove(self, keys: Sequence[str]) -> None:
        """What is not there counts as removed."""
        ...

    async def find(self, prefix: str) -> list[TierObject]:
        """Every object whose key starts with `prefix`, in any order."""
        ...

    async def remove_folder(self, prefix: str) -> None:
        """Remove an empty folder, in stores that have folders."""
        ...

    async def abort_uploads(self, prefix: str, is_left: IsLeft) -> int:
        """Abort uploads in parts of keys with a prefix, where the store keeps them for ever.

        Only those of which `is_left` says that nobody will finish them; how many that was.
        """
        ...

    async def renew(self) -> bool:
        """Connect anew before the next call. True if the present connection ever worked."""
        ...

    async def close(self) -> None:
        """Let go of connections; the store may be used again. Idempotent."""
        ...


async def at_most(number: int, calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Run calls, `number` of them at a time; the first failure ends the rest."""
    waiting = list(reversed(calls))

    async def worker() -> None:
        while waiting:
            await waiting.pop()()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(number, len(calls))):
                group.create_task(worker())
    except* Exception as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
