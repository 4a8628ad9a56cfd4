"""What a node's disk does to the calls of its process, by way of `disk_shim.c`.

prepare_disk(node)                                  # before the node's first start
disk = DiskControl.of(node)
disk.fail(WRITE | CREATE, errno.ENOSPC)             # from now on, until
disk.mend()
"""

import struct
from pathlib import Path

from ..processes.cluster import ClusterNode
from .shim import create_control, load_shim, mapped

READ, WRITE, SYNC, CREATE, TRUNCATE = 1, 2, 4, 8, 16
"""The kinds of calls, which may be added up."""

MILLION = 1_000_000
NO_LIMIT = -1

_SOURCE = Path(__file__).with_name("disk_shim.c")
_VARIABLE = "TIERLOG_DISK_CONTROL"
_LAYOUT = struct.Struct("=IiIIqq1024s")
"""`struct control` of the shim; first the kinds of calls."""
_CALLS_END = 4
_HITS = struct.Struct("=q")
_HITS_AT = 24


class DiskControl:
    """The control file of one node. Each call takes effect at once, also on a running process."""

    def __init__(self, path: Path, below: Path) -> None:
        """`below` is the directory with the files concerned."""
        self.path = path
        self._below = str(below.resolve()).encode()

    @classmethod
    def of(cls, node: ClusterNode) -> "DiskControl":
        return cls(node.directory / "disk.control", node.log_directory)

    def create(self) -> None:
        """Write the file, with a disk that works, unless there is one."""
        create_control(self.path, self._packed(0, 0, 0, 0, 0))

    def fail(
        self, calls: int, error: int, *, per_million: int = MILLION, left: int = NO_LIMIT
    ) -> None:
        """Let calls of these kinds fail with an errno: so many of a million, `left` in all."""
        self._write(self._packed(calls, error, per_million, 0, left))

    def slow(self, calls: int, delay_us: int, *, per_million: int = MILLION) -> None:
        """Let calls of these kinds take this much longer."""
        self._write(self._packed(calls, 0, per_million, delay_us, NO_LIMIT))

    def mend(self) -> None:
        """Let everything work again. `hits` stays as it is."""
        with mapped(self.path) as control:
            control[:_CALLS_END] = bytes(_CALLS_END)

    @property
    def hits(self) -> int:
        """How many calls have failed or were slow since `fail` or `slow`."""
        with mapped(self.path) as control:
            count: int
            (count,) = _HITS.unpack_from(control, _HITS_AT)
            return count

    def _packed(self, calls: int, error: int, per_million: int, delay_us: int, left: int) -> bytes:
        return _LAYOUT.pack(calls, error, per_million, delay_us, left, 0, self._below)

    def _write(self, content: bytes) -> None:
        with mapped(self.path) as control:
            control[:_CALLS_END] = bytes(_CALLS_END)
            control[_CALLS_END : len(content)] = content[_CALLS_END:]
            # The kinds of calls last: before, nothing fails.
            control[:_CALLS_END] = content[:_CALLS_END]


def prepare_disk(node: ClusterNode) -> None:
    """Let the node's next start load the shim. Raises ShimError."""
    control = DiskControl.of(node)
    control.create()
    load_shim(node, _SOURCE, _VARIABLE, control.path)
