"""The Pythons that tierlog supports, and where this machine has them.

A Python is looked for on the PATH, among those of pyenv and uv, and, for the newest one, in a root
of Debian's unstable suite (`debian_root.py`). One that is named on the PATH but does not start, as
a shim of pyenv for a version that is switched off, counts as missing.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which

from tierlog.tests.house_rules import ROOT
from tierlog.tests.pythons import debian_root

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""Those of the classifiers in pyproject.toml."""

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
_START_WITHIN_S = 60


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python of this machine, and how commands are run where it lives."""

    version: str
    path: str
    is_in_debian_root: bool = False

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line that runs these words in the checkout, where this Python lives."""
        return debian_root.command(words) if self.is_in_debian_root else list(words)

    def run(
        self, words: Sequence[str], timeout_s: float, said: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the checkout, with this on its standard input; keep what it prints."""
        return subprocess.run(
            self.command(words),
            cwd=ROOT,
            input=said,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    @property
    def says(self) -> str:
        """The version that it says of itself; an empty text where it does not start."""
        program = "import sys; print('%d.%d' % sys.version_info[:2])"
        try:
            answer = self.run([self.path, "-c", program], _START_WITHIN_S)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return answer.stdout.strip() if answer.returncode == 0 else ""


@cache
def find(version: str) -> Interpreter | None:
    """The first Python of this version that starts; None where the machine has none."""
    candidates = [Interpreter(version, path) for path in _paths(version)]
    if debian_root.is_there():
        candidates.append(Interpreter(version, debian_root.PYTHON, is_in_debian_root=True))
    return next((python for python in candidates if python.says == version), None)


def _paths(version: str) -> Iterator[str]:
    name = f"python{version}"
    if version == OWN:
        yield sys.executable
    if (on_path := which(name)) is not None:
        yield on_path
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv"))
    for folder in (pyenv / "versions", home / ".local" / "share" / "uv" / "python"):
        yield from (str(path) for path in sorted(folder.glob(f"*/bin/{name}")))
