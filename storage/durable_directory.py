"""Directories whose names survive a loss of power."""

from .files import Files


def make_durably(files: Files, path: str) -> None:
    """Make a directory and its parents; the name of each new one is synced in its parent."""
    if path in ("", ".") or files.is_directory(path):
        return
    parent, slash, _ = path.rpartition("/")
    make_durably(files, parent)
    files.mkdirs(path)
    files.sync_dir(parent or slash or ".")
