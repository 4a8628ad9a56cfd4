"""What the tools say, and how: lines for people, JSON for machines, progress for who watches.

Answers go to standard output and everything else to standard error, so that either can be piped.
Progress is a bar with Rich (`pip install tierlog[cli]`), a line now and then without it, and
nothing at all where standard error is not a terminal or JSON was asked for.
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


class Output:
    """Says things on behalf of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def line(self, text: str) -> None:
        """A line of the answer, for people; machines get `result` instead."""
        if not self._as_json:
            print(text, flush=True)

    def finding(self, finding: Finding) -> None:
        """Something that is not as it should be."""
        self.line(f"{'' if finding.is_trouble else 'note: '}{finding}")

    def result(self, content: Mapping[str, object]) -> None:
        """The whole answer, for machines."""
        if self._as_json:
            print(json.dumps(content, indent=2), flush=True)

    def json_line(self, content: Mapping[str, object]) -> None:
        """A part of the answer, for machines: one object a line, as many as there are."""
        if self._as_json:
            print(json.dumps(content), flush=True)

    @contextmanager
    def progress(self, what: str) -> Generator[Progress]:
        """Show how far something has come while the context lasts."""
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


def cannot_run(sentence: str) -> int:
    """Say in one line why nothing was done; the exit code for it."""
    print(f"tierlog: {sentence}", file=sys.stderr, flush=True)
    return CANNOT_RUN


def finding_fields(finding: Finding) -> dict[str, object]:
    """A finding for machines."""
    return {
        "key": finding.key,
        "problem": finding.problem,
        "advice": finding.advice,
        "trouble": finding.is_trouble,
        "offsets": list(finding.offsets),
    }


def human_bytes(nbytes: int) -> str:
    """A size as people read it: 1.5 GiB."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{nbytes} B" if unit == "B" else f"{size:.1f} {unit}"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Columns that stand below one another; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines: list[str] = []
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _silent(_done: int, _total: int) -> None:
    """Nobody watches."""


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
