"""Shows progress on standard error: a bar if Rich is installed and on a terminal, else lines.

Standard output is for results.
"""

import sys
import time
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import TaskID


class Progress(Protocol):
    """The interface that the runner reports to."""

    def begin(self, runs: int, expected_seconds: float) -> None: ...

    def run_begins(self, what: str) -> None: ...

    def run_ends(self, what: str, expected_seconds: float) -> None:
        """Report the end of a run, even a skipped one, and its share of the expected time."""
        ...

    def report(self, sentence: str) -> None:
        """Show a sentence that stays visible."""
        ...

    def end(self) -> None: ...


def duration(seconds: float) -> str:
    """A rounded duration: `about 40 s`, `about 13 min`."""
    if seconds < 100:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min"


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class LinesOfProgress:
    """Prints one line at the end of each run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._runs = 0
        self._done = 0
        self._began = 0.0

    def begin(self, runs: int, expected_seconds: float) -> None:
        self._runs = runs

    def run_begins(self, what: str) -> None:
        self._began = time.monotonic()

    def run_ends(self, what: str, expected_seconds: float) -> None:
        self._done += 1
        took = time.monotonic() - self._began
        width = len(str(self._runs))
        self.report(f"[{self._done:{width}}/{self._runs}] {what}: {took:.1f} s")

    def report(self, sentence: str) -> None:
        print(sentence, file=self._stream, flush=True)

    def end(self) -> None:
        """Do nothing: the last line stays."""


class BarOfProgress:
    """A bar that advances by expected time, next to the name of the current run."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress as RichBar, TextColumn, TimeElapsedColumn

        self._bar: RichBar = RichBar(
            TextColumn("{task.percentage:>3.0f} %"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None

    def begin(self, runs: int, expected_seconds: float) -> None:
        self._task = self._bar.add_task("", total=max(expected_seconds, 0.001))
        self._bar.start()

    def run_begins(self, what: str) -> None:
        if self._task is not None:
            self._bar.update(self._task, description=what)

    def run_ends(self, what: str, expected_seconds: float) -> None:
        if self._task is not None:
            self._bar.advance(self._task, expected_seconds)

    def report(self, sentence: str) -> None:
        self._bar.console.print(sentence, markup=False, highlight=False)

    def end(self) -> None:
        self._bar.stop()


def progress_for(stream: TextIO | None = None) -> Progress:
    """Progress on a stream, by default standard error; a bar if possible."""
    place = sys.stderr if stream is None else stream
    if place.isatty():
        try:
            return BarOfProgress()
        except ModuleNotFoundError:
            # Rich is in the extra `bench`; without it, print lines.
            return LinesOfProgress(place)
    return LinesOfProgress(place)
