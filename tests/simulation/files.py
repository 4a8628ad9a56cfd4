"""`Files` on a simulated disk: what one process sees of it.

A process that lost its power is gone: whatever its code still calls raises `PowerLoss` again. The
next process makes its own `SimulatedFiles` on the same disk.
"""

import errno
import os
from collections.abc import Callable

from tierlog.storage.files import FileRegion, IndexBuffer, ReadableBuffer
from tierlog.tests.simulation.disk import (
    BARRIERS,
    Change,
    Kind,
    PowerLoss,
    SimulatedDirectory,
    SimulatedDisk,
    SimulatedFile,
)


class SimulatedFiles:
    """See the module."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.is_alive = True
        self.max_open = 1 << 20

    def require_power(self) -> None:
        """PowerLoss if this process is gone."""
        if not self.is_alive:
            raise PowerLoss(self.disk.last_operation)

    def lose_power(self) -> None:
        """End this process here."""
        self.is_alive = False
        if self.disk.when_power_fails is not None:
            self.disk.when_power_fails()
        raise PowerLoss(self.disk.last_operation)

    def perform(
        self, kind: Kind, path: str, action: Callable[[], None], *, is_open: bool = False
    ) -> None:
        """Do one operation that changes the disk, unless it fails or the power goes.

        When the power goes at a barrier it protects nothing; any other change has been made, and
        whether it survives is the disk's to decide.
        """
        self.require_power()
        power_goes = self.disk.count(kind, path, is_open=is_open)
        if not (power_goes and kind in BARRIERS):
            action()
        if power_goes:
            self.lose_power()

    def _create(self, path: str) -> SimulatedFile:
        parent, name = self.disk.parent(path)
        file = SimulatedFile(modified_ms=self.disk.now_ms)
        self.perform(Kind.CREATE, path, lambda: parent.edit((name, file)))
        return file

    def open(self, path: str, *, create: bool = False) -> "SimulatedHandle":
        self.require_power()
        is_new = create and self.disk.find(path) is None
        file = self._create(path) if is_new else self.disk.open_file(path)
        return SimulatedHandle(self, path, file)

    def map(self, path: str, capacity: int) -> "SimulatedMapping":
        mapping = SimulatedMapping(self.open(path, create=True))
        if mapping.capacity < capacity:
            mapping.resize(capacity)
        return mapping

    def exists(self, path: str) -> bool:
        self.require_power()
        return self.disk.find(path) is not None

    def size(self, path: str) -> int:
        return len(self.disk.file(path).content)

    def modified_ms(self, path: str) -> int:
        return self.disk.file(path).modified_ms

    def read(self, path: str) -> bytes:
        self.require_power()
        return bytes(self.disk.file(path).content)

    def atomic_replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        self.remove(temporary)
        handle = self.open(temporary, create=True)
        handle.write_at(0, content)
        if durable:
            handle.flush()
        handle.close()
        self.rename(temporary, path)
        if durable:
            self.sync_dir(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        self.require_power()
        source, old_name = self.disk.parent(old)
        target, new_name = self.disk.parent(new)
        node = source.entries.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)

        def move() -> None:
            if source is target:
                source.edit((old_name, None), (new_name, node))
            else:
                target.edit((new_name, node))
                source.edit((old_name, None))

        self.perform(Kind.RENAME, old, move)

    def remove(self, path: str) -> bool:
        self.require_power()
        if self.disk.find(path) is None:
            return False
        self.disk.file(path)
        parent, name = self.disk.parent(path)
        self.perform(Kind.REMOVE, path, lambda: parent.edit((name, None)))
        return True

    def remove_tree(self, path: str) -> None:
        self.require_power()
        if not self.is_directory(path):
            return
        for name in self.listdir(path):
            child = f"{path}/{name}"
            if self.is_directory(child):
                self.remove_tree(child)
            else:
                self.remove(child)
        parent, name = self.disk.parent(path)
        self.perform(Kind.REMOVE, path, lambda: parent.edit((name, None)))

    def listdir(self, path: str) -> list[str]:
        self.require_power()
        return sorted(self.disk.directory(path).entries)

    def is_directory(self, path: str) -> bool:
        self.require_power()
        return isinstance(self.disk.find(path), SimulatedDirectory)

    def mkdirs(self, path: str) -> None:
        self.require_power()
        made = ""
        for name in path.strip("/").split("/"):
            parent = self.disk.directory(made)
            made = f"{made}/{name}"
            if self.disk.find(made) is None:
                self._make_directory(parent, name, made)
            else:
                self.disk.directory(made)

    def _make_directory(self, parent: SimulatedDirectory, name: str, path: str) -> None:
        new = SimulatedDirectory()
        self.perform(Kind.MAKE_DIRECTORY, path, lambda: parent.edit((name, new)))

    def sync_dir(self, path: str) -> None:
        directory = self.disk.directory(path)
        self.perform(Kind.SYNC_DIRECTORY, path, directory.sync)

    def open_dir(self, path: str) -> "SimulatedDirectoryHandle":
        return SimulatedDirectoryHandle(self, path, self.disk.open_directory(path))

    def lock(self, path: str) -> "SimulatedLock":
        self.open(path, create=True).close()
        if path in self.disk.locked:
            raise BlockingIOError(errno.EAGAIN, "Another process holds it", path)
        self.disk.locked.add(path)
        return SimulatedLock(self.disk, path)

    def usable_bytes(self, path: str) -> int:
        self.disk.directory(path)
        return max(0, self.disk.capacity_bytes - self.disk.used_bytes())

    def total_bytes(self, path: str) -> int:
        self.disk.directory(path)
        return self.disk.capacity_bytes


class _Source:
    """What regions read from; it outlives the handle."""

    def __init__(self, files: SimulatedFiles, file: SimulatedFile) -> None:
        self._files = files
        self._file = file

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "A simulated file has no descriptor")

    def pread(self, position: int, size: int) -> bytes:
        self._files.require_power()
        return bytes(self._file.content[position : position + size])


class SimulatedHandle:
    """`FileHandle` on a simulated file."""

    def __init__(self, files: SimulatedFiles, path: str, file: SimulatedFile) -> None:
        self.path = path
        self.files = files
        self._file: SimulatedFile | None = file

    @property
    def file(self) -> SimulatedFile:
        self.files.require_power()
        if self._file is None:
            raise OSError(errno.EBADF, "The file was closed", self.path)
        return self._file

    def size(self) -> int:
        return len(self.file.content)

    def pread(self, position: int, size: int) -> bytes:
        return bytes(self.file.content[position : position + size])

    def write_at(self, position: int, buffer: ReadableBuffer, kind: Kind = Kind.WRITE) -> None:
        file, data = self.file, bytes(buffer)
        growth = position + len(data) - len(file.content)
        room = self.files.disk.free_bytes() if growth > 0 else 0
        if growth > max(room, 0):
            # What fits is written before the disk says that the rest does not.
            fits = data[: max(0, len(data) - growth + max(room, 0))]
            self._change(Change(position, fits), kind)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        self._change(Change(position, data), kind)

    def _change(self, change: Change, kind: Kind) -> None:
        file = self.file
        self.files.perform(kind, self.path, lambda: file.change(change))
        file.modified_ms = self.files.disk.now_ms

    def truncate(self, size: int) -> None:
        self._change(Change(size, None), Kind.TRUNCATE)

    def flush(self) -> None:
        file = self.file
        try:
            self.files.perform(Kind.FLUSH, self.path, file.flush)
        except OSError:
            file.fail_to_flush()
            raise

    def region(self, position: int, size: int) -> FileRegion:
        return FileRegion(_Source(self.files, self.file), position, size)

    def renamed(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        self._file = None


class SimulatedMapping:
    """`MappedFile` on a simulated file: its buffer is the file's content itself."""

    def __init__(self, handle: SimulatedHandle) -> None:
        self._handle = handle
        self._is_open = True

    @property
    def buffer(self) -> IndexBuffer:
        return self._handle.file.content if self._is_open else b""

    @property
    def capacity(self) -> int:
        return len(self.buffer)

    def write_at(self, position: int, content: bytes) -> None:
        assert position + len(content) <= self.capacity
        self._handle.write_at(position, content, Kind.STORE)

    def resize(self, capacity: int) -> None:
        if capacity != self.capacity:
            self._handle.truncate(capacity)

    def flush(self) -> None:
        if self._is_open:
            self._handle.flush()

    def close(self) -> None:
        self._is_open = False
        self._handle.close()


class SimulatedDirectoryHandle:
    """`DirectoryHandle` on a simulated directory."""

    def __init__(self, files: SimulatedFiles, path: str, directory: SimulatedDirectory) -> None:
        self._files = files
        self._path = path
        self._directory = directory

    def sync(self) -> None:
        perform, path = self._files.perform, self._path
        perform(Kind.SYNC_DIRECTORY, path, self._directory.sync, is_open=True)

    def close(self) -> None:
        pass


class SimulatedLock:
    """A lock that is free again after `release`, or when the power goes."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locked.discard(self._path)
