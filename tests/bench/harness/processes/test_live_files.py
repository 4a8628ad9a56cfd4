"""A broker's directory is looked at while the broker deletes and renames what is in it."""

import os
import shutil
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.live_files import live_paths, size_of
from tierlog.bench.page_cache import drop_page_cache, fill_page_cache

DELETED = "deleted-0"
KEPT = "kept-0/0.log"


@pytest.fixture
def deleting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory from which a listed folder disappears before it is read."""
    for folder in (DELETED, "kept-0"):
        (tmp_path / "logs" / folder).mkdir(parents=True)
        (tmp_path / "logs" / folder / "0.log").write_bytes(bytes(100))
    scandir = os.scandir

    def read(path: str | os.PathLike[str]) -> object:
        if Path(path).name == DELETED and Path(path).exists():
            monkeypatch.undo()
            shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", read)
    return tmp_path / "logs"


@pytest.mark.parametrize("pattern", ["**/*.log", "*-0/*.log"])
def test_a_folder_that_disappears_is_left_out(deleting: Path, pattern: str) -> None:
    assert list(live_paths(deleting, pattern)) == [deleting / KEPT]


def test_a_folder_that_disappears_is_dropped_from_no_cache(deleting: Path) -> None:
    drop_page_cache(deleting)
    assert not (deleting / DELETED).exists()


def test_a_folder_that_disappears_is_read_into_no_cache(deleting: Path) -> None:
    assert fill_page_cache(deleting.parent, "deleted") == 0


def test_a_file_that_disappears_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(bytes(100))
    paths = live_paths(tmp_path, "*")
    assert size_of([tmp_path / "gone.log", *paths]) == 100


def test_hidden_files_and_folders_are_found_as_by_a_path(tmp_path: Path) -> None:
    for name in (".owner", "a/.lock", "a/b/0.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for pattern in ("**/*", "*", "*/*", "a/**/*.log"):
        assert sorted(live_paths(tmp_path, pattern)) == sorted(tmp_path.glob(pattern))
    assert not list(live_paths(tmp_path / "missing", "**/*"))
