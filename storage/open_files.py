"""The descriptors of open files: how many there are has a bound, and running out is no failure.

An operating system grants a process a number of descriptors (`ulimit -n`), which files share with
connections. A broker with many thousand segments needs more files than that, though few at a time.
So a file keeps its descriptor only while there is room: beyond `limit` the one that was longest
unused gives its own up, and opens it again by name when it is needed.

A file with unsynced bytes comes last, and is synced first: the kernel tells a failed write to the
descriptors that are open then, and to nobody if there is none.

What needs a descriptor for a moment (a listing, an fsync of a directory) goes through `perform`: if
the process or the machine has none left, files give up theirs and it is tried again.
"""

import errno
import resource
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar

ResultT = TypeVar("ResultT")

EXHAUSTED = (errno.EMFILE, errno.ENFILE)
"""What a system answers that has no descriptor left. It says nothing about a disk."""

_UNLIMITED = 1 << 20
_LEAST = 16
_LOOKS = 64
"""So many files are asked whether they are idle before one is synced to be closed."""
_GIVEN_UP_AT_ONCE = 8
_ATTEMPTS = 8


class Closable(Protocol):
    """An open file that can do without its descriptor for a while."""

    was_used: bool
    """Set by each use, cleared by each look."""

    @property
    def is_unsynced(self) -> bool: ...

    def sync_before_closing(self) -> bool:
        """Put unsynced bytes on the disk; False if that failed, which the next flush tells."""
        ...

    def give_up_descriptor(self) -> None: ...


def files_limit() -> int:
    """How many descriptors files may have: two thirds, the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > _UNLIMITED:
        soft = _UNLIMITED
    return max(_LEAST, soft * 2 // 3)


class OpenFiles:
    """The files that have a descriptor, the longest unused first. Usable from any thread."""

    def __init__(self, limit: int) -> None:
        assert limit > 0
        self.limit = limit
        self._files: OrderedDict[weakref.ref[Closable], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def add(self, file: Closable) -> None:
        """The file has a descriptor now; another may have to give up its own."""
        self._files[weakref.ref(file, self._forget)] = None
        while len(self._files) > self.limit and self._close_one():
            pass

    def discard(self, file: Closable) -> None:
        """The file has none any more."""
        self._forget(weakref.ref(file))

    def _forget(self, reference: "weakref.ref[Closable]") -> None:
        self._files.pop(reference, None)

    def perform(self, operation: Callable[[], ResultT]) -> ResultT:
        """Do what needs a descriptor; make room for it where there is none. Raises OSError."""
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
        """Have an idle file give up its descriptor; of many that are unsynced, the oldest."""
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
            # It keeps its descriptor, which its directory's failure will close.
            self._files[weakref.ref(file, self._forget)] = None
        return True

    def _take_oldest(self) -> Closable | None:
        while self._files:
            try:
                reference, _ = self._files.popitem(last=False)
            except KeyError:
                # Another thread took the last one.
                return None
            file = reference()
            if file is not None:
                return file
        return None
