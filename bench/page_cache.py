"""The page cache: written back, filled with a topic's segments, or emptied of a broker's files.

What was written a while ago need not be in memory any more: a machine may take it back long before
it is short of any. So what shall come from memory is read first, and what shall come from the disk
is forgotten. For that each file is asked, which needs no rights but to open it and disturbs nobody
else. What a process has mapped at that moment stays, and so would what has not been written back:
it is written first. `disk_read_mb` of a run says how much came from the disk indeed.
"""

import glob
import os
import re
from pathlib import Path

_PIECE_BYTES = 1 << 20


def write_back() -> None:
    """Let all that was written be on the disk.

    A broker flushes what it has closed in a thread of its own, and would be at it still when its
    CPU is counted for something else.
    """
    os.sync()


def drop_page_cache(directory: Path) -> None:
    """Let nothing of the files under `directory` stay in memory."""
    write_back()
    for path in directory.rglob("*"):
        if not path.is_file():
            continue
        try:
            file = path.open("rb")
        except FileNotFoundError:
            # Deleted since the folder was read.
            continue
        with file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fill_page_cache(directory: Path, topic: str) -> int:
    """Let all segments of the topic be in memory; how many bytes they have.

    `directory` holds the folders of logs. Only the topic's own are looked into: others may be
    deleted at this moment.
    """
    folder = re.compile(rf"{re.escape(topic)}-\d+")
    piece = bytearray(_PIECE_BYTES)
    total = 0
    for path in directory.glob(f"*/{glob.escape(topic)}-*/*.log"):
        if folder.fullmatch(path.parent.name):
            with path.open("rb", buffering=0) as file:
                while size := file.readinto(piece):
                    total += size
    return total
