"""Small libraries in C that stand in front of libc in a node's process (`LD_PRELOAD`).

A shim is compiled once for each run, in the folder above the nodes' directories. A file that the
process maps holds its orders; each node has its own.
"""

import fcntl
import mmap
import shutil
import subprocess
from pathlib import Path

from ..processes.cluster import ClusterNode

CONTROL_BYTES = 4096
"""The size of a control file, of which a shim uses the beginning."""

_COMPILE_S = 60
_PRELOAD = "LD_PRELOAD"
_HEADER = Path("/usr/include/stdio.h")


class ShimError(Exception):
    """The shim cannot be compiled; the message says why."""


def missing_compiler() -> str | None:
    """What this machine lacks to compile a shim, as a sentence; None if nothing."""
    if shutil.which("cc") is None:
        return "There is no C compiler: install it with `apt-get install gcc libc6-dev`."
    if not _HEADER.exists():
        return "The headers of libc are missing: install them with `apt-get install libc6-dev`."
    return None


def compiled(source: Path, folder: Path) -> Path:
    """The library of this source, compiled in this folder unless it is there. Raises ShimError."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / source.with_suffix(".so").name
    with library.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if library.exists():
            return library
        unfinished = library.with_suffix(".new")
        flags = ("-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror")
        answer = subprocess.run(
            ["cc", *flags, "-o", str(unfinished), str(source), "-ldl"],
            capture_output=True,
            text=True,
            timeout=_COMPILE_S,
            check=False,
        )
        if answer.returncode != 0:
            raise ShimError(f"cc could not compile {source.name}: {answer.stderr.strip()}")
        unfinished.rename(library)
    return library


def load_shim(node: ClusterNode, source: Path, variable: str, control: Path) -> None:
    """Let a node's next start load a shim with this control file. Raises ShimError."""
    library = str(compiled(source, node.directory.parent))
    before = node.extra_environment.get(_PRELOAD, "").split(":")
    libraries = [each for each in before if each not in ("", library)]
    node.extra_environment[_PRELOAD] = ":".join([*libraries, library])
    node.extra_environment[variable] = str(control)


def create_control(path: Path, content: bytes) -> None:
    """Write a control file, unless there is one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.ljust(CONTROL_BYTES, b"\0"))


def mapped(path: Path) -> mmap.mmap:
    """The control file: what is written there is seen by the process at once."""
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), CONTROL_BYTES)
