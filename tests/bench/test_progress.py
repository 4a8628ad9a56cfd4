"""Whoever waits is told what goes on, and how long it takes."""

import io
import sys
from pathlib import Path

import pytest

from tierlog.bench.figures import Figure
from tierlog.bench.machine import commit, file_system_of, machine_facts
from tierlog.bench.progress import BarOfProgress, LinesOfProgress, count, duration, progress_for
from tierlog.bench.summary import number, summary


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_each_run_is_a_line() -> None:
    stream = io.StringIO()
    progress = progress_for(stream)
    assert isinstance(progress, LinesOfProgress)
    progress.begin(12, 60)
    progress.run_begins("startup, kafka, run 1")
    progress.run_ends("startup, kafka, run 1", 5)
    progress.report("FAILED something")
    progress.end()
    first, second = stream.getvalue().splitlines()
    assert first.startswith("[ 1/12] startup, kafka, run 1: ")
    assert second == "FAILED something"


def test_a_terminal_gets_a_bar_and_sentences_stand_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = progress_for(Terminal())
    assert isinstance(progress, BarOfProgress)
    progress.run_begins("not begun yet")
    progress.begin(2, 60)
    progress.run_begins("[1] startup")
    progress.report("FAILED [bold]this[/bold]")
    progress.run_ends("[1] startup", 30)
    progress.end()
    assert "FAILED [bold]this[/bold]" in capsys.readouterr().err


def test_where_rich_is_missing_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert isinstance(progress_for(Terminal()), LinesOfProgress)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "about 1 s"), (40, "about 40 s"), (130, "about 2 min"), (5400, "about 90 min")],
)
def test_times_are_printed_in_readable_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_one_is_not_many() -> None:
    assert [count(1, "run"), count(2, "run"), count(0, "run")] == ["1 run", "2 runs", "0 runs"]


def test_the_summary_sets_targets_side_by_side() -> None:
    def figures(target: str, values: list[float]) -> list[Figure]:
        return [
            Figure("startup", "empty", target, False, "start_s", value, run)
            for run, value in enumerate(values, 1)
        ]

    text = summary(
        [
            *figures("tierlog", [0.2, 0.3, 9.0]),
            *figures("kafka", [3.0, 2.0, 4.0]),
            Figure("startup", "empty", "tierlog", True, "start_s", 1, 1),
        ]
    )
    assert [line.split() for line in text.splitlines()] == [
        ["startup", "metric", "tierlog", "kafka", "tierlog", "÷", "kafka"],
        ["empty", "start_s", "0.3", "3", "0.1"],
        ["empty,", "tiered", "start_s", "1", "–", "–"],
    ]


def test_a_long_summary_keeps_to_what_decides() -> None:
    rare = [Figure("s", "c", "t", False, f"odd_{n}_count", n, 1) for n in range(30)]
    text = summary([*rare, Figure("s", "c", "t", False, "mb_per_s", 250, 1)])
    assert len(text.splitlines()) == 2
    assert "mb_per_s" in text


def test_numbers_have_three_digits_that_count() -> None:
    texts = [number(value) for value in (0, 0.01234, 1.234, 12.34, 1234567, -250)]
    assert texts == ["0", "0.0123", "1.23", "12.3", "1,234,567", "-250"]


def test_the_machine_says_what_it_is(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path)
    assert facts["cpu"]
    assert facts["cores"]
    assert facts["scratch_filesystem"] != "unknown"
    found = commit()
    assert found is None or len(found.removesuffix("-dirty")) == 12


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    mounts = "a / ext4 rw 0 0\nb /tmp tmpfs rw 0 0\nc /tmpfoo xfs rw 0 0\n"
    assert file_system_of(Path("/tmp/x"), mounts) == "tmpfs"
    assert file_system_of(Path("/home/x"), mounts) == "ext4"
    assert file_system_of(Path("/home/x"), "") == "unknown"
