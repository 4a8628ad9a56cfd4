"""The contract of `Files`, kept by the operating system's files and by the simulated ones alike.

Whatever a story does to one it does to the other, with the same outcome: what is proven on the
simulated disk then says something about the real one.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tierlog.storage.files import Files, OsFiles
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.files import SimulatedFiles

Place = tuple[Files, str]


def _on_the_system(tmp_path: Path) -> Place:
    return OsFiles(), str(tmp_path)


def _simulated(tmp_path: Path) -> Place:
    files = SimulatedFiles(SimulatedDisk())
    files.mkdirs(str(tmp_path))
    return files, str(tmp_path)


@pytest.fixture(params=[_on_the_system, _simulated])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    make: Callable[[Path], Place] = request.param
    return make(tmp_path)


def test_what_is_written_can_be_read_at_once(place: Place) -> None:
    files, root = place
    handle = files.open(f"{root}/a.log", create=True)
    handle.write_at(0, b"hello ")
    handle.write_at(6, memoryview(b"world"))
    assert handle.size() == files.size(f"{root}/a.log") == 11
    assert handle.pread(6, 100) == b"world"
    assert handle.pread(100, 5) == b""
    assert files.read(f"{root}/a.log") == b"hello world"
    handle.close()


def test_a_write_past_the_end_leaves_zeros_between(place: Place) -> None:
    files, root = place
    handle = files.open(f"{root}/a.log", create=True)
    handle.write_at(3, b"x")
    assert handle.pread(0, 10) == b"\0\0\0x"
    handle.close()


def test_truncate_cuts_and_extends(place: Place) -> None:
    files, root = place
    handle = files.open(f"{root}/a.log", create=True)
    handle.write_at(0, b"abcdef")
    handle.truncate(2)
    assert handle.pread(0, 10) == b"ab"
    handle.truncate(4)
    assert handle.pread(0, 10) == b"ab\0\0"
    handle.flush()
    handle.close()


def test_a_region_is_readable_after_close_and_removal(place: Place) -> None:
    files, root = place
    handle = files.open(f"{root}/a.log", create=True)
    handle.write_at(0, b"0123456789")
    region = handle.region(2, 6)
    handle.close()
    assert files.remove(f"{root}/a.log")
    assert region.read() == b"234567"
    assert region.slice(1, 2).read() == b"34"


def test_a_closed_file_refuses_everything(place: Place) -> None:
    files, root = place
    handle = files.open(f"{root}/a.log", create=True)
    handle.close()
    handle.close()
    for refuse in (handle.size, handle.flush, lambda: handle.pread(0, 1)):
        with pytest.raises(OSError, match="closed"):
            refuse()


def test_what_is_not_there_is_not_found(place: Place) -> None:
    files, root = place
    missing = f"{root}/missing"
    assert not files.exists(missing)
    assert not files.is_directory(missing)
    assert not files.remove(missing)
    files.remove_tree(missing)
    refusals: list[Callable[[], object]] = [
        lambda: files.open(missing),
        lambda: files.size(missing),
        lambda: files.modified_ms(missing),
        lambda: files.read(missing),
        lambda: files.listdir(missing),
        lambda: files.rename(missing, f"{root}/other"),
        lambda: files.sync_dir(missing),
        lambda: files.open(f"{missing}/deep", create=True),
    ]
    for refuse in refusals:
        with pytest.raises(FileNotFoundError):
            refuse()


def test_directories_are_made_listed_and_removed_with_all_they_hold(place: Place) -> None:
    files, root = place
    files.mkdirs(f"{root}/b/c")
    files.mkdirs(f"{root}/b/c")
    files.open(f"{root}/b/z", create=True).close()
    files.open(f"{root}/b/c/y", create=True).close()
    assert files.listdir(f"{root}/b") == ["c", "z"]
    assert files.is_directory(f"{root}/b/c")
    assert not files.is_directory(f"{root}/b/z")
    files.sync_dir(f"{root}/b")
    files.remove_tree(f"{root}/b")
    assert files.listdir(root) == []


def test_rename_replaces_a_file_and_moves_a_directory(place: Place) -> None:
    files, root = place
    files.atomic_replace(f"{root}/old", b"old")
    files.atomic_replace(f"{root}/new", b"new")
    files.rename(f"{root}/new", f"{root}/old")
    assert files.read(f"{root}/old") == b"new"
    files.mkdirs(f"{root}/t-0")
    files.atomic_replace(f"{root}/t-0/x", b"kept")
    files.rename(f"{root}/t-0", f"{root}/t-0.gone")
    assert files.listdir(root) == ["old", "t-0.gone"]
    assert files.read(f"{root}/t-0.gone/x") == b"kept"


def test_atomic_replace_leaves_only_the_new_content(place: Place) -> None:
    files, root = place
    files.atomic_replace(f"{root}/checkpoint", b"first and longer")
    files.atomic_replace(f"{root}/checkpoint", b"second")
    assert files.read(f"{root}/checkpoint") == b"second"
    assert files.listdir(root) == ["checkpoint"]


def test_a_mapped_file_is_zeros_up_to_its_capacity_and_keeps_what_is_stored(place: Place) -> None:
    files, root = place
    mapped = files.map(f"{root}/a.index", 64)
    assert mapped.capacity == len(mapped.buffer) == 64
    mapped.write_at(8, b"entry")
    assert bytes(mapped.buffer[0:16]) == bytes(8) + b"entry" + bytes(3)
    mapped.resize(13)
    assert (mapped.capacity, files.size(f"{root}/a.index")) == (13, 13)
    mapped.flush()
    mapped.close()
    again = files.map(f"{root}/a.index", 8)
    assert again.capacity == 13
    assert bytes(again.buffer[8:13]) == b"entry"
    again.close()


def test_a_mapped_file_of_no_bytes_reads_as_nothing(place: Place) -> None:
    files, root = place
    mapped = files.map(f"{root}/a.index", 0)
    assert bytes(mapped.buffer) == b""
    mapped.close()


def test_a_directory_has_one_owner_at_a_time(place: Place) -> None:
    files, root = place
    lock = files.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{root}/.lock")
    lock.release()
    files.lock(f"{root}/.lock").release()


def test_the_volume_has_a_size_and_room(place: Place) -> None:
    files, root = place
    assert 0 < files.usable_bytes(root) <= files.total_bytes(root)
