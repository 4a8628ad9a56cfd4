"""Names of directories that survive a loss of power."""

from .files import Files


def make_durably(files: Files, path: str) -> None:
    """Make a directory and its parents; the name of each new one is synced in its parent."""
    if path in ("", ".") or files.is_directory(path):
        return
    parent, slash, _ = path.rpartition("/")
    make_durably(files, parent)
    files.mkdirs(path)
    files.sync_dir(parent or slash or ".")


def rename_durably(files: Files, old: str, new: str) -> None:
    """Rename within a directory, durably; where no descriptor is left for that nothing is done."""
    directory = files.open_dir(new.rpartition("/")[0])
    files.rename(old, new)
    directory.sync()
    directory.close()
