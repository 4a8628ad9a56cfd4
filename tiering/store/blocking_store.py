"""The tier on a synchronous file system of fsspec: `memory`, `webhdfs`, `sftp` and others.

Calls run in the bounded pool. Each file system serves one call at a time, because few of them are
thread-safe (paramiko's SFTP client swallows the answers of another thread). After a successful
call the file system is kept for the next one; after a failure it is dropped and the next call
reconnects, because the server may have restarted or the credentials may have changed.

Where the protocol has a rename, objects are written under a temporary name first, so that an
interrupted upload is never taken for an object.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from ..blocking_pool import BlockingPool
from ..remote_storage import Failure
from .remote_failures import failure_of
from .request_deadline import RequestDeadline
from .tier_store import PIECE_BYTES, IsLeft, Source, TierObject, beginning_of, in_pieces

T = TypeVar("T")

TEMPORARY = ".tmp"
_RENAMING = ("sftp", "ssh", "webhdfs", "webHDFS")


class Stream(Protocol):
    """An object that is being written."""

    def write(self, data: bytes, /) -> object: ...

    def close(self) -> object: ...


class FileSystem(Protocol):
    """The methods used of an fsspec file system."""

    def open(self, path: str, mode: str, block_size: int) -> Stream: ...

    def pipe_file(self, path: str, value: bytes) -> object: ...

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes: ...

    def rm_file(self, path: str) -> object: ...

    def rmdir(self, path: str) -> object: ...

    def mv(self, old: str, new: str) -> object: ...

    def makedirs(self, path: str, exist_ok: bool = False) -> object: ...

    def ls(self, path: str, detail: bool = True) -> list[dict[str, object]]: ...


Opener = Callable[[], tuple[FileSystem, str]]
"""Connects a file system; returns it and the path of the tier's root in it."""


class BlockingStore:
    """A `TierStore` on a synchronous file system."""

    def __init__(
        self, protocol: str, opener: Opener, pool: BlockingPool, deadline: RequestDeadline
    ) -> None:
        self._protocol = protocol
        self._opener = opener
        self._pool = pool
        self._deadline = deadline
        self._idle: deque[tuple[FileSystem, str]] = deque()
        self._worked = False

    async def _run(self, call: Callable[[], T]) -> T:
        async with self._deadline.kept():
            return await self._pool.run(call)

    async def _with(self, call: Callable[[FileSystem, str], T]) -> T:
        return await self._run(lambda: self._on_connection(call))

    # In the pool's threads.

    def _connect(self) -> tuple[FileSystem, str]:
        file_system, root = self._opener()
        set_deadline(file_system, self._protocol, self._deadline.seconds)
        return file_system, root

    def _on_connection(self, call: Callable[[FileSystem, str], T]) -> T:
        try:
            kept = self._idle.popleft()
        except IndexError:
            return self._use(self._connect(), call)
        try:
            return self._use(kept, call)
        except Exception as error:
            # An idle connection may have been closed long ago; so may the others.
            if isinstance(error, TimeoutError) or failure_of(error) is not Failure.UNREACHABLE:
                raise
        self._disconnect_idle()
        return self._use(self._connect(), call)

    def _use(self, connection: tuple[FileSystem, str], call: Callable[[FileSystem, str], T]) -> T:
        try:
            result = call(*connection)
        except FileNotFoundError:
            self._idle.append(connection)
            raise
        except BaseException:
            disconnect(connection[0])
            raise
        self._worked = True
        self._idle.append(connection)
        return result

    def _disconnect_idle(self) -> None:
        with suppress(IndexError):
            while True:
                disconnect(self._idle.popleft()[0])

    # The store.

    async def put(self, key: str, source: Source) -> None:
        if source.size <= PIECE_BYTES:
            content = await source.whole()
            await self._with(lambda fs, root: self._put_whole(fs, f"{root}/{key}", content))
            return
        # A long upload gets a new connection: an idle one may be stale.
        file_system, root = await self._run(self._connect)
        path = f"{root}/{key}"
        target = path + TEMPORARY if self._renames else path
        try:
            stream = await self._run(lambda: _open_for_writing(file_system, target))
            try:
                async for piece in source.pieces():
                    await self._run(partial(stream.write, piece))
            except BaseException:
                _spoil(stream)
                raise
            await self._run(lambda: self._finish(file_system, stream, path))
        except TimeoutError:
            # Send no more requests to a store that hangs; the failed copy is deleted later.
            raise
        except BaseException:
            with suppress(Exception):
                await self._run(lambda: file_system.rm_file(target))
            raise
        finally:
            await self._pool.run(lambda: disconnect(file_system))
        self._worked = True

    @property
    def _is_hdfs(self) -> bool:
        return self._protocol.lower() == "webhdfs"

    @property
    def _renames(self) -> bool:
        return self._protocol in _RENAMING

    def _put_whole(self, file_system: FileSystem, path: str, content: bytes) -> None:
        target = path + TEMPORARY if self._renames else path
        if not self._renames:
            file_system.pipe_file(target, content)
            return
        if self._is_hdfs:
            _write_webhdfs(file_system, target, content)
        else:
            stream = _open_for_writing(file_system, target)
            stream.write(content)
            stream.close()
        self._rename(file_system, path)

    def _finish(self, file_system: FileSystem, stream: Stream, path: str) -> None:
        stream.close()
        if self._renames:
            self._rename(file_system, path)

    def _rename(self, file_system: FileSystem, path: str) -> None:
        if self._is_hdfs:
            # HDFS does not rename onto an existing file, and fsspec does not see that error.
            with suppress(FileNotFoundError):
                file_system.rm_file(path)
        file_system.mv(path + TEMPORARY, path)

    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        if start is None or end is None:
            return await self._read(key, start, end)
        return await in_pieces(start, end, partial(self._read, key))

    async def _read(self, key: str, start: int | None, end: int | None) -> bytes:
        return await self._with(
            lambda fs, root: read_range(fs, self._protocol, f"{root}/{key}", (start, end))
        )

    async def remove(self, keys: Sequence[str]) -> None:
        await self._with(lambda fs, root: self._remove(fs, root, keys))

    def _remove(self, file_system: FileSystem, root: str, keys: Sequence[str]) -> None:
        for key in keys:
            for name in (key, key + TEMPORARY) if self._renames else (key,):
                with suppress(FileNotFoundError):
                    # Already deleted: deletion is idempotent.
                    file_system.rm_file(f"{root}/{name}")

    async def find(self, prefix: str) -> list[TierObject]:
        return await self._with(lambda fs, root: _walk(fs, root, prefix))

    async def find_beginnings(self, prefix: str, delimiter: str) -> set[str]:
        return await self._with(lambda fs, root: _beginnings(fs, root, prefix, delimiter))

    async def remove_folder(self, prefix: str) -> None:
        folder = prefix.rstrip("/")
        await self._with(lambda fs, root: _remove_folder(fs, self._protocol, f"{root}/{folder}"))

    async def abort_uploads(self, prefix: str, is_left: IsLeft) -> int:
        return 0

    async def renew(self) -> bool:
        worked, self._worked = self._worked, False
        return worked

    async def close(self) -> None:
        if self._idle:
            await self._pool.run(self._disconnect_idle)


def _open_for_writing(file_system: FileSystem, path: str) -> Stream:
    stream = _open(file_system, path)
    if hasattr(stream, "set_pipelined"):
        # paramiko otherwise waits for an answer after each 32 KiB.
        stream.set_pipelined(True)
    return cast("Stream", stream)


def _open(file_system: FileSystem, path: str) -> Any:  # noqa: ANN401  # each library has its own
    try:
        return file_system.open(path, "wb", block_size=PIECE_BYTES)
    except FileNotFoundError:
        with suppress(OSError):
            # Another thread may be creating the same folder; the next open shows if it exists.
            file_system.makedirs(path.rpartition("/")[0], exist_ok=True)
        return file_system.open(path, "wb", block_size=PIECE_BYTES)


def _spoil(stream: Stream) -> None:
    """Keep an abandoned buffered stream from writing more, even when it is garbage-collected."""
    for name in ("closed", "_closed"):  # fsspec's name and paramiko's
        if hasattr(stream, name):
            with suppress(AttributeError):
                setattr(stream, name, True)


def _walk(file_system: FileSystem, root: str, prefix: str) -> list[TierObject]:
    objects: list[TierObject] = []
    folder = prefix.rpartition("/")[0]
    folders = [f"{root}/{folder}" if folder else root]
    while folders:
        inside = folders.pop()
        try:
            # Not `find` or `walk`: they report an unreachable server as an empty folder.
            entries = file_system.ls(inside, detail=True)
        except FileNotFoundError:
            continue
        for entry in entries:
            name = str(entry["name"]).rstrip("/")
            if entry["type"] == "directory":
                folders.append(name)
                continue
            key = name[len(root) :].lstrip("/")
            if key.startswith(prefix):
                size = cast("int", entry["size"])
                objects.append(TierObject(key, size, modified_ms_of(entry)))
    return objects


def _beginnings(file_system: FileSystem, root: str, prefix: str, delimiter: str) -> set[str]:
    folder = prefix.rpartition("/")[0]
    try:
        entries = file_system.ls(f"{root}/{folder}" if folder else root, detail=True)
    except FileNotFoundError:
        return set()
    beginnings: set[str] = set()
    for entry in entries:
        name = str(entry["name"]).rstrip("/")
        key = name[len(root) :].lstrip("/") + ("/" if entry["type"] == "directory" else "")
        beginning = beginning_of(key, prefix, delimiter)
        if beginning is not None:
            beginnings.add(beginning)
    return beginnings


def modified_ms_of(entry: dict[str, object]) -> int | None:
    """The modification time in a listing entry, under the name its file system uses."""
    for name in ("mtime", "modificationTime", "LastModified", "last_modified", "created"):
        value: Any = entry.get(name)
        if hasattr(value, "timestamp"):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            # Large values are milliseconds, others seconds: no object dates from before 1973.
            return int(value if value > 100_000_000_000 else value * 1000)
    return None


def _remove_folder(file_system: FileSystem, protocol: str, path: str) -> None:
    with suppress(FileNotFoundError, NotImplementedError):
        if protocol.lower() == "webhdfs":
            file_system.rm_file(path)
        else:
            file_system.rmdir(path)


# Operations that differ between the file systems of fsspec.


def set_deadline(file_system: FileSystem, protocol: str, deadline_s: float) -> None:
    """Set the library's own timeouts, so that a hanging server does not hold a thread."""
    inside = cast("Any", file_system)
    if protocol.lower() == "webhdfs":
        inside.session.request = partial(inside.session.request, timeout=deadline_s)
    elif protocol in ("sftp", "ssh"):
        inside.ftp.get_channel().settimeout(deadline_s)


def disconnect(file_system: FileSystem) -> None:
    """Close the connections of a file system that is no longer used."""
    for name in ("client", "session"):
        holder = getattr(file_system, name, None)
        if hasattr(holder, "close"):
            with suppress(Exception):
                cast("Any", holder).close()


def read_range(
    file_system: FileSystem, protocol: str, path: str, span: tuple[int | None, int | None]
) -> bytes:
    """All of an object, or a range of it."""
    if protocol in ("sftp", "ssh"):
        return _read_sftp(file_system, path, span)
    if protocol.lower() == "webhdfs":
        return _read_webhdfs(file_system, path, span)
    return file_system.cat_file(path, start=span[0], end=span[1])


def _read_sftp(file_system: FileSystem, path: str, span: tuple[int | None, int | None]) -> bytes:
    # paramiko's plain read waits for each 32 KiB before it asks for the next.
    with cast("Any", file_system).ftp.open(path, "rb") as file:
        size = file.stat().st_size
        start, end = span[0] or 0, size if span[1] is None else min(span[1], size)
        if start >= end:
            return b""
        return b"".join(cast("list[bytes]", file.readv([(start, end - start)])))


def _write_webhdfs(file_system: FileSystem, path: str, content: bytes) -> None:
    # fsspec creates an empty file and appends to it, which takes twice as long on a data node.
    inside = cast("Any", file_system)
    answer = inside._call("CREATE", "put", path, redirect=False, overwrite="true")
    inside.session.put(
        inside._apply_proxy(answer.headers["Location"]),
        data=content,
        headers={"content-type": "application/octet-stream"},
    ).raise_for_status()


def _read_webhdfs(file_system: FileSystem, path: str, span: tuple[int | None, int | None]) -> bytes:
    # fsspec reads ahead, and returns a data node's error page as content.
    inside = cast("Any", file_system)
    start, end = span
    length = {} if end is None else {"length": end - (start or 0)}
    answer = inside._call("OPEN", path=path, redirect=False, offset=start or 0, **length)
    if "Location" in answer.headers:
        answer = inside.session.get(inside._apply_proxy(answer.headers["Location"]))
        answer.raise_for_status()
    return cast("bytes", answer.content)
