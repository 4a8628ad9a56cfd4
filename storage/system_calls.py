"""The functions of the system behind the door to the disk, taken once, when this is imported.

A test's broker shares its process with the test, and tools of tests replace such functions:
pyfakefs puts another `os` into every module, and others in the place of functions that a module has
imported by name; a mock replaces `os.stat` in `os` itself. None of them looks into an object. So
what a broker does to files is done through `system`, and its disk stays the real one.

Not every system has all of them:

| | Linux | macOS | without either |
|---|---|---|---|
| `sync_data` | fdatasync | fcntl(F_FULLFSYNC), as Java does | fsync |
| `allocate` | posix_fallocate | the range is written as it is | the same |
| `send_file` | sendfile | sendfile | pread and write |
| `lock_file` | POSIX lock and flock | flock | flock |

On macOS an fsync leaves the bytes in the cache of the disk; F_FULLFSYNC does not, and file systems
that do not have it, such as those of a network, get an fsync.
"""

import errno
import fcntl
import os
import sys
from io import FileIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 64 * 1024
"""How many bytes are copied at once where the kernel does not do it."""
_NOT_SUPPORTED = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _sync_to_the_disk(fd: int) -> None:
    """Make content and length of a file durable. Raises OSError."""
    if _FULL_SYNC is not None:
        try:
            system.control(fd, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
        else:
            return
    system.fsync(fd)


def _allocate_by_writing(fd: int, start: int, size: int) -> None:
    """Give the range blocks of its own; what is in it stays. Raises OSError if the disk is full."""
    end = start + size
    while start < end:
        count = min(_CHUNK, end - start)
        content = system.pread(fd, count, start).ljust(count, b"\0")
        start += system.pwrite(fd, content, start)


def _send_by_copying(socket_fd: int, fd: int, position: int, size: int) -> int:
    """Send the beginning of a range; returns how many bytes were sent, 0 at the end of the file.

    Raises BlockingIOError if the socket accepts none, OSError if the connection is closed.
    """
    content = system.pread(fd, min(size, _CHUNK), position)
    return system.write(socket_fd, content) if content else 0


def _lock_twice(fd: int) -> None:
    """Lock a file exclusively. Raises OSError(EACCES or EAGAIN) if another one holds it."""
    # Kafka checks POSIX locks on the same directory, but they do not exclude two owners
    # within one process; flock does.
    system.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    system.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_once(fd: int) -> None:
    """The same where the two kinds of locks are one: the second would wait for the first."""
    system.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(fd: int) -> None:
    """Unlock a file, also if a process that was forked has a copy of the descriptor."""
    system.flock(fd, fcntl.LOCK_UN)


class System:
    """Functions of `os` and `fcntl` (`control` is `fcntl.fcntl`), and those of the table above.

    They are attributes of the one instance, `system`: as such they are no methods.
    """

    def __init__(self) -> None:
        self.FileIO = FileIO
        self.access = os.access
        self.close = os.close
        self.control = fcntl.fcntl
        self.flock = fcntl.flock
        self.fstat = os.fstat
        self.fsync = os.fsync
        self.ftruncate = os.ftruncate
        self.listdir = os.listdir
        self.lockf = fcntl.lockf
        self.lseek = os.lseek
        self.lstat = os.lstat
        self.mkdir = os.mkdir
        self.open = os.open
        self.pread = os.pread
        self.pwrite = os.pwrite
        self.replace = os.replace
        self.rmdir = os.rmdir
        self.stat = os.stat
        self.statvfs = os.statvfs
        self.unlink = os.unlink
        self.write = os.write

        self.sync_data: Callable[[int], None] = getattr(os, "fdatasync", _sync_to_the_disk)
        self.allocate: Callable[[int, int, int], None] = getattr(
            os, "posix_fallocate", _allocate_by_writing
        )
        self.send_file: Callable[[int, int, int, int], int] = getattr(
            os, "sendfile", _send_by_copying
        )
        is_linux = sys.platform.startswith("linux")
        self.lock_file: Callable[[int], None] = _lock_twice if is_linux else _lock_once
        self.unlock_file: Callable[[int], None] = _unlock


system: Final = System()
