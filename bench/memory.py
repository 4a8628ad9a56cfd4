"""Touches free memory before a run, so that the cost of getting it from the host is not measured.

A virtual machine may return free memory to its host (free page reporting), and the next process to
touch it waits for the host: three CPU seconds per gigabyte where this was measured, ten times the
usual cost, and more than a broker spends on the data. Whether the page cache or a JVM heap got such
memory depended on the previous run.
"""

import mmap
import os
import shutil
import tempfile
from pathlib import Path

from .machine import memory_bytes

_PIECE = bytes(128 << 10)


def have_memory_at_hand(nbytes: int, directory: Path) -> int:
    """Touch up to `nbytes` of free memory, at most half of it, and release it.

    A quarter is touched as a heap, the rest as a file in `directory`, where brokers keep their
    files. The kernel keeps free memory in lists by block size: a heap uses single pages, and the
    page cache larger blocks. When only a heap was touched, six of twenty produce runs used at least
    1.5 times the CPU on a machine that had deleted many files.

    Returns the number of bytes touched, which is lower if the disk has no room for twice the file.
    The memory remains available for at least some seconds.
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
    """Write an unnamed file, and delete it before the kernel writes it back."""
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(nbytes // len(_PIECE)):
            os.write(file.fileno(), _PIECE)
