"""Memory at hand before a run, so that no broker is charged for where its machine gets it from.

A virtual machine may give free memory back to its host (free page reporting), and whoever touches
it next waits for the host: three CPU seconds a gigabyte where this was found, ten times of what it
takes otherwise, and more than a broker needs for what it puts there. What the page cache takes for
a produced record, a JVM for its heap, was such memory or was not, as the run before had left it.
"""

import mmap
import os
import shutil
import tempfile
from pathlib import Path

from .machine import memory_bytes

_PIECE = bytes(128 << 10)


def have_memory_at_hand(nbytes: int, directory: Path) -> int:
    """Touch so much of the free memory and let go of it; at most half of what is free.

    A quarter as a heap touches it, then the rest as a file in `directory` does, where brokers keep
    theirs: the kernel keeps free memory in lists by the size of the piece, a heap takes from that
    of single pages and the page cache from those of larger pieces. Where a heap alone had been
    touched, six of twenty produce runs took half as much CPU again or more on a machine that had
    deleted many files.

    Answers how much it was; less as well where the disk has no room for twice the file. It stays
    at hand for some seconds at least.
    """
    nbytes = min(nbytes, memory_bytes("MemFree") // 2)
    heap = nbytes // 4
    file = min(nbytes - heap, shutil.disk_usage(directory).free // 2)
    if heap:
        touched = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, heap, flags=touched).close()
    _fill_a_file(file, directory)
    return heap + file


def _fill_a_file(nbytes: int, directory: Path) -> None:
    """The file has no name: it is gone however this ends, and before anything is written back."""
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(nbytes // len(_PIECE)):
            os.write(file.fileno(), _PIECE)
