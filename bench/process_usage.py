"""What a process has used of the machine, as Linux tells it.

CPU seconds and resident memory of the broker's own process are what the benchmarks compare: they
hardly move when the machine is busy with something else, wall-clock time does.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CPUCLOCK_SCHED = 2


class Usage(NamedTuple):
    """One reading: CPU seconds and bytes of disk since the process began, memory in bytes now.

    Bytes of disk are those that went to or came from a block device, not what the page cache
    answered.
    """

    cpu_seconds: float
    resident_bytes: int
    read_bytes: int
    written_bytes: int


def read_usage(pid: int) -> Usage:
    """The usage of one process, its threads included. Raises FileNotFoundError when it is gone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    lines = Path(f"/proc/{pid}/io").read_text("ascii").splitlines()
    disk = dict(line.split(": ") for line in lines)
    try:
        # The clock of a whole process, as clock_getcpuclockid(3) names it: nanoseconds, where
        # /proc counts hundredths of a second.
        cpu_seconds = time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError as error:
        raise FileNotFoundError(f"Process {pid} has ended.") from error
    return Usage(
        cpu_seconds, pages * _PAGE_BYTES, int(disk["read_bytes"]), int(disk["write_bytes"])
    )


def read_network_bytes() -> int:
    """Bytes that this machine has received so far, loopback included, and sent to others."""
    total = 0
    for line in Path("/proc/net/dev").read_text("ascii").splitlines()[2:]:
        interface, _, counters = line.partition(":")
        fields = counters.split()
        # What goes out through the loopback comes in through it: once is enough.
        total += int(fields[0]) + (0 if interface.strip() == "lo" else int(fields[8]))
    return total
