"""CRC32C (Castagnoli), the checksum of record batches, computed over a buffer without a copy.

The `crc32c` package computes it in hardware. Importing the package also
loads its command line and `importlib.metadata`, which adds some forty milliseconds to every broker
start, so only the compiled module inside it is loaded. If the installed release has a different
layout, the package itself is imported.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Protocol, cast


class Crc32c(Protocol):
    """`crc32c(data, value=0)`: the checksum of `data`, continued from `value`."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int: ...


def _load() -> Crc32c:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        extension = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if extension is not None and extension.loader is not None:
            module = module_from_spec(extension)
            extension.loader.exec_module(module)
            return cast("Crc32c", module.crc32c)
    from crc32c import crc32c as whole_package

    return cast("Crc32c", whole_package)


crc32c: Crc32c = _load()
