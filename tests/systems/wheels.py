"""Asks the package index whether all that an install needs has a wheel for a system and a Python.

`python -m tierlog.tests.systems.wheels` prints the table, for each extra as well.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tierlog.tests.house_rules import ROOT
from tierlog.tests.pythons.environments import UV

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {
    "Linux, glibc, x86-64": "x86_64-manylinux_2_28",
    "Linux, glibc, ARM": "aarch64-manylinux_2_28",
    "Linux, musl, x86-64": "x86_64-unknown-linux-musl",
    "Linux, musl, ARM": "aarch64-unknown-linux-musl",
    "macOS, ARM": "aarch64-apple-darwin",
    "macOS, x86-64": "x86_64-apple-darwin",
}
"""By the name that our pages have: uv's name."""

_WITHIN_S = 120


class Answer(NamedTuple):
    """Whether all wheels are there; and the packages with their versions, or what is missing."""

    is_complete: bool
    text: str

    @property
    def packages(self) -> list[str]:
        return [line for line in self.text.splitlines() if "==" in line]


def ask(requirements: Iterable[str], system: str, python: str) -> Answer:
    """Resolve the requirements by wheels alone; `system` is uv's name."""
    options = ("--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:")
    target = ("--python-platform", system, "--python-version", python)
    answer = subprocess.run(
        [UV, "pip", "compile", "-", *options, *target],
        input="\n".join(requirements),
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
        cwd="/",
    )
    return Answer(answer.returncode == 0, answer.stdout or answer.stderr)


def requirements_of(extra: str = "") -> list[str]:
    """What the plain install needs, and one of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plain: list[str] = project["dependencies"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return [*plain, *(extras[extra] if extra else ())]


def rows(extras: Iterable[str]) -> Iterator[str]:
    """A row for each install and system: how many packages there are for each Python, or none."""
    yield "| install | system | " + " | ".join(PYTHONS) + " |"
    yield "|---|---|" + "---|" * len(PYTHONS)
    for extra in extras:
        for name, system in SYSTEMS.items():
            answers = [ask(requirements_of(extra), system, python) for python in PYTHONS]
            cells = [f"{len(each.packages)}" if each.is_complete else "–" for each in answers]
            install = f"`tierlog[{extra}]`" if extra else "`tierlog`"
            yield f"| {install} | {name} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    for row in rows(sys.argv[1:] or [""]):
        print(row, flush=True)
