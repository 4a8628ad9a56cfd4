"""Writes back the page cache, fills it with a topic's segments, or drops a broker's files from it.

Data written a while ago may no longer be in memory: the kernel may evict it long before memory is
short. So data that must come from memory is read first, and data that must come from the disk is
dropped. This is done per file, which needs only the right to open the file and affects nothing
else. Pages that a process has mapped remain; dirty pages would remain too, so they are written back
first. `disk_read_mb` of a run shows how much really came from the disk.
"""

import glob
import os
import re
from pathlib import Path

from .harness.processes.live_files import live_paths

_PIECE_BYTES = 1 << 20


def write_back() -> None:
    """Write all dirty pages to the disk.

    A broker flushes closed segments in the background, and its CPU for that would otherwise be
    counted in the next measurement.
    """
    os.sync()


def drop_page_cache(directory: Path) -> None:
    """Drop the files under `directory` from the page cache."""
    write_back()
    for path in live_paths(directory, "**/*"):
        if not path.is_file():
            continue
        try:
            file = path.open("rb")
        except FileNotFoundError:
            # Deleted since the listing.
            continue
        with file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fill_page_cache(directory: Path, topic: str) -> int:
    """Read all segments of the topic into the page cache; returns their size in bytes.

    `directory` contains the log directories. Only the topic's own logs are read, because other
    logs may be deleted meanwhile.
    """
    folder = re.compile(rf"{re.escape(topic)}-\d+")
    piece = bytearray(_PIECE_BYTES)
    total = 0
    for path in live_paths(directory, f"*/{glob.escape(topic)}-*/*.log"):
        if folder.fullmatch(path.parent.name):
            with path.open("rb", buffering=0) as file:
                while size := file.readinto(piece):
                    total += size
    return total
