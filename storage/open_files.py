"""Limits the number of open file descriptors, so that a broker does not run out of them.

The operating system limits the descriptors of a process (`ulimit -n`), which files share with
connections. A broker with many thousand segments has more files than that, but uses few at a time.
So beyond `limit` the least recently used file closes its descriptor, and reopens the file by name
when it is used again.

A file with unsynced bytes is closed only if no other file can be, and only after an fsync: the
kernel reports a failed write only to descriptors that are open at that time.

Operations that need a descriptor briefly (a listing, an fsync of a directory) go through `perform`:
if the process or the machine has no free descriptor, idle files are closed and the operation is
retried.
"""

import errno
import resource
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar

ResultT = TypeVar("ResultT")

EXHAUSTED = (errno.EMFILE, errno.ENFILE)
"""The errors of a system without free descriptors. They do not indicate a disk failure."""

_UNLIMITED = 1 << 20
_LEAST = 16
_LOOKS = 64
"""How many files are checked for an idle one, before a file is synced in order to close it."""
_GIVEN_UP_AT_ONCE = 8
_ATTEMPTS = 8


class Closable(Protocol):
    """An open file that can close its descriptor and reopen it later."""

    was_used: bool
    """Set by each use, cleared when the file is checked."""

    @property
    def is_unsynced(self) -> bool: ...

    def sync_before_closing(self) -> bool:
        """fsync unsynced bytes; False if that failed, which the next flush reports."""
        ...

    def give_up_descriptor(self) -> None: ...


def files_limit() -> int:
    """How many descriptors files may use: two thirds of the limit; connections use the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > _UNLIMITED:
        soft = _UNLIMITED
    return max(_LEAST, soft * 2 // 3)


class OpenFiles:
    """The files that have a descriptor, least recently used first. Thread-safe."""

    def __init__(self, limit: int) -> None:
        assert limit > 0
        self.limit = limit
        self._files: OrderedDict[weakref.ref[Closable], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def add(self, file: Closable) -> None:
        """Add a file that has opened a descriptor; other files may have to close theirs."""
        self._files[weakref.ref(file, self._forget)] = None
        while len(self._files) > self.limit and self._close_one():
            pass

    def discard(self, file: Closable) -> None:
        """Remove a file that has closed its descriptor."""
        self._forget(weakref.ref(file))

    def _forget(self, reference: "weakref.ref[Closable]") -> None:
        self._files.pop(reference, None)

    def perform(self, operation: Callable[[], ResultT]) -> ResultT:
        """Run an operation, closing idle files if no descriptor is left. Raises OSError."""
        for _ in range(_ATTEMPTS):
            try:
                return operation()
            except OSError as error:
                if error.errno not in EXHAUSTED or not self._make_room():
                    raise
        return operation()

    def _make_room(self) -> bool:
        return sum(self._close_one() for _ in range(_GIVEN_UP_AT_ONCE)) > 0

    def _close_one(self) -> bool:
        """Close the descriptor of an idle file; if none is idle and synced, sync the oldest."""
        for _ in range(min(len(self._files), _LOOKS)):
            file = self._take_oldest()
            if file is None:
                return False
            if not (file.was_used or file.is_unsynced):
                file.give_up_descriptor()
                return True
            file.was_used = False
            self._files[weakref.ref(file, self._forget)] = None
        return self._sync_and_close_one()

    def _sync_and_close_one(self) -> bool:
        file = self._take_oldest()
        if file is None:
            return False
        if file.sync_before_closing():
            file.give_up_descriptor()
        else:
            # The file keeps its descriptor until its directory goes offline.
            self._files[weakref.ref(file, self._forget)] = None
        return True

    def _take_oldest(self) -> Closable | None:
        while self._files:
            try:
                reference, _ = self._files.popitem(last=False)
            except KeyError:
                # Another thread removed the last file.
                return None
            file = reference()
            if file is not None:
                return file
        return None
