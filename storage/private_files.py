"""Files that only their owner can read: keys and passwords. A part of the door to the disk.

The mode is that of the file from its first moment: nobody can open it before it is set.
"""

import os

_OWN_FILE = 0o600
_OWN_DIRECTORY = 0o700


def make_private_directory(path: str) -> None:
    """Make a directory that only its owner can enter. Raises OSError, also if it is there."""
    os.mkdir(path, _OWN_DIRECTORY)


def write_private(path: str, content: bytes) -> None:
    """Write a new file that only its owner can read, durably. Raises OSError, also if it is there.

    What is at the path already is never overwritten, and a link is not followed.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, _OWN_FILE)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
