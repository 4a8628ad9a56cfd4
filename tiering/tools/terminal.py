"""The tools' output: lines for people, JSON for machines, and progress.

Results go to standard output and everything else to standard error, so that either can be piped.
Progress is a bar with Rich (`pip install tierlog[cli]`), an occasional line without it, and nothing
if standard error is not a terminal or the output is JSON.
"""

import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol, cast

from .tier_survey import Finding, Progress

SOUND = 0
TROUBLE = 1
CANNOT_RUN = 2


class _RichProgress(Protocol):
    def add_task(self, description: str, *, total: int | None) -> int: ...

    def update(self, task: int, *, completed: int, total: int) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class OutputError(Exception):
    """The output cannot be written, as its disk is full; the tier and the broker's disk can."""


class Output:
    """The output of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def line(self, text: str) -> None:
        """Print a line of the result, for people; machines get `result` instead."""
        if not self._as_json:
            _print(text)

    def finding(self, finding: Finding) -> None:
        """Print a finding, for people."""
        self.line(f"{'' if finding.is_trouble else 'note: '}{finding}")

    def result(self, content: Mapping[str, object]) -> None:
        """Print the whole result, for machines."""
        if self._as_json:
            _print(json.dumps(content, indent=2))

    def json_line(self, content: Mapping[str, object]) -> None:
        """Print a part of the result, for machines: one JSON object per line."""
        if self._as_json:
            _print(json.dumps(content))

    @contextmanager
    def progress(self, what: str) -> Generator[Progress]:
        """Show the progress of a task while the context lasts."""
        if self._as_json or not sys.stderr.isatty():
            yield _silent
            return
        bar = _rich_bar()
        if bar is None:
            yield _line_now_and_then(what)
            return
        task = bar.add_task(what, total=None)
        bar.start()
        try:
            yield lambda done, total: bar.update(task, completed=done, total=total)
        finally:
            bar.stop()


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"The output cannot be written: {error.strerror}."
        raise OutputError(message) from error


def cannot_run(message: str) -> int:
    """Print in one line why nothing was done; returns the exit code."""
    print(f"tierlog: {message}", file=sys.stderr, flush=True)
    return CANNOT_RUN


def finding_fields(finding: Finding) -> dict[str, object]:
    """A finding as JSON fields."""
    return {
        "key": finding.key,
        "problem": finding.problem,
        "advice": finding.advice,
        "trouble": finding.is_trouble,
        "offsets": list(finding.offsets),
    }


def human_bytes(nbytes: int) -> str:
    """A human-readable size, such as 1.5 GiB."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{nbytes} B" if unit == "B" else f"{size:.1f} {unit}"


def _silent(_done: int, _total: int) -> None:
    """A `Progress` that does nothing."""


def _rich_bar() -> _RichProgress | None:
    try:
        progress = import_module("rich.progress")
        console = import_module("rich.console").Console(stderr=True)
    except ImportError:
        return None
    return cast("_RichProgress", progress.Progress(console=console, transient=True))


def _line_now_and_then(what: str) -> Progress:
    shown = 0

    def show(done: int, total: int) -> None:
        nonlocal shown
        tenth = done * 10 // max(total, 1)
        if tenth > shown:
            shown = tenth
            print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)

    return show
