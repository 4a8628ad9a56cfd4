"""The facts about the machine, the software versions and the commit that figures belong to.

A figure is meaningless without its machine. Facts that cannot be determined are left out.
"""

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = Path(__file__).resolve().parent.parent
_CLIENTS = ("confluent-kafka", "hdrhistogram")


def machine_facts(scratch: Path) -> dict[str, object]:
    """The processor, usable cores, memory, kernel, and the brokers' file system."""
    load = os.getloadavg()[0]
    return {
        "cpu": _first_of(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes("MemTotal") / (1 << 30), 1),
        "kernel": platform.release(),
        "system": _first_of(Path("/etc/os-release"), r'PRETTY_NAME="?([^"\n]+)') or "Linux",
        "scratch_filesystem": file_system(scratch),
        "load_average_before": round(load, 2),
    }


def versions() -> dict[str, str]:
    """The versions of Python and of the harness's installed clients."""
    version_of = {"python": platform.python_version()}
    for name in _CLIENTS:
        try:
            version_of[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            # Left out; code that needs it reports how to install it.
            continue
    if "confluent-kafka" in version_of:
        from confluent_kafka import libversion

        version_of["librdkafka"] = libversion()[0]
    return version_of


def commit() -> str | None:
    """The commit of a clone, with `-dirty` if it has changes; None if this is not a clone."""
    if not (_PACKAGE / ".git").exists():
        return None
    named = _git("rev-parse", "--short=12", "HEAD")
    if named is None:
        return None
    return named + ("-dirty" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(_PACKAGE), *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _first_of(path: Path, pattern: str) -> str | None:
    try:
        match = re.search(pattern, path.read_text("utf-8", "replace"))
    except OSError:
        return None
    return match[1].strip() if match else None


def memory_bytes(kind: str) -> int:
    """The value of this name in /proc/meminfo, in bytes; 0 if there is none."""
    return int(_first_of(Path("/proc/meminfo"), rf"{kind}:\s*(\d+)") or 0) * 1024


def file_system(path: Path) -> str:
    """The type of the file system of a path."""
    return file_system_of(path, Path("/proc/self/mounts").read_text())


def file_system_of(path: Path, mounts: str) -> str:
    """The type of the file system of a path, from the lines of /proc/self/mounts."""
    resolved = path.resolve()
    kinds: Mapping[int, str] = {
        len(Path(fields[1]).parts): fields[2]
        for fields in (line.split() for line in mounts.splitlines())
        if resolved.is_relative_to(fields[1])
    }
    return kinds[max(kinds)] if kinds else "unknown"
