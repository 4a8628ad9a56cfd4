"""Looks at directories in which a running broker makes, renames and deletes files and folders."""

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path


def live_paths(directory: Path, pattern: str) -> Iterator[Path]:
    """The files and folders below `directory` that match; those that disappear may be missing.

    `pattern` is one of `glob`: "**" stands for any number of folders. Before Python 3.13,
    `Path.glob` raises FileNotFoundError if a folder disappears between its listing and its reading.
    """
    names = glob.iglob(pattern, root_dir=directory, recursive=True, include_hidden=True)
    return (directory / name for name in names)


def size_of(paths: Iterable[Path]) -> int:
    """The total bytes of files, some of which may disappear meanwhile."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            # Renamed or deleted since the listing: the next check counts it.
            continue
    return total
