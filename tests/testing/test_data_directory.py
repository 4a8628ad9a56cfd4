"""The data of a test's broker: copied as it is, and gone even if its process was killed."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tierlog.storage.files import OsFiles
from tierlog.testing import data_directory
from tierlog.testing.data_directory import DataDirectory, copy_tree, read_tail, replace_tree
from tierlog.tests.house_rules import ROOT

OLD = (0, 0)


def test_a_copy_has_the_same_bytes_and_holes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "topic-0").mkdir(parents=True)
    (source / "empty").touch()
    with (source / "topic-0" / "index").open("wb") as file:
        file.write(b"entry" * 3000)
        file.seek(5 << 20)
        file.write(b"entry")
        file.truncate(10 << 20)
    copy_tree(str(source), str(tmp_path / "copy"))
    before, after = source / "topic-0" / "index", tmp_path / "copy" / "topic-0" / "index"
    assert after.read_bytes() == before.read_bytes()
    assert after.stat().st_blocks <= before.stat().st_blocks
    assert (tmp_path / "copy" / "empty").stat().st_size == 0


def test_a_tree_takes_the_place_of_another(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    replace_tree(str(tmp_path / "one"), str(tmp_path / "two"))
    assert os.listdir(tmp_path) == ["two"]
    assert os.listdir(tmp_path / "two") == ["one"]


def test_the_end_of_a_log_is_read_and_none_is_empty(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("first\nlast\n")
    assert read_tail(str(tmp_path / "log"), 5) == "last\n"
    assert read_tail(str(tmp_path / "none"), 5) == ""


def test_only_what_nobody_uses_and_is_not_new_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_directory, "MEMORY", str(tmp_path))
    monkeypatch.setattr(data_directory, "MEMORY_FREE_MIN", 0)
    used = DataDirectory(None)
    for name in ("tierlog-test-killed", "tierlog-test-new", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "in-use").touch()
    for path in (Path(used.path), tmp_path / "tierlog-test-killed", tmp_path / "other"):
        os.utime(path, OLD)
    another = DataDirectory(None)
    names = {Path(used.path).name, Path(another.path).name, "tierlog-test-new", "other"}
    assert set(os.listdir(tmp_path)) == names
    used.remove()
    used.remove()
    another.remove()
    assert set(os.listdir(tmp_path)) == {"tierlog-test-new", "other"}


def test_an_empty_directory_of_a_start_that_was_interrupted_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_directory, "MEMORY", str(tmp_path))
    monkeypatch.setattr(data_directory, "MEMORY_FREE_MIN", 0)
    for name in ("tierlog-test-interrupted", "tierlog-test-with-a-file"):
        (tmp_path / name).mkdir()
    (tmp_path / "tierlog-test-with-a-file" / "file").touch()
    for path in tmp_path.iterdir():
        os.utime(path, OLD)
    DataDirectory(None).remove()
    assert os.listdir(tmp_path) == ["tierlog-test-with-a-file"]


def test_a_removal_that_was_interrupted_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_files: OsFiles, _path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data_directory, "MEMORY", str(tmp_path))
    monkeypatch.setattr(data_directory, "MEMORY_FREE_MIN", 0)
    directory = DataDirectory(None)
    with monkeypatch.context() as patch:
        patch.setattr(OsFiles, "remove_tree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            directory.remove()
    directory.remove()
    assert os.listdir(tmp_path) == []


def test_the_disk_serves_where_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_directory, "MEMORY_FREE_MIN", 1 << 60)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    directory = DataDirectory(None)
    assert Path(directory.path).parent == tmp_path
    directory.remove()


@pytest.mark.long
def test_the_interpreters_end_removes_the_data_of_a_broker_that_was_not_closed() -> None:
    program = (
        "from tierlog.testing import Broker\n"
        "broker = Broker()\n"
        "broker.start()\n"
        "print(broker.directory)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".namespace")},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert ran.stdout.strip()
    assert not os.path.exists(ran.stdout.strip())


def test_a_directory_is_copied_while_a_thread_makes_and_removes_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "kept").write_bytes(b"kept")
    is_over = threading.Event()

    def bustle() -> None:
        while not is_over.is_set():
            (tmp_path / "log" / "passing").mkdir()
            (tmp_path / "log" / "passing" / "file").touch()
            shutil.rmtree(tmp_path / "log" / "passing")

    thread = threading.Thread(target=bustle)
    thread.start()
    try:
        for number in range(200):
            copy_tree(str(tmp_path / "log"), str(tmp_path / f"copy-{number}"))
            assert (tmp_path / f"copy-{number}" / "kept").read_bytes() == b"kept"
    finally:
        is_over.set()
        thread.join()
