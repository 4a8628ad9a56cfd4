"""The interface of a store for a tier (`TierStore`), and the objects passed to it.

    LocalStore      `file`: our own `Files`, with fsync and rename
    BlockingStore   synchronous file systems of fsspec, in the bounded pool
    NativeStore     asynchronous ones, in our own loop: s3, gs, abfs

A store raises whatever its library raises; `file_system.py` classifies the errors. Each request
has its own deadline, so a server that accepts a connection and then does not answer causes an
error, not a task that waits forever.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from ...clients.record.checksum import crc32c
from ..blocking_pool import BlockingPool
from ..remote_storage import RemoteStorageError, SegmentBytes

PIECE_BYTES = 8 * 1024 * 1024
"""Bytes of an object in memory at once while it is written; also the size of S3 parts."""


class TierObject(NamedTuple):
    """One object of the tier."""

    key: str
    """Relative to the tier's root."""
    size: int
    modified_ms: int | None
    """By the store's own clock; None if the store does not report it."""


class Readable(Protocol):
    """Bytes that are read only when they are needed."""

    def read(self) -> bytes: ...


IsLeft = Callable[[str, int], bool]
"""Whether an upload is abandoned; takes its key and its start time in ms, by the store's clock."""

SliceAt = Callable[[int, int], Readable | SegmentBytes]
"""Returns `size` bytes from a position of the content, read only when they are needed."""


class Source:
    """An object to be written to the tier, read once, front to back, in pieces."""

    def __init__(self, size: int, slice_at: SliceAt, pool: BlockingPool) -> None:
        self.size = size
        self.crc = 0
        """CRC32C of the pieces read so far."""
        self._slice_at = slice_at
        self._pool = pool

    async def pieces(self, piece_bytes: int = PIECE_BYTES) -> AsyncIterator[bytes]:
        """The whole object in one or more pieces; only the last may be under `piece_bytes`."""
        self.crc = 0
        for position in range(0, max(self.size, 1), piece_bytes):
            size = min(piece_bytes, self.size - position)
            yield await self._pool.run(partial(self._read, position, size))

    async def whole(self) -> bytes:
        """The whole of an object that is one piece."""
        assert self.size <= PIECE_BYTES, "Larger objects are read in pieces"
        return b"".join([piece async for piece in self.pieces()])

    def _read(self, position: int, size: int) -> bytes:
        try:
            content = self._slice_at(position, size).read()
        except OSError as error:
            raise RemoteStorageError(
                f"A file to be copied to the remote tier could not be read ({error})"
            ) from error
        if len(content) != size:
            raise RemoteStorageError("A file to be copied to the remote tier has become shorter")
        self.crc = crc32c(content, self.crc)
        return content


async def in_pieces(start: int, end: int, read: Callable[[int, int], Awaitable[bytes]]) -> bytes:
    """The bytes of a range, read by requests for a piece each; fewer where the object is shorter.

    Raises OSError if a piece is longer than its range: the next ones would stand in wrong places.
    A range of one piece is not checked.
    """
    if end - start <= PIECE_BYTES:
        return await read(start, end)
    pieces: list[bytes] = []
    for position in range(start, end, PIECE_BYTES):
        size = min(PIECE_BYTES, end - position)
        piece = await read(position, position + size)
        if len(piece) > size:
            raise OSError(f"{len(piece)} bytes where {size} were requested: it ignores byte ranges")
        pieces.append(piece)
        if len(piece) < size:
            break
    return b"".join(pieces)


class TierStore(Protocol):
    """One kind of file system. Keys are relative to the tier's root."""

    async def put(self, key: str, source: Source) -> None:
        """Write an object; as far as possible, a failure leaves nothing that looks complete."""
        ...

    async def get(self, key: str, start: int | None, end: int | None) -> bytes: ...

    async def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; a missing one counts as removed."""
        ...

    async def find(self, prefix: str) -> list[TierObject]:
        """Every object whose key starts with `prefix`, in any order."""
        ...

    async def find_beginnings(self, prefix: str, delimiter: str) -> set[str]:
        """See `TierFileSystem.list_beginnings`; keys without the delimiter are left out."""
        ...

    async def remove_folder(self, prefix: str) -> None:
        """Remove an empty folder, in stores that have folders."""
        ...

    async def abort_uploads(self, prefix: str, is_left: IsLeft) -> int:
        """Abort multipart uploads of keys with a prefix, where the store keeps them forever.

        Aborts only those that `is_left` calls abandoned; returns their number.
        """
        ...

    async def renew(self) -> bool:
        """Reconnect before the next call. True if the current connection ever worked."""
        ...

    async def close(self) -> None:
        """Close the connections; the store may be used again. Idempotent."""
        ...


def beginning_of(key: str, prefix: str, delimiter: str) -> str | None:
    """A key up to the first delimiter after a prefix, with both; None if it has not both."""
    if not key.startswith(prefix):
        return None
    end = key.find(delimiter, len(prefix))
    return None if end < 0 else key[: end + len(delimiter)]


async def at_most(number: int, calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Run calls, `number` of them at a time; the first failure ends the rest."""
    waiting = list(reversed(calls))

    async def worker() -> None:
        while waiting:
            await waiting.pop()()

    with first_failure():
        async with asyncio.TaskGroup() as group:
            for _ in range(min(number, len(calls))):
                group.create_task(worker())


@contextmanager
def first_failure() -> Generator[None]:
    """Raise the first failure of a task group, in place of the group."""
    try:
        yield
    except ExceptionGroup as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
