"""Memory at hand before a run, so that no broker is charged for where its machine gets it from.

A virtual machine may give free memory back to its host (free page reporting), and whoever touches
it next waits for the host: three CPU seconds a gigabyte where this was found, ten times of what it
takes otherwise, and more than a broker needs for what it puts there. What the page cache takes for
a produced record, a JVM for its heap, was such memory or was not, as the run before had left it.
"""

import mmap

from .machine import memory_bytes


def have_memory_at_hand(nbytes: int) -> int:
    """Touch so much of the free memory and let go of it; at most half of what is free.

    Answers how much it was. It stays at hand for some seconds at least.
    """
    nbytes = min(nbytes, memory_bytes("MemFree") // 2)
    if nbytes:
        touched = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, nbytes, flags=touched).close()
    return nbytes
