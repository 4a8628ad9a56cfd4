"""The system calls that not every system has, each chosen once, when this module is imported.

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
from collections.abc import Callable

_CHUNK = 64 * 1024
"""How many bytes are copied at once where the kernel does not do it."""
_NOT_SUPPORTED = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _sync_to_the_disk(fd: int) -> None:
    """Make content and length of a file durable. Raises OSError."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
        else:
            return
    os.fsync(fd)


def _allocate_by_writing(fd: int, start: int, size: int) -> None:
    """Give the range blocks of its own; what is in it stays. Raises OSError if the disk is full."""
    end = start + size
    while start < end:
        count = min(_CHUNK, end - start)
        content = os.pread(fd, count, start).ljust(count, b"\0")
        start += os.pwrite(fd, content, start)


def _send_by_copying(socket_fd: int, fd: int, position: int, size: int) -> int:
    """Send the beginning of a range; returns how many bytes were sent, 0 at the end of the file.

    Raises BlockingIOError if the socket accepts none, OSError if the connection is closed.
    """
    content = os.pread(fd, min(size, _CHUNK), position)
    return os.write(socket_fd, content) if content else 0


def _lock_twice(fd: int) -> None:
    """Lock a file exclusively. Raises OSError(EACCES or EAGAIN) if another one holds it."""
    # Kafka checks POSIX locks on the same directory, but they do not exclude two owners
    # within one process; flock does.
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_once(fd: int) -> None:
    """The same where the two kinds of locks are one: the second would wait for the first."""
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock_file(fd: int) -> None:
    """Unlock a file, also if a process that was forked has a copy of the descriptor."""
    fcntl.flock(fd, fcntl.LOCK_UN)


sync_data: Callable[[int], None] = getattr(os, "fdatasync", _sync_to_the_disk)
allocate: Callable[[int, int, int], None] = getattr(os, "posix_fallocate", _allocate_by_writing)
send_file: Callable[[int, int, int, int], int] = getattr(os, "sendfile", _send_by_copying)
lock_file: Callable[[int], None] = _lock_twice if sys.platform.startswith("linux") else _lock_once
