"""The tier in a local folder, `file://`.

An object is written under a temporary name, synced and renamed, and the folder is synced, through
the same `Files` as the log: a COPY_SEGMENT_FINISHED segment must survive a crash of the machine,
because the local copy is then deleted. The folder's own entry is synced too, and so is that of each
folder above it that may be new: each process does that once for each folder that it writes to,
because a process that was killed may have left a folder that was never synced.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ...storage.durable_directory import make_durably
from ...storage.files import FileHandle, Files
from ..blocking_pool import BlockingPool
from .request_deadline import RequestDeadline
from .tier_store import IsLeft, Source, TierObject, beginning_of

T = TypeVar("T")

_log = logging.getLogger(__name__)

_FOLDERS_MAX = 10_000
_NOT_FOR_US = frozenset({errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS})

TEMPORARY = ".tmp"

_PIECE_BYTES = 512 * 1024
"""Bytes read and written at a time. With pieces of 8 MiB, a copy raised the producers' p99 latency
by half: freeing so much memory at once keeps the interpreter busy."""


class LocalStore:
    """A `TierStore` on `Files`. `root` is an absolute path."""

    def __init__(
        self, root: str, files: Files, pool: BlockingPool, deadline: RequestDeadline
    ) -> None:
        self._root = root.rstrip("/")
        self._files = files
        self._pool = pool
        self._deadline = deadline
        self._durable_folders: set[str] = set()
        """Folders whose entries this process has synced, up to the root."""

    async def _run(self, call: Callable[[], T]) -> T:
        async with self._deadline.kept():
            return await self._pool.run(call)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    async def put(self, key: str, source: Source) -> None:
        path = self._path(key)
        temporary = path + TEMPORARY
        handle = await self._run(lambda: self._begin(temporary))
        try:
            position = 0
            async for piece in source.pieces(_PIECE_BYTES):
                await self._run(partial(handle.write_at, position, piece))
                position += len(piece)
            await self._run(lambda: self._finish(handle, temporary, path))
        finally:
            handle.close()

    def _begin(self, temporary: str) -> FileHandle:
        self._make_folder(temporary.rpartition("/")[0])
        handle = self._files.open(temporary, create=True)
        handle.truncate(0)
        return handle

    def _make_folder(self, folder: str) -> None:
        if folder in self._durable_folders and self._files.is_directory(folder):
            return
        make_durably(self._files, folder)
        for above in _folders_above(folder):
            self._sync_names(above)
        if len(self._durable_folders) >= _FOLDERS_MAX:
            self._durable_folders.clear()
        self._durable_folders.add(folder)

    def _sync_names(self, folder: str) -> None:
        try:
            self._files.sync_dir(folder)
        except OSError as error:
            is_ours = folder.startswith(self._root)
            if is_ours or error.errno not in _NOT_FOR_US:
                raise
            # Not our folder: we may have no right to read it, or it cannot be synced.
            _log.debug("%s above the remote tier cannot be synced: %s", folder, error)

    def _finish(self, handle: FileHandle, temporary: str, path: str) -> None:
        handle.flush()
        handle.close()
        self._files.rename(temporary, path)
        self._files.sync_dir(path.rpartition("/")[0])

    async def get(self, key: str, start: int | None, end: int | None) -> bytes:
        return await self._run(lambda: self._read(self._path(key), start or 0, end))

    def _read(self, path: str, start: int, end: int | None) -> bytes:
        try:
            handle = self._files.open(path)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EROFS):
                raise
            # Mounted read-only: `Files.open` opens for writing, `read` does not.
            return self._files.read(path)[start:end]
        try:
            return handle.pread(start, (handle.size() if end is None else end) - start)
        finally:
            handle.close()

    async def remove(self, keys: Sequence[str]) -> None:
        await self._run(lambda: self._remove(keys))

    def _remove(self, keys: Sequence[str]) -> None:
        folders: set[str] = set()
        for key in keys:
            path = self._path(key)
            if self._files.remove(path):
                folders.add(path.rpartition("/")[0])
            self._files.remove(path + TEMPORARY)
        # A deleted object must not reappear after a crash: only a scrub would find it.
        for folder in sorted(folders):
            self._files.sync_dir(folder)

    async def find(self, prefix: str) -> list[TierObject]:
        folder = prefix.rpartition("/")[0]
        objects = await self._run(lambda: self._walk(folder))
        return [tier_object for tier_object in objects if tier_object.key.startswith(prefix)]

    async def find_beginnings(self, prefix: str, delimiter: str) -> set[str]:
        return await self._run(lambda: self._beginnings(prefix, delimiter))

    def _beginnings(self, prefix: str, delimiter: str) -> set[str]:
        folder, slash, _ = prefix.rpartition("/")
        try:
            names = self._files.listdir(self._path(folder).rstrip("/"))
        except (FileNotFoundError, NotADirectoryError):
            return set()
        beginnings: set[str] = set()
        for name in names:
            key = f"{folder}{slash}{name}"
            if key.startswith(prefix) and self._files.is_directory(self._path(key)):
                key += "/"
            beginning = beginning_of(key, prefix, delimiter)
            if beginning is not None:
                beginnings.add(beginning)
        return beginnings

    def _walk(self, folder: str) -> list[TierObject]:
        objects: list[TierObject] = []
        folders = [folder]
        while folders:
            inside = folders.pop()
            path = self._path(inside).rstrip("/")
            try:
                names = self._files.listdir(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for name in names:
                key = f"{inside}/{name}" if inside else name
                if self._files.is_directory(self._path(key)):
                    folders.append(key)
                    continue
                try:
                    size = self._files.size(self._path(key))
                    modified_ms = self._files.modified_ms(self._path(key))
                except FileNotFoundError:
                    # Removed since the folder was listed.
                    continue
                objects.append(TierObject(key, size, modified_ms))
        return objects

    async def remove_folder(self, prefix: str) -> None:
        await self._run(lambda: self._files.remove_tree(self._path(prefix.rstrip("/"))))

    async def abort_uploads(self, prefix: str, is_left: IsLeft) -> int:
        return 0

    async def renew(self) -> bool:
        return False

    async def close(self) -> None:
        """Do nothing: nothing is held open."""


def _folders_above(folder: str) -> list[str]:
    """The folders above this one, from its parent to the root of the file system."""
    names = folder.split("/")
    return ["/".join(names[:count]) or "/" for count in range(len(names) - 1, 0, -1)]
