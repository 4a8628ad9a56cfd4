"""What a process has used of the machine, read from Linux's `/proc`.

CPU seconds and resident memory of the broker's own process are what the benchmarks compare: they
hardly move when the machine is busy with something else, wall-clock time does.
"""

import os
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessUsage(NamedTuple):
    """One reading: CPU in seconds since the process began, memory in bytes now."""

    cpu_seconds: float
    resident_bytes: int


def read_usage(pid: int) -> ProcessUsage:
    """The usage of one process, its threads included. Raises FileNotFoundError when it is gone."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    # utime and stime are fields 14 and 15 of the line; the two before the ")" are cut off.
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return ProcessUsage(ticks / _TICKS_PER_SECOND, pages * _PAGE_BYTES)
