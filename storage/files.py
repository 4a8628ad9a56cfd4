"""The file system interface of `storage/`, and its implementation on the operating system.

All code under `storage/` accesses the file system through the `Files` protocol, so that tests can
simulate a disk that loses unsynced data, fills up, or fails. The protocol is small, and each
operation has a defined result after a crash:

- What `FileHandle.write_at` writes is visible to readers at once but durable only after `flush`
  (fsync).
- `FileHandle.truncate` and a file's length are also durable only after `flush`.
- Creating, renaming or removing a file changes its directory, and is durable only after `sync_dir`
  of that directory.
- `atomic_replace` is the only compound operation. When it returns, the new content is durable.
  After a crash during the call, a reader finds either the old or the new content, never a mixture.
  With `durable=False` nothing is synced: readers still never see a mixture while the system runs,
  but after a crash the file may have any content, so the content must include a checksum.
- `MappedFile` is for indexes: writes go to memory, reach the disk at any time, and are durable only
  after `flush`. So recovery must not use an index that it cannot check.

Failures raise `OSError`. The callers that own a log directory turn them into `KAFKA_STORAGE_ERROR`
and take the directory offline.

A `FileRegion` is a range of a file to be sent without being read: the kernel copies it from the
page cache to the socket. It shares the descriptor of its `FileHandle`: if a segment is closed or
deleted, the descriptor stays open until the last region is sent.
"""

import errno
import mmap
import os
import stat
from contextlib import suppress
from typing import Protocol, TypeAlias

from ..clients.runtime.own_descriptors import keep_from_forks
from .open_files import OpenFiles, files_limit
from .system_calls import system

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview
IndexBuffer: TypeAlias = memoryview | bytearray | bytes


class RegionSource(Protocol):
    """The part of an open file that a `FileRegion` uses."""

    def fileno(self) -> int: ...

    def pread(self, position: int, size: int) -> bytes: ...


class RegionCutError(OSError):
    """The log was truncated after the region was made; nothing is wrong with the disk."""


class FileRegion:
    """`nbytes` bytes of a file from `position`, to be sent without being read."""

    __slots__ = ("_source", "nbytes", "position")

    def __init__(self, source: RegionSource, position: int, nbytes: int) -> None:
        assert position >= 0
        assert nbytes >= 0
        self._source = source
        self.position = position
        self.nbytes = nbytes

    def send_to(self, socket_fd: int, size: int) -> int:
        """Send the first `size` bytes in the kernel. Returns how many were sent, at least one.

        Raises BlockingIOError if the socket accepts none, OSError if the connection is closed or
        the file is too short.
        """
        assert 0 < size <= self.nbytes
        sent = system.send_file(socket_fd, self._source.fileno(), self.position, size)
        if sent == 0:
            raise self._cut_error()
        return sent

    def read(self) -> bytes:
        """Read the bytes; fewer if the file is too short."""
        return self._source.pread(self.position, self.nbytes)

    def read_all(self) -> bytes:
        """Read the bytes. Raises OSError if the file is too short."""
        content = self.read()
        if len(content) != self.nbytes:
            raise self._cut_error()
        return content

    def _cut_error(self) -> OSError:
        return RegionCutError(errno.EIO, f"{self} ends before its last byte")

    def slice(self, offset: int, size: int) -> "FileRegion":
        """A region inside this one, `offset` bytes from its start."""
        assert 0 <= offset <= offset + size <= self.nbytes
        return FileRegion(self._source, self.position + offset, size)

    def __repr__(self) -> str:
        return f"FileRegion(position={self.position}, nbytes={self.nbytes})"


class FileHandle(Protocol):
    """An open file, read and written at explicit positions."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """The file's length in bytes as the file system sees it."""
        ...

    def pread(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, buffer: ReadableBuffer) -> None:
        """Write the whole buffer or raise OSError; after an error a part may have been written."""
        ...

    def truncate(self, size: int) -> None: ...

    def flush(self) -> None:
        """fsync: content and length are durable when this returns."""
        ...

    def region(self, position: int, size: int) -> FileRegion: ...

    def renamed(self, path: str) -> None:
        """Record the file's new name, which is needed to reopen it."""
        ...

    def close(self) -> None:
        """Close the file; regions returned earlier stay readable. Idempotent."""
        ...


class MappedFile(Protocol):
    """A memory-mapped index file of a fixed capacity."""

    @property
    def buffer(self) -> IndexBuffer:
        """For `Struct.unpack_from`; valid until the next `resize` or `close`."""
        ...

    @property
    def capacity(self) -> int:
        """The file's length in bytes, including preallocated zeros."""
        ...

    def write_at(self, position: int, content: bytes) -> None: ...

    def resize(self, capacity: int) -> None:
        """Truncate or extend (with zeros) the file and its mapping."""
        ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class DirectoryHandle(Protocol):
    """An open directory, which can be synced even if no further descriptor is free."""

    def sync(self) -> None:
        """Make the names in the directory durable."""
        ...

    def close(self) -> None: ...


class DirectoryLock(Protocol):
    """The lock that a process holds while it owns a log directory."""

    def release(self) -> None: ...


class Files(Protocol):
    """The operations on paths, which are absolute. All methods raise OSError on failure."""

    @property
    def max_open(self) -> int:
        """How many files may be open at once; with more files, each use may have to reopen one."""
        ...

    def open(self, path: str, *, create: bool = False) -> FileHandle:
        """Open for reading and writing. Raises FileNotFoundError if missing, unless `create`."""
        ...

    def map(self, path: str, capacity: int) -> MappedFile:
        """Map an index file, created if missing and extended with zeros to `capacity`."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the content last changed, in milliseconds since the epoch."""
        ...

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        ...

    def atomic_replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace the file's content atomically and, by default, durably."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file with the new name; not yet durable."""
        ...

    def remove(self, path: str) -> bool:
        """Remove a file; False if there was none."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it; do nothing if it does not exist.

        Of a link to a directory, the link and the plain files there.
        """
        ...

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def mkdirs(self, path: str) -> None:
        """Create a directory and its parents; an existing one is left as it is."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def open_dir(self, path: str) -> DirectoryHandle:
        """Open a directory to sync it once or more."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Lock a file exclusively, creating it if missing. Raises BlockingIOError if locked."""
        ...

    def usable_bytes(self, path: str) -> int:
        """Free bytes on the volume that holds `path`."""
        ...

    def total_bytes(self, path: str) -> int:
        """Size in bytes of the volume that holds `path`."""
        ...


class _Descriptor:
    """A file descriptor that is closed once nothing refers to it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def fileno(self) -> int:
        return self.fd

    def pread(self, position: int, size: int) -> bytes:
        chunk = system.pread(self.fd, size, position)
        if len(chunk) == size or not chunk:
            return chunk
        # A signal or the kernel's 2 GiB limit may cut a read short before the end of the file.
        chunks = [chunk]
        missing = size - len(chunk)
        while missing and (chunk := system.pread(self.fd, missing, position + size - missing)):
            chunks.append(chunk)
            missing -= len(chunk)
        return b"".join(chunks)

    def __del__(self) -> None:
        system.close(self.fd)


_READ_AND_WRITE = os.O_RDWR | os.O_CLOEXEC


class OsFileHandle:
    """`FileHandle` on a real file. While idle it may close its descriptor to free one."""

    __slots__ = (
        "__weakref__",
        "_descriptor",
        "_failure",
        "_is_closed",
        "_open_files",
        "is_unsynced",
        "path",
        "was_used",
    )

    def __init__(self, path: str, fd: int, open_files: OpenFiles) -> None:
        self.path = path
        self._descriptor: _Descriptor | None = _Descriptor(fd)
        self._open_files = open_files
        self._is_closed = False
        self._failure: OSError | None = None
        self.is_unsynced = False
        """Whether the file may have written bytes that are not durable."""
        self.was_used = True
        open_files.add(self)

    def _open_descriptor(self) -> _Descriptor:
        self.was_used = True
        # The local variable keeps the descriptor open even if another thread closes the handle.
        descriptor = self._descriptor
        if descriptor is None:
            if self._is_closed:
                raise OSError(errno.EBADF, "The file was closed", self.path)
            fd = self._open_files.perform(lambda: system.open(self.path, _READ_AND_WRITE))
            descriptor = self._descriptor = _Descriptor(fd)
            self._open_files.add(self)
        return descriptor

    def size(self) -> int:
        return system.fstat(self._open_descriptor().fileno()).st_size

    def pread(self, position: int, size: int) -> bytes:
        return self._open_descriptor().pread(position, size)

    def write_at(self, position: int, buffer: ReadableBuffer) -> None:
        # Set first: a descriptor with unsynced bytes must not be closed without an fsync.
        self.is_unsynced = True
        descriptor = self._descriptor or self._open_descriptor()
        fd = descriptor.fd
        written = system.pwrite(fd, buffer, position)
        size = len(buffer)
        if written == size:
            return
        # A write is short if the disk is nearly full; the next call raises the error.
        with memoryview(buffer) as view:
            while written < size:
                written += system.pwrite(fd, view[written:], position + written)

    def truncate(self, size: int) -> None:
        self.is_unsynced = True
        system.ftruncate(self._open_descriptor().fileno(), size)

    def flush(self) -> None:
        if self._failure is not None:
            raise self._failure
        descriptor = self._open_descriptor()
        # Cleared first: bytes written during the fsync may not be durable when it returns.
        self.is_unsynced = False
        try:
            system.sync_data(descriptor.fileno())
        except OSError as error:
            # The kernel reports an error once and may drop the pages, so the file stays failed.
            self.is_unsynced, self._failure = True, error
            raise

    def region(self, position: int, size: int) -> FileRegion:
        return FileRegion(self._open_descriptor(), position, size)

    def sync_before_closing(self) -> bool:
        try:
            self.flush()
        except OSError:
            return False
        return True

    def give_up_descriptor(self) -> None:
        """Close the descriptor until the next use; regions returned earlier stay readable."""
        self._descriptor = None

    def renamed(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        self._is_closed = True
        self._descriptor = None
        self._open_files.discard(self)


_ALLOCATION_UNIT = mmap.PAGESIZE


class OsMappedFile:
    """`MappedFile` on a real file. An empty file cannot be mapped and reads as b"".

    Storing into a hole of a mapped file on a full disk kills the process (SIGBUS). So blocks are
    allocated before the stores: a full disk then raises an ordinary OSError.
    """

    __slots__ = ("_allocated", "_open_files", "_path", "buffer", "capacity")

    def __init__(self, path: str, capacity: int, open_files: OpenFiles) -> None:
        self._path = path
        self._open_files = open_files
        self._allocated = 0
        self.buffer: IndexBuffer = b""
        descriptor = self._open(os.O_CREAT)
        self.capacity = max(capacity, system.fstat(descriptor.fileno()).st_size)
        self._map(descriptor)

    def _open(self, flags: int = 0) -> _Descriptor:
        # Not kept open: thousands of segments may have indexes, and a descriptor is rarely needed.
        path, flags = self._path, _READ_AND_WRITE | flags
        return _Descriptor(self._open_files.perform(lambda: system.open(path, flags, 0o644)))

    def _map(self, descriptor: _Descriptor) -> None:
        if self.capacity == 0:
            return
        fd = descriptor.fileno()
        if system.fstat(fd).st_size < self.capacity:
            system.ftruncate(fd, self.capacity)
        # Imported here because importing ctypes takes time, and a new broker has no index yet.
        from .memory_map import map_shared

        self.buffer = map_shared(fd, self.capacity)

    def write_at(self, position: int, content: bytes) -> None:
        end = position + len(content)
        buffer = self.buffer
        assert isinstance(buffer, memoryview), "Written while closed or empty."
        if end > self._allocated:
            self._allocate(position, end)
        buffer[position:end] = content

    def _allocate(self, position: int, end: int) -> None:
        assert end <= self.capacity
        start = position - position % _ALLOCATION_UNIT
        stop = min(self.capacity, max(end, start + _ALLOCATION_UNIT))
        descriptor = self._open()
        system.allocate(descriptor.fileno(), start, stop - start)
        self._allocated = stop

    def resize(self, capacity: int) -> None:
        if capacity == self.capacity:
            return
        descriptor = self._open()
        # Unmapped first: accessing a mapping past the end of its file also raises SIGBUS.
        self.close()
        system.ftruncate(descriptor.fileno(), capacity)
        self.capacity = capacity
        self._allocated = 0
        self._map(descriptor)

    def flush(self) -> None:
        # fsync also writes mapped pages, and unlike `mmap.flush` (msync) lets other threads run.
        descriptor = self._open()
        system.sync_data(descriptor.fileno())

    def close(self) -> None:
        self.buffer = b""


class OsDirectoryHandle:
    """`DirectoryHandle` on a real directory."""

    def __init__(self, fd: int) -> None:
        self._descriptor: _Descriptor | None = _Descriptor(fd)

    def sync(self) -> None:
        assert self._descriptor is not None, "Synced after it was closed."
        system.fsync(self._descriptor.fileno())

    def close(self) -> None:
        self._descriptor = None


class OsDirectoryLock:
    """A lock on an open file, released by `release` or when the process ends."""

    def __init__(self, fd: int) -> None:
        self._descriptor: _Descriptor | None = _Descriptor(fd)
        keep_from_forks(self)

    def fileno(self) -> int:
        """The descriptor; -1 once it is released."""
        return -1 if self._descriptor is None else self._descriptor.fileno()

    def release(self) -> None:
        if self._descriptor is not None:
            system.unlock_file(self._descriptor.fileno())
            self._descriptor = None


def _has_directory_at(path: str) -> bool:
    """Whether there is a directory of that name itself, and no link to one. Raises OSError."""
    try:
        return stat.S_ISDIR(system.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _kind_of(path: str) -> int:
    """The kind of what is at a path, as in `stat.S_IFMT`; of a link its own. 0 if nothing."""
    try:
        return stat.S_IFMT(system.lstat(path).st_mode)
    except OSError:
        return 0


class OsFiles:
    """`Files` on the operating system's file system."""

    def __init__(self, max_open: int | None = None) -> None:
        """`max_open`: how many files may be open at once; by default derived from `ulimit -n`."""
        self._open_files = OpenFiles(files_limit() if max_open is None else max_open)

    @property
    def max_open(self) -> int:
        return self._open_files.limit

    def _open(self, path: str, flags: int) -> int:
        return self._open_files.perform(lambda: system.open(path, flags | os.O_CLOEXEC, 0o644))

    def open(self, path: str, *, create: bool = False) -> FileHandle:
        fd = self._open(path, os.O_RDWR | (os.O_CREAT if create else 0))
        return OsFileHandle(path, fd, self._open_files)

    def map(self, path: str, capacity: int) -> MappedFile:
        return OsMappedFile(path, capacity, self._open_files)

    def exists(self, path: str) -> bool:
        try:
            system.stat(path)
        except (OSError, ValueError):
            return False
        return True

    def size(self, path: str) -> int:
        return system.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return system.stat(path).st_mtime_ns // 1_000_000

    def read(self, path: str) -> bytes:
        with system.FileIO(path, "rb", opener=self._open) as file:
            return file.read()

    def atomic_replace(self, path: str, content: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        fd = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        handle = OsFileHandle(temporary, fd, self._open_files)
        handle.write_at(0, content)
        if durable:
            handle.flush()
        handle.close()
        system.replace(temporary, path)
        if durable:
            self.sync_dir(path.rpartition("/")[0] or "/")

    def rename(self, old: str, new: str) -> None:
        system.replace(old, new)

    def remove(self, path: str) -> bool:
        try:
            system.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def remove_tree(self, path: str) -> None:
        if _kind_of(path) == stat.S_IFLNK:
            self._remove_link(path)
            return
        try:
            names = self.listdir(path)
        except FileNotFoundError:
            return
        for name in names:
            child = f"{path}/{name}"
            # Do not delete the target of a link.
            if _has_directory_at(child):
                self.remove_tree(child)
            else:
                self.remove(child)
        system.rmdir(path)

    def _remove_link(self, path: str) -> None:
        """Remove a link, and the plain files of the directory that it leads to, as Kafka does.

        A partition's directory may have been moved to another disk. The emptied directory stays.
        """
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in self.listdir(path):
                child = f"{path}/{name}"
                if _kind_of(child) == stat.S_IFREG:
                    self.remove(child)
        self.remove(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(self._open_files.perform(lambda: system.listdir(path)))

    def is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(system.stat(path).st_mode)
        except (OSError, ValueError):
            return False

    def mkdirs(self, path: str) -> None:
        if self.is_directory(path):
            return
        parent = path.rstrip("/").rpartition("/")[0]
        if parent:
            self.mkdirs(parent)
        try:
            system.mkdir(path)
        except OSError:
            # Another process may have made it meanwhile.
            if not self.is_directory(path):
                raise

    def sync_dir(self, path: str) -> None:
        self.open_dir(path).sync()

    def open_dir(self, path: str) -> DirectoryHandle:
        return OsDirectoryHandle(self._open(path, os.O_RDONLY | os.O_DIRECTORY))

    def lock(self, path: str) -> DirectoryLock:
        fd = self._open(path, os.O_RDWR | os.O_CREAT)
        try:
            system.lock_file(fd)
        except OSError as error:
            system.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(errno.EAGAIN, "Another process holds it", path) from error
            raise
        return OsDirectoryLock(fd)

    def usable_bytes(self, path: str) -> int:
        volume = system.statvfs(path)
        return volume.f_bavail * volume.f_frsize

    def total_bytes(self, path: str) -> int:
        volume = system.statvfs(path)
        return volume.f_blocks * volume.f_frsize
