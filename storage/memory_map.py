"""Maps a file into memory without keeping it open (mmap(2), called directly).

Python's own `mmap` holds a descriptor for the lifetime of the mapping; Java's maps hold none. With
two indexes per segment that would triple a broker's descriptors: ten thousand partitions would need
thirty thousand, and a broker that runs out of them loses its log directory.

A mapping is a memoryview. It is unmapped once nothing refers to it or to a slice of it, so a reader
can never access unmapped memory. Reading past the end of the *file* raises SIGBUS, as with every
mapping.
"""

import ctypes
import mmap
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_FAILED = ctypes.c_void_p(-1).value


class _Unmapping:
    """Unmaps the pages when it is garbage-collected; the array over the pages keeps it alive."""

    __slots__ = ("_address", "_size")

    def __init__(self, address: int, size: int) -> None:
        self._address = address
        self._size = size

    def __del__(self) -> None:
        _LIBC.munmap(self._address, self._size)


def map_shared(fd: int, size: int) -> memoryview:
    """Map the first `size` bytes of an open file for reading and writing.

    The end of the range may be a hole in the file. `fd` may be closed afterwards. Nothing is read
    ahead. Raises OSError.
    """
    assert size > 0
    # ctypes creates a class for each array length; rounding up to pages keeps the classes few.
    pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    address: int | None = _LIBC.mmap(None, pages, protection, mmap.MAP_SHARED, fd, 0)
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    unmapping = _Unmapping(address, pages)
    # Without this, the kernel reads (and zeroes) megabytes ahead at the first store, in 3 ms.
    _LIBC.madvise(address, pages, mmap.MADV_RANDOM)
    array = (ctypes.c_ubyte * pages).from_address(address)
    array.unmapping = unmapping  # type: ignore[attr-defined]  # freed with the last view
    return memoryview(array).cast("B")[:size]
