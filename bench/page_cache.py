"""The page cache, written back or emptied of a broker's files, so that these come from the disk.

Each file is asked to be forgotten, which needs no rights but to open it and disturbs nobody else.
What a process has mapped at that moment stays, and so would what has not been written back: it is
written first. `disk_read_mb` of a run says how much came from the disk indeed.
"""

import os
from pathlib import Path


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
