"""Where a test's broker keeps its data: in memory where there is room, and gone at the end.

A file system in memory costs no flushes: Linux has one. Elsewhere, and where less than
`MEMORY_FREE_MIN` is free, it is a temporary directory. A directory that a killed process has left
behind is removed by the next one: it holds a lock on a file as long as it lives.
"""

import errno
import fcntl
import os
import shutil
import tempfile
import weakref
from typing import Final

from ...clients.environment import SystemEnvironment
from ...storage.system_calls import MEMORY_DIRECTORY

MEMORY = MEMORY_DIRECTORY
MEMORY_FREE_MIN: Final = 256 << 20
"""Bytes that must be free in memory; brokers of a test suite hold a few megabytes each."""
LEFT_BEHIND_MAX: Final = 100
"""Directories of killed processes that one start looks at."""
LEFT_BEHIND_AGE_MIN_S: Final = 60.0
"""Younger ones may belong to a process that has not locked its file yet."""

_PREFIX = "tierlog-test-"
_LOCK = "in-use"
_COPY_BYTES = 1 << 20


class DataDirectory:
    """A new temporary directory, or one of the caller's that stays."""

    def __init__(self, stated: str | None) -> None:
        """With `stated` None, a new one that `remove` or the end of the process removes."""
        self._lock = self._owner = -1
        self._finalizer: weakref.finalize[..., DataDirectory] | None = None
        if stated is not None:
            self.path = os.path.abspath(stated)
            os.makedirs(self.path, exist_ok=True)
            return
        parent = _parent()
        _remove_left_behind(parent)
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        self._lock = os.open(f"{self.path}/{_LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _remove, self.path, self._lock, self._owner)

    def remove(self) -> None:
        """Remove a temporary directory; one of the caller's stays. Idempotent."""
        finalizer = self._finalizer
        if finalizer is None or not finalizer.alive:
            return
        _remove_tree(self.path, self._owner)
        # Whom Ctrl-C interrupts above has the rest removed at the end of the process.
        finalizer()


def _parent() -> str:
    """A directory in memory if there is room, else the system's for temporary files."""
    if MEMORY is None:
        return tempfile.gettempdir()
    try:
        left = os.statvfs(MEMORY)
        if os.access(MEMORY, os.W_OK) and left.f_bavail * left.f_frsize >= MEMORY_FREE_MIN:
            return MEMORY
    except OSError:
        # No such file system here, as in some containers.
        return tempfile.gettempdir()
    return tempfile.gettempdir()


def _remove(path: str, lock: int, owner: int) -> None:
    _remove_tree(path, owner)
    if os.getpid() == owner:
        os.close(lock)


def _remove_tree(path: str, owner: int) -> None:
    # A fork has the object too, and the directory is not its own.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def _remove_left_behind(parent: str) -> None:
    """Remove directories of processes that were killed."""
    oldest_s = SystemEnvironment().wall_clock_ms() / 1000 - LEFT_BEHIND_AGE_MIN_S
    names = [name for name in os.listdir(parent) if name.startswith(_PREFIX)]
    for name in names[:LEFT_BEHIND_MAX]:
        path = f"{parent}/{name}"
        try:
            if os.lstat(path).st_mtime < oldest_s and os.lstat(path).st_uid == os.getuid():
                _remove_if_unlocked(path)
        except OSError:
            # Another process removes it at the same time.
            continue


def _remove_if_unlocked(path: str) -> None:
    """Raises OSError, also if a living process holds the lock."""
    try:
        lock = os.open(f"{path}/{_LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        # Its process was killed or interrupted before it had made the file.
        os.rmdir(path)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def copy_tree(source: str, target: str) -> None:
    """Copy a directory as it is; holes of files stay holes. Raises OSError."""
    shutil.copytree(source, target, copy_function=_copy_file)


def replace_tree(source: str, target: str) -> None:
    """Put the directory `source` in the place of `target`. Raises OSError."""
    shutil.rmtree(target)
    os.rename(source, target)


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb") as reader, open(target, "wb") as writer:
        size = os.fstat(reader.fileno()).st_size
        writer.truncate(size)
        position = 0
        while position < size:
            try:
                position = os.lseek(reader.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    # Nothing but a hole is left.
                    return
                raise
            end = os.lseek(reader.fileno(), position, os.SEEK_HOLE)
            while position < end:
                part = os.pread(reader.fileno(), min(_COPY_BYTES, end - position), position)
                if not part:
                    return
                os.pwrite(writer.fileno(), part, position)
                position += len(part)


def read_tail(path: str, nbytes: int) -> str:
    """The last lines of a file, of `nbytes` at most; empty where there is none."""
    if not os.path.exists(path):
        return ""
    with open(path, "rb") as reader:
        size = os.fstat(reader.fileno()).st_size
        tail = os.pread(reader.fileno(), nbytes, max(0, size - nbytes))
    return tail.decode(errors="replace")
