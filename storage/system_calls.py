"""The functions of the system, taken once, when this is imported, and what not every system has.

A test's broker shares its process with the test, and tools of tests replace such functions:
pyfakefs puts another `os` into every module, and others in the place of functions that a module has
imported by name; a mock replaces `os.stat` in `os` itself. None of them looks into an object. So
what a broker does to files is done through `system`, and its disk stays the real one.

tierlog runs on Linux, with glibc or musl, and on macOS. No other file names what only one of them
has; tests/banned_calls.py refuses it.

| | Linux | macOS | without either |
|---|---|---|---|
| `sync_data` | fdatasync | fcntl(F_FULLFSYNC), as Java does | fsync |
| `allocate` | posix_fallocate | the range is written as it is | the same |
| `send_file` | sendfile | sendfile | pread and write |
| `lock_file` | POSIX lock and flock | flock | flock |
| `secret_file` | a file in memory, memfd_create | a pipe, /dev/fd | the same |
| `raise_files_limit` | to the hard limit | to 10,240, where the hard limit is none | the same |
| `end_with_parent` | prctl(PR_SET_PDEATHSIG) | a process outlives one that is killed | the same |
| `MEMORY_DIRECTORY` | /dev/shm | none: temporary directories are used | the same |
| `OUTGOING_PORTS` | /proc/sys/net | none: ports below 32,768 are chosen | the same |
| `hangup_poll` | epoll with EPOLLRDHUP | none: an idle connection is closed in time | the same |
| `MORE_FOLLOWS` | MSG_MORE | 0: a header may leave in a packet of its own | the same |
| `CONGESTION_CONTROL` | TCP_CONGESTION | none: it stays as the system has it | the same |
| `REMOTE_IO_ERRORS` | EREMOTEIO | none | the same |

On macOS an fsync leaves the bytes in the cache of the disk; F_FULLFSYNC does not, and file systems
that do not have it, such as those of a network, get an fsync. Mappings are made by `memory_map.py`,
with calls that all of them have.
"""

import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import FileIO
from typing import Final, Protocol


class HangupPoll(Protocol):
    """Which of the descriptors that are registered have the event that was asked for."""

    def register(self, fd: int, eventmask: int) -> None: ...

    def unregister(self, fd: int) -> None: ...

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]: ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


_CHUNK = 64 * 1024
"""How many bytes are copied at once where the kernel does not do it."""
_NOT_SUPPORTED = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_IS_LINUX = sys.platform.startswith("linux")
_PR_SET_PDEATHSIG = 1
_ORPHANED = 70
"""How a process ends that has lost its parent before `end_with_parent`."""
_FILES_MAX = 10_240
"""OPEN_MAX of macOS, which grants no more to a process that asks for all."""

MEMORY_DIRECTORY: str | None = "/dev/shm" if _IS_LINUX else None
"""A file system in memory, if there may be one. It may be full, or missing in a container."""
OUTGOING_PORTS: str | None = "/proc/sys/net/ipv4/ip_local_port_range" if _IS_LINUX else None
"""The file that has the first and the last port that the system gives to connections."""
MORE_FOLLOWS: int = 0x8000 if _IS_LINUX else 0
"""A flag of `send`, MSG_MORE: what follows may leave in the same packet."""
CONGESTION_CONTROL: int | None = 13 if _IS_LINUX else None
"""The option of IPPROTO_TCP whose value is a name, TCP_CONGESTION."""
REMOTE_IO_ERRORS: tuple[int, ...] = (errno.EREMOTEIO,) if hasattr(errno, "EREMOTEIO") else ()
"""Errors that a remote device has answered with."""


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
        self.lock_file: Callable[[int], None] = _lock_twice if _IS_LINUX else _lock_once
        self.unlock_file: Callable[[int], None] = _unlock


system: Final = System()


def _file_in_memory(content: bytes) -> tuple[int, str]:
    descriptor = os.memfd_create("secret", os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[system.write(descriptor, view) :]
    except BaseException:
        system.close(descriptor)
        raise
    return descriptor, f"/proc/self/fd/{descriptor}"


def pipe_of(content: bytes) -> tuple[int, str]:
    """A pipe with this content and its end: its descriptor and path. Raises OSError."""
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        if system.write(writing, content) != len(content):
            raise OSError(errno.EFBIG, "it is larger than a pipe")
    except OSError:
        system.close(reading)
        raise
    finally:
        system.close(writing)
    return reading, f"/dev/fd/{reading}"


@contextmanager
def secret_file(content: bytes) -> Generator[str]:
    """A path that can be opened and read once; the content is never on a disk.

    Raises OSError, with EFBIG if the content must go through a pipe and does not fit.
    """
    descriptor, path = _open_secret(content)
    try:
        yield path
    finally:
        system.close(descriptor)


def raise_files_limit() -> None:
    """Let this process open as many files as it may. Raises OSError or ValueError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        if 0 <= soft < _FILES_MAX and (hard == resource.RLIM_INFINITY or hard > _FILES_MAX):
            resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_MAX, hard))
        else:
            raise


def _end_by_signal(parent: int) -> None:
    assert _prctl is not None
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_ORPHANED)


def _end_alone(_parent: int) -> None:
    """Without the call, a process ends by signals alone."""


_open_secret = _file_in_memory if hasattr(os, "memfd_create") else pipe_of
_prctl: Callable[..., int] | None = getattr(ctypes.CDLL(None), "prctl", None)
end_with_parent: Callable[[int], None] = _end_alone if _prctl is None else _end_by_signal
"""Called in a new process: it gets SIGKILL when the parent dies, at once if that has happened."""
hangup_poll: Callable[[], HangupPoll] | None = getattr(select, "epoll", None)
"""Makes a poll object to which descriptors can be given for `PEER_HUNG_UP`."""
PEER_HUNG_UP: int = getattr(select, "EPOLLRDHUP", 0)
