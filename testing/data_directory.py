"""Where a test's broker keeps its data: in memory where there is room, and gone at the end.

A file system in memory costs no flushes: Linux has one. Elsewhere, and where less than
`MEMORY_FREE_MIN` is free, it is a temporary directory. A directory that a killed process has left
behind is removed by the next one: it holds a lock on a file as long as it lives.

All goes through the broker's door to the disk: a test may have replaced the functions of `os` when
its broker starts or stops.
"""

import errno
import fcntl
import logging
import os
import stat
import tempfile
import weakref
from io import FileIO
from typing import Final

from ..clients.runtime.own_descriptors import keep_from_forks
from ..storage.files import OsFiles
from ..storage.system_calls import MEMORY_DIRECTORY, system
from .system_clock import SystemClock

_log = logging.getLogger(__name__)

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
_FILES: Final = OsFiles()


class DataDirectory:
    """A new temporary directory, or one of the caller's that stays."""

    def __init__(self, stated: str | None) -> None:
        """With `stated` None, a new one that `remove` or the end of the process removes."""
        self._owner = -1
        self._finalizer: weakref.finalize[..., DataDirectory] | None = None
        if stated is not None:
            self.path = os.path.abspath(stated)
            _FILES.mkdirs(self.path)
            return
        parent = _parent()
        _remove_left_behind(parent)
        self.path = f"{parent}/{_PREFIX}{SystemClock().random.getrandbits(64):016x}"
        system.mkdir(self.path, 0o700)
        lock = system.FileIO(f"{self.path}/{_LOCK}", "x", opener=_private)
        system.flock(lock, fcntl.LOCK_EX)
        keep_from_forks(lock)
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, self._owner)

    def remove(self) -> None:
        """Remove a temporary directory; one of the caller's stays. Idempotent."""
        finalizer = self._finalizer
        if finalizer is None or not finalizer.alive:
            return
        _remove_tree(self.path, self._owner)
        # Whom Ctrl-C interrupts above has the rest removed at the end of the process.
        finalizer()


def _private(path: str, flags: int) -> int:
    return system.open(path, flags | os.O_CLOEXEC, 0o600)


def _parent() -> str:
    """A directory in memory if there is room, else the system's for temporary files."""
    if MEMORY is None:
        return tempfile.gettempdir()
    try:
        left = system.statvfs(MEMORY)
        if system.access(MEMORY, os.W_OK) and left.f_bavail * left.f_frsize >= MEMORY_FREE_MIN:
            return MEMORY
    except OSError:
        # No such file system here, as in some containers.
        return tempfile.gettempdir()
    return tempfile.gettempdir()


def _remove(path: str, lock: FileIO, owner: int) -> None:
    _remove_tree(path, owner)
    lock.close()


def _remove_tree(path: str, owner: int) -> None:
    # A fork has the object too, and the directory is not its own.
    if os.getpid() == owner:
        _remove_what_goes(path)


def _remove_what_goes(path: str) -> None:
    try:
        _FILES.remove_tree(path)
    except OSError as error:
        # The next broker tries again: it is left behind.
        _log.debug("%s was not removed: %s", path, error)


def _remove_left_behind(parent: str) -> None:
    """Remove directories of processes that were killed."""
    oldest_s = SystemClock().wall_clock_ms() / 1000 - LEFT_BEHIND_AGE_MIN_S
    names = [name for name in _FILES.listdir(parent) if name.startswith(_PREFIX)]
    for name in names[:LEFT_BEHIND_MAX]:
        path = f"{parent}/{name}"
        try:
            about = system.lstat(path)
            if about.st_mtime < oldest_s and about.st_uid == os.getuid():
                _remove_if_unlocked(path)
        except OSError:
            # Another process removes it at the same time.
            continue


def _remove_if_unlocked(path: str) -> None:
    """Raises OSError, also if a living process holds the lock."""
    try:
        lock = system.open(f"{path}/{_LOCK}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        # Its process was killed or interrupted before it had made the file.
        system.rmdir(path)
        return
    try:
        system.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_what_goes(path)
    finally:
        system.close(lock)


def copy_tree(source: str, target: str) -> None:
    """Copy a directory as it is; holes of files stay holes. Raises OSError.

    What another thread removes meanwhile, or renames, may be missing.
    """
    system.mkdir(target)
    for name in _FILES.listdir(source):
        try:
            if stat.S_ISDIR(system.lstat(f"{source}/{name}").st_mode):
                copy_tree(f"{source}/{name}", f"{target}/{name}")
            else:
                _copy_file(f"{source}/{name}", f"{target}/{name}")
        except FileNotFoundError:
            # It is gone since it was listed, which is a state of the directory as well.
            continue


def replace_tree(source: str, target: str) -> None:
    """Put the directory `source` in the place of `target`. Raises OSError."""
    _FILES.remove_tree(target)
    _FILES.rename(source, target)


def _copy_file(source: str, target: str) -> None:
    with system.FileIO(source) as reader, system.FileIO(target, "wb") as writer:
        size = system.fstat(reader.fileno()).st_size
        writer.truncate(size)
        position = 0
        while position < size:
            try:
                position = system.lseek(reader.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    # Nothing but a hole is left.
                    return
                raise
            end = system.lseek(reader.fileno(), position, os.SEEK_HOLE)
            while position < end:
                part = system.pread(reader.fileno(), min(_COPY_BYTES, end - position), position)
                if not part:
                    return
                system.pwrite(writer.fileno(), part, position)
                position += len(part)


def read_tail(path: str, nbytes: int) -> str:
    """The last lines of a file, of `nbytes` at most; empty where there is none."""
    if not _FILES.exists(path):
        return ""
    with system.FileIO(path) as reader:
        size = system.fstat(reader.fileno()).st_size
        tail = system.pread(reader.fileno(), nbytes, max(0, size - nbytes))
    return tail.decode(errors="replace")
