"""A tier in an asynchronous fsspec file system (s3, gs, abfs), used on the caller's event loop.

fsspec provides the configuration, the credentials and the connections. The requests are made here,
because they must be small: a file system's own upload of 64 MiB blocks the loop for a sixth of a
second and doubles the memory. An object of more than one piece is uploaded in parts of 8 MiB, at
most two at a time, and completed at the end; an upload that fails is aborted.

A client belongs to the loop it was made in. It is made at the first use, and made again when the
credentials were refused, to pick up rotated ones.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from ..blocking_pool import BlockingPool
from ..remote_storage import Failure
from .remote_failures import failure_of
from .request_deadline import RequestDeadline
from .tier_store import IsLeft, Source, TierObject, at_most, first_failure, in_pieces

T = TypeVar("T")

PARTS_AT_ONCE = 2
EMPTY_PAGES_MAX = 1000
"""So many pages of a listing in a row may hold nothing, as they may where much was deleted."""
_REMOVALS_AT_ONCE = 8
_ABORT_SECONDS = 5.0


class Upload(Protocol):
    """An object that is uploaded in parts."""

    async def part(self, number: int, content: bytes) -> None:
        """Send part `number`; the first is 0."""
        ...

    async def finish(self) -> None: ...

    async def abort(self) -> None:
        """Make the store discard the parts that it has."""
        ...


class UnfinishedUpload(NamedTuple):
    """A multipart upload that was begun by any client."""

    path: str
    began_ms: int
    abort: Callable[[], Awaitable[object]]


class ObjectStoreClient(Protocol):
    """The requests of one kind of store. Paths begin with the bucket, as in fsspec."""

    parts_at_once: int
    whole_bytes_max: int
    """A larger object is uploaded in parts, even if in only one."""

    async def put(self, path: str, content: bytes) -> None: ...

    async def begin_upload(self, path: str, size: int) -> Upload: ...

    async def get(self, path: str, start: int | None, end: int | None) -> bytes: ...

    async def remove(self, paths: Sequence[str]) -> list[Callable[[], Awaitable[object]]]:
        """The requests that remove these paths; a missing object counts as removed."""
        ...

    async def page(self, prefix: str, after: str | None) -> tuple[list[TierObject], str | None]:
        """A page of the listing, with whole paths as keys, and the token of the next page."""
        ...

    async def beginnings(
        self, prefix: str, delimiter: str, after: str | None
    ) -> tuple[list[str], str | None]:
        """A page of the paths with this prefix, each up to the next delimiter; the next token."""
        ...

    async def uploads(self, prefix: str) -> list["UnfinishedUpload"]:
        """Unfinished multipart uploads under a prefix; empty if the store drops them by itself."""
        ...

    async def close(self) -> None: ...


Connector = Callable[[BlockingPool, float], Awaitable[tuple[ObjectStoreClient, str]]]
"""Makes a client with a request timeout in seconds; returns it and the tier's root."""


class _Connection:
    """A client, and the number of calls that are using it."""

    def __init__(self, client: ObjectStoreClient, root: str) -> None:
        self.client = client
        self.root = root
        self.users = 0
        self.is_retired = False
        self.worked = False


class NativeStore:
    """A `TierStore` that sends its requests through a client on the running event loop."""

    def __init__(
        self, load: Callable[[], Connector], pool: BlockingPool, deadline: RequestDeadline
    ) -> None:
        """`load` imports what the connector needs; it may block."""
        self._load = load
        self._pool = pool
        self._deadline = deadline
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._connection: _Connection | None = None

    async def _within(self, request: Awaitable[T], *, is_answered: bool = True) -> T:
        try:
            async with self._deadline.kept(is_answered=is_answered):
                return await request
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # When a connection breaks while a request is being sent, aiohttp cancels the waiter.
            # Nobody cancelled this task, so the caller must see an ordinary failure.
            raise ConnectionError("the connection broke while it was written to") from None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # A client of a loop that has ended can no longer be closed.
            self._loop, self._lock, self._connection = loop, asyncio.Lock(), None
        async with self._lock:
            if self._connection is None:
                # Importing takes seconds on a busy machine. The store is not to blame for them.
                connect = await self._pool.run(self._load)
                made = await self._within(
                    # Making a client sends no request to the store.
                    connect(self._pool, self._deadline.seconds),
                    is_answered=False,
                )
                self._connection = _Connection(*made)
            return self._connection

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[tuple[ObjectStoreClient, str]]:
        connection = await self._connect()
        connection.users += 1
        try:
            yield connection.client, connection.root
            connection.worked = True
        finally:
            connection.users -= 1
            if connection.is_retired and not connection.users:
                await self._close(connection)

    async def _close(self, connection: _Connection) -> None:
        with suppress(Exception):
            # Nothing is lost if the connection does not close properly.
            await self._within(connection.client.close())

    async def put(self, key: str, source: Source) -> None:
        async with self._client() as (client, root):
            path = f"{root}/{key}"
            if source.size <= client.whole_bytes_max:
                content = await source.whole()
                await self._within(client.put(path, content))
                return
            upload = await self._within(client.begin_upload(path, source.size))
            try:
                await self._send(source, upload, client.parts_at_once)
                await self._within(upload.finish())
            except BaseException:
                with suppress(Exception):
                    # An unreachable store keeps the parts; see `tier_probe.py`.
                    async with asyncio.timeout(_ABORT_SECONDS):
                        await upload.abort()
                raise

    async def _send(self, source: Source, upload: Upload, at_once: int) -> None:
        turns = asyncio.Semaphore(at_once)

        async def send(number: int, content: bytes) -> None:
            try:
                await self._within(upload.part(number, content))
            finally:
                turns.release()

        with first_failure():
            async with asyncio.TaskGroup() as group:
                number = 0
                await turns.acquire()
                async for piece in source.pieces():
                    group.create_task(send(number, piece))
                    number += 1
                    await turns.acquire()

    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        async with self._client() as (client, root):
            path = f"{root}/{key}"

            async def read(start: int | None, end: int | None) -> bytes:
                return await self._within(client.get(path, start, end))

            if start is None or end is None:
                return await read(start, end)
            return await in_pieces(start, end, read)

    async def remove(self, keys: Sequence[str]) -> None:
        async with self._client() as (client, root):
            calls = await client.remove([f"{root}/{key}" for key in keys])
            await at_most(_REMOVALS_AT_ONCE, [partial(self._call, call) for call in calls])

    async def _call(self, call: Callable[[], Awaitable[object]]) -> None:
        await self._within(call())

    async def find(self, prefix: str) -> list[TierObject]:
        async with self._client() as (client, root):
            return [
                tier_object._replace(key=tier_object.key[len(root) + 1 :])
                async for page in self._pages(partial(client.page, f"{root}/{prefix}"))
                for tier_object in page
            ]

    async def find_beginnings(self, prefix: str, delimiter: str) -> set[str]:
        async with self._client() as (client, root):
            ask = partial(client.beginnings, f"{root}/{prefix}", delimiter)
            return {path[len(root) + 1 :] async for page in self._pages(ask) for path in page}

    async def _pages(
        self, ask: Callable[[str | None], Awaitable[tuple[list[T], str | None]]]
    ) -> AsyncGenerator[list[T]]:
        """The pages of a listing. Raises OSError if the store leads round in a circle."""
        after: str | None = None
        seen: set[str] = set()
        empty = 0
        while True:
            page, after = await self._within(ask(after))
            yield page
            if after is None:
                return
            empty = 0 if page else empty + 1
            if after in seen or empty == EMPTY_PAGES_MAX:
                raise OSError("the store's listing has no end")
            seen.add(after)

    async def remove_folder(self, prefix: str) -> None:
        """Do nothing: object stores have no folders."""

    async def abort_uploads(self, prefix: str, is_left: IsLeft) -> int:
        async with self._client() as (client, root):
            uploads = [
                upload
                for upload in await self._within(client.uploads(f"{root}/{prefix}"))
                if is_left(upload.path[len(root) + 1 :], upload.began_ms)
            ]
            calls = [partial(self._abort, upload) for upload in uploads]
            await at_most(_REMOVALS_AT_ONCE, calls)
            return len(uploads)

    async def _abort(self, upload: UnfinishedUpload) -> None:
        try:
            await self._within(upload.abort())
        except Exception as error:
            # A missing upload was finished or aborted after the listing.
            if failure_of(error) is not Failure.NOT_FOUND:
                raise

    async def renew(self) -> bool:
        connection, self._connection = self._connection, None
        if connection is None or self._loop is not asyncio.get_running_loop():
            return False
        connection.is_retired = True
        if not connection.users:
            await self._close(connection)
        return connection.worked

    async def close(self) -> None:
        await self.renew()


def options_of(defaults: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    """Our default options, overridden by the operator's; nested options are merged the same way."""
    merged = dict(defaults)
    for name, value in stated.items():
        inner = merged.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            merged[name] = options_of(cast("dict[str, Any]", inner), cast("dict[str, Any]", value))
        else:
            merged[name] = value
    return merged
