"""Which toolchains beside Python this machine has.

A test that needs one says so with `@pytest.mark.requires("java", "mvn")`. That mark is the only way
to skip in this tree, and whatever it skipped is named in the last lines of the run.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tierlog.bench.harness.processes.system_calls import why_not_countable
from tierlog.tests.pythons.interpreters import VERSIONS, find


@dataclass(frozen=True, slots=True)
class Toolchain:
    """One toolchain: how it is called, how people call it, and what counts as having it."""

    command: str
    title: str
    is_usable: Callable[[], bool]


def _on_path(command: str) -> Callable[[], bool]:
    return lambda: shutil.which(command) is not None


def _as_root(command: str) -> Callable[[], bool]:
    return lambda: os.geteuid() == 0 and shutil.which(command) is not None


def _starts(python: str) -> Callable[[], bool]:
    return lambda: find(python) is not None


def java_major_version(version_output: str) -> int:
    """The major version in what `java -version` prints; 0 where there is none to be found."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', version_output)
    if match is None:
        return 0
    # Up to Java 8 the major version was the second number: "1.8.0_392".
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


@cache
def _java_is_17_or_newer() -> bool:
    # Apache Kafka 4's broker and tools need Java 17.
    if shutil.which("java") is None:
        return False
    answer = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    return java_major_version(answer.stderr + answer.stdout) >= 17


@cache
def _perf_counts() -> bool:
    return why_not_countable() is None


TOOLCHAINS = {
    toolchain.command: toolchain
    for toolchain in (
        Toolchain("java", "Java 17+", _java_is_17_or_newer),
        Toolchain("mvn", "Maven", _on_path("mvn")),
        Toolchain("cc", "C compiler", _on_path("cc")),
        Toolchain("go", "Go", _on_path("go")),
        Toolchain("node", "Node", _on_path("node")),
        Toolchain("chromium", "Chromium", _on_path("chromium")),
        Toolchain("sshd", "OpenSSH server", _on_path("sshd")),
        Toolchain("zsh", "zsh", _on_path("zsh")),
        Toolchain("fish", "fish", _on_path("fish")),
        Toolchain("strace", "strace", _on_path("strace")),
        Toolchain("perf", "perf with trace points", _perf_counts),
        Toolchain("wget", "wget", _on_path("wget")),
        Toolchain("systemd-analyze", "systemd-analyze", _on_path("systemd-analyze")),
        Toolchain("buildah", "buildah as root", _as_root("buildah")),
        Toolchain("runc", "runc as root", _as_root("runc")),
        Toolchain("mmdebstrap", "mmdebstrap as root", _as_root("mmdebstrap")),
        *(Toolchain(f"python{each}", f"Python {each}", _starts(each)) for each in VERSIONS),
    )
}


def missing(commands: tuple[str, ...]) -> list[Toolchain]:
    """Those of the named toolchains that this machine lacks; an unknown name is a KeyError."""
    return [TOOLCHAINS[name] for name in commands if not TOOLCHAINS[name].is_usable()]


def report(not_run: dict[str, int]) -> list[str]:
    """The closing lines: which toolchains are missing, and how many tests waited for each.

    `not_run` counts skipped tests by the title of the toolchain that they lacked.
    """
    absent = missing(tuple(TOOLCHAINS))
    present = [chain.title for chain in TOOLCHAINS.values() if chain not in absent]
    lines = [f"toolchains found: {', '.join(present) or 'none'}"]
    for chain in absent:
        count = not_run.get(chain.title, 0)
        what = f"{count} test(s) did not run" if count else "no test of this run needs it"
        lines.append(f"toolchain missing: {chain.title}: {what}")
    return lines
