"""Reads the resource usage of a process from Linux.

The benchmarks compare CPU seconds and resident memory of the broker's process: unlike wall-clock
time, they hardly change when the machine is busy with something else.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CPUCLOCK_SCHED = 2


class Usage(NamedTuple):
    """One reading: CPU seconds and disk bytes since the process started, and current memory.

    Disk bytes are those transferred from or to a block device, not those served by the page cache.
    """

    cpu_seconds: float
    resident_bytes: int
    read_bytes: int
    written_bytes: int


def read_usage(pid: int) -> Usage:
    """The usage of one process with its threads. Raises FileNotFoundError if it has ended."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    lines = Path(f"/proc/{pid}/io").read_text("ascii").splitlines()
    disk = dict(line.split(": ") for line in lines)
    try:
        # The CPU clock of a whole process, as from clock_getcpuclockid(3): in nanoseconds, while
        # /proc counts hundredths of a second.
        cpu_seconds = time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError as error:
        raise FileNotFoundError(f"Process {pid} has ended.") from error
    return Usage(
        cpu_seconds, pages * _PAGE_BYTES, int(disk["read_bytes"]), int(disk["write_bytes"])
    )


def read_network_bytes() -> int:
    """Bytes that this machine has received, including loopback, and sent to others so far."""
    total = 0
    for line in Path("/proc/net/dev").read_text("ascii").splitlines()[2:]:
        interface, _, counters = line.partition(":")
        fields = counters.split()
        # Bytes sent through the loopback are also received through it, so count them once.
        total += int(fields[0]) + (0 if interface.strip() == "lo" else int(fields[8]))
    return total


def read_proportional_bytes(pid: int) -> int:
    """The memory of a process in which pages of several count in shares (PSS, from smaps_rollup).

    So the sum over processes is what they use together. Raises OSError if it has ended.
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
        name, _, size = line.partition(":")
        if name == "Pss":
            return int(size.split()[0]) * 1024
    raise FileNotFoundError(f"Process {pid} has ended.")


def cpu_seconds_of_family() -> float:
    """The CPU seconds of this process and all its descendants so far."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(stat.parent.name)
        # These times include the ended children of the process.
        ticks[pid] = sum(int(field) for field in fields[11:15])
        children.setdefault(int(fields[1]), []).append(pid)
    family = [os.getpid()]
    for pid in family:
        family += children.get(pid, [])
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")
