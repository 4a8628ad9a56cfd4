"""Runs `tierlog` as its user does, on a system that has nothing of what Linux alone has."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tierlog.tests.house_rules import ROOT

HIDING = Path(__file__).resolve().parent / "without_linux"
PYTHONPATH = os.pathsep.join((str(HIDING), str(ROOT / ".namespace")))
WITHIN_S = 120.0


def environment() -> Mapping[str, str]:
    """What a process needs to be without Linux, and all that it starts."""
    return {**os.environ, "PYTHONPATH": PYTHONPATH, "PYTHONUNBUFFERED": "1"}


def python(*words: str, within_s: float = WITHIN_S) -> "subprocess.CompletedProcess[str]":
    """Run Python to its end, with stdout and stderr as one text."""
    return subprocess.run(
        [sys.executable, *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
        check=False,
    )


def tierlog(*words: str, stdin: str = "") -> str:
    """Run a command of `tierlog` to its end; returns what it prints, AssertionError if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tierlog.cli", *words],
        env=environment(),
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
