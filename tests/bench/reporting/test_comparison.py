"""`compare A B` marks what has moved beyond the spread of runs, and nothing else."""

from pathlib import Path

import pytest

from tierlog.bench.figures import ResultsError, RunKey
from tierlog.bench.reporting.comparison import compare
from tierlog.bench.reporting.markdown import escaped

from .handmade_results import MACHINE, Folder


@pytest.fixture
def old(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "new")


def rows_of(old: Folder, new: Folder) -> dict[str, list[str]]:
    """The cells behind the name of a case, by case."""
    lines = [line for line in compare(old.path, new.path).splitlines() if line.startswith("| load")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[1]: row[2:] for row in cells}


def test_a_figure_whose_runs_lie_apart_has_moved(old: Folder, new: Folder) -> None:
    old.runs("load", "faster", "tierlog", mb_per_s=[100, 101, 102])
    new.runs("load", "faster", "tierlog", mb_per_s=[103, 110, 120])
    old.runs("load", "overlaps", "tierlog", mb_per_s=[100, 101, 109])
    new.runs("load", "overlaps", "tierlog", mb_per_s=[108, 110, 120])
    rows = rows_of(old, new)
    assert rows["faster"] == [
        *("tierlog", "throughput, MB/s", "101 (100 to 102)", "110 (103 to 120)", "1.09", "BETTER")
    ]
    assert rows["overlaps"][-2:] == ["1.09", ""]


def test_more_is_worse_where_less_is_better_and_neither_where_nobody_knows(
    old: Folder, new: Folder
) -> None:
    old.runs("load", "cpu", "tierlog", broker_cpu_s_per_gb=[1, 1.1])
    new.runs("load", "cpu", "tierlog", broker_cpu_s_per_gb=[2, 2.1])
    old.runs("load", "disk", "tierlog", disk_written_mb=[1, 1.1])
    new.runs("load", "disk", "tierlog", disk_written_mb=[2, 2.1])
    rows = rows_of(old, new)
    assert rows["cpu"][-1] == "WORSE"
    assert rows["disk"][-1] == "moved"


def test_one_run_says_nothing_about_spread(old: Folder, new: Folder) -> None:
    old.runs("load", "a", "tierlog", mb_per_s=[100])
    new.runs("load", "a", "tierlog", mb_per_s=[500, 501])
    assert rows_of(old, new)["a"][-1] == "one run"
    assert "changes cannot be judged" in compare(old.path, new.path)


def test_how_many_would_move_by_chance_is_said(old: Folder, new: Folder) -> None:
    """Of two times three runs, the three lowest are all of one side once in ten."""
    for number in range(20):
        old.runs("load", f"{number}", "tierlog", mb_per_s=[100, 101, 102])
        new.runs("load", f"{number}", "tierlog", mb_per_s=[100, 101, 102])
    assert (
        "0 of 20 figures lie apart (0 better, 0 worse). With so few runs about 2 would by chance "
        "alone." in compare(old.path, new.path)
    )


def test_failed_runs_do_not_count_and_are_reported(old: Folder, new: Folder) -> None:
    old.runs("load", "a", "tierlog", mb_per_s=[100, 102])
    new.runs("load", "a", "tierlog", mb_per_s=[100, 900, 104])
    new.failure(RunKey("load", "a", "tierlog", False, 2), "The client died.")
    assert rows_of(old, new)["a"][-3:] == ["102 (100 to 104)", "1.01", ""]
    assert f"1 run of {escaped(str(new.path))} failed" in compare(old.path, new.path)


def test_what_only_one_has_and_other_machines_are_reported(tmp_path: Path, old: Folder) -> None:
    other = {**MACHINE, "machine": {"cpu": "Another", "cores": 64}}
    new = Folder(tmp_path / "new", other)
    old.runs("load", "both", "tierlog", mb_per_s=[1, 2])
    new.runs("load", "both", "tierlog", mb_per_s=[1, 2])
    old.runs("load", "gone", "tierlog", mb_per_s=[1, 2])
    text = compare(old.path, new.path)
    assert "- machine: cores: 2 → 64\n" in text
    assert "versions" not in text
    assert "Figures that only the old one has:\n\n- load, gone, tierlog" in text


def test_a_folder_that_is_none_is_one_sentence(old: Folder, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"^.*nothing is not a folder.*\.$"):
        compare(old.path, tmp_path / "nothing")
