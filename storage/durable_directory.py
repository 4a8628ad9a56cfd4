"""Creates and renames directories so that the change survives a power loss."""

from .files import Files


def make_durably(files: Files, path: str) -> None:
    """Create a directory and its missing parents, and sync the parent of each new directory."""
    if path in ("", ".") or files.is_directory(path):
        return
    parent, slash, _ = path.rpartition("/")
    make_durably(files, parent)
    files.mkdirs(path)
    files.sync_dir(parent or slash or ".")


def rename_durably(files: Files, old: str, new: str) -> None:
    """Rename durably within a directory. Raises OSError.

    If no descriptor is free, nothing has been renamed.
    """
    directory = files.open_dir(new.rpartition("/")[0])
    files.rename(old, new)
    directory.sync()
    directory.close()
