"""Descriptors that stay with the process that opened them, where it forks.

A fork has a copy of every descriptor. A port is in use, a connection open and a lock held until the
last copy is closed: the children of a test suite or of a server would keep those of a broker in
their parent for as long as they live. In a child, each of them becomes one of /dev/null. The number
stays taken, so whatever closes it later closes nothing of the child; and an epoll object, which the
two processes share, is not changed by what the child does.
"""

import os
from typing import Protocol
from weakref import WeakSet


class HasDescriptor(Protocol):
    """A socket, a file or the like."""

    def fileno(self) -> int:
        """The descriptor; -1, or ValueError, once it is closed."""
        ...


_own = WeakSet[HasDescriptor]()


def keep_from_forks(owner: HasDescriptor) -> None:
    """Keep its descriptor from processes that are forked from now on, until it is closed."""
    _own.add(owner)


def _let_go() -> None:
    """In a child, which has one thread: the others may have ended in the middle of anything."""
    descriptors: list[int] = []
    for owner in list(_own):
        try:
            descriptor = owner.fileno()
        except ValueError:
            # It is closed.
            continue
        if descriptor >= 0:
            descriptors.append(descriptor)
    _own.clear()
    if not descriptors:
        return
    # First, for a process that has as many as it may: then this is the number that is free.
    os.close(descriptors[0])
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in descriptors:
        if descriptor != null:
            os.dup2(null, descriptor, inheritable=False)
    if null not in descriptors:
        os.close(null)


os.register_at_fork(after_in_child=_let_go)
