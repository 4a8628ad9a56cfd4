"""Many files, few descriptors: what is idle gives its own up, and no write is forgotten."""

import errno
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.storage.directory.log_dir import LogDir, ResourcesExhaustedError
from tierlog.storage.files import FileHandle, OsFiles
from tierlog.tests.storage.log_home import NOW_MS, LogHome, append, everything, plain


def open_below(path: Path) -> int:
    """How many descriptors of this process are of files in the directory."""
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(os.readlink(link).startswith(f"{path}/") for link in links if os.path.exists(link))


@contextmanager
def no_descriptor_left() -> Generator[None]:
    """Until the end no file can be opened unless another is closed."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    filler = [os.open("/dev/null", os.O_RDONLY) for _ in range(used)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(filler) + 1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each in filler:
            os.close(each)


def written(files: OsFiles, path: Path, count: int) -> list[FileHandle]:
    handles = [files.open(str(path / str(number)), create=True) for number in range(count)]
    for number, handle in enumerate(handles):
        handle.write_at(0, b"%d" % number)
    return handles


def test_a_hundred_files_are_read_and_written_through_five_descriptors(tmp_path: Path) -> None:
    files = OsFiles(max_open=5)
    handles = written(files, tmp_path, 100)
    assert open_below(tmp_path) <= 5
    for number, handle in enumerate(handles):
        assert handle.pread(0, 9) == b"%d" % number
        handle.flush()
    assert open_below(tmp_path) <= 5


def test_an_idle_file_goes_before_one_with_unsynced_bytes(tmp_path: Path) -> None:
    files = OsFiles(max_open=3)
    first = files.open(str(tmp_path / "first"), create=True)
    first.write_at(0, b"unsynced")
    for number in range(9):
        files.open(str(tmp_path / str(number)), create=True).size()
    assert os.stat(tmp_path / "first").st_ino in {
        os.stat(f"/proc/self/fd/{name}").st_ino
        for name in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{name}")
    }


def test_a_renamed_file_is_found_again_and_a_closed_one_stays_closed(tmp_path: Path) -> None:
    files = OsFiles(max_open=1)
    handle = files.open(str(tmp_path / "old"), create=True)
    handle.write_at(0, b"content")
    region = handle.region(0, 7)
    files.rename(str(tmp_path / "old"), str(tmp_path / "new"))
    handle.renamed(str(tmp_path / "new"))
    other = files.open(str(tmp_path / "other"), create=True)
    other.size()
    assert handle.pread(0, 9) == region.read() == b"content"
    handle.close()
    with pytest.raises(OSError, match="was closed"):
        handle.pread(0, 9)


def test_what_needs_a_descriptor_gets_one_from_an_idle_file(tmp_path: Path) -> None:
    files = OsFiles(max_open=50)
    handles = written(files, tmp_path, 20)
    path = str(tmp_path / "last")
    with no_descriptor_left():
        files.sync_dir(str(tmp_path))
        files.atomic_replace(path, b"all at once")
        files.map(str(tmp_path / "mapped"), 4096).close()
        assert len(files.listdir(str(tmp_path))) == 22
        assert files.read(path) == b"all at once"
        assert [handle.pread(0, 9) for handle in handles] == [b"%d" % n for n in range(20)]


def test_running_out_of_descriptors_is_no_failure_of_the_disk(tmp_path: Path) -> None:
    log_dir = LogDir(OsFiles(), str(tmp_path))
    for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        failure = log_dir.fail(OSError(number, os.strerror(number)))
        assert isinstance(failure, ResourcesExhaustedError)
        assert failure.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert log_dir.is_online
    log_dir.fail(OSError(errno.EIO, "Input/output error"))
    assert not log_dir.is_online


def test_a_log_of_many_segments_lives_through_two_descriptors(tmp_path: Path) -> None:
    home = LogHome(tmp_path, files=OsFiles(max_open=2))
    log = home.open()
    for _ in range(30):
        append(log, plain(2, size=200))
        log.roll(NOW_MS)
    assert open_below(home.path) <= 2
    before = everything(log)
    assert len(before) == 30 * len(plain(2, size=200))
    log.local.delete_segments(list(log.local.segments)[:3], NOW_MS)
    log.flush()
    log.close(NOW_MS)
    log.release()
    assert everything(home.open(clean=False)) == before[3 * len(plain(2, size=200)) :]
    assert home.log_dir.is_online


def test_a_tree_goes_with_its_folders_and_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").write_bytes(b"kept")
    doomed = tmp_path / "doomed"
    (doomed / "folder" / "deeper").mkdir(parents=True)
    (doomed / "folder" / "file").write_bytes(b"x")
    (doomed / "link").symlink_to(other)
    OsFiles().remove_tree(str(doomed))
    assert not doomed.exists()
    assert (other / "kept").read_bytes() == b"kept"
    OsFiles().remove_tree(str(doomed))


def test_of_a_link_to_a_directory_the_link_goes_and_its_files(tmp_path: Path) -> None:
    """An operator has moved it to another disk: its data goes, the directory stays there."""
    moved = tmp_path / "other disk"
    (moved / "folder").mkdir(parents=True)
    (moved / "log").write_bytes(b"records")
    link = tmp_path / "t-0.0123-delete"
    link.symlink_to(moved)
    OsFiles().remove_tree(str(link))
    assert not link.is_symlink()
    assert [each.name for each in moved.iterdir()] == ["folder"]


def test_a_link_that_leads_nowhere_goes(tmp_path: Path) -> None:
    link = tmp_path / "t-0"
    link.symlink_to(tmp_path / "unmounted")
    OsFiles().remove_tree(str(link))
    assert not link.is_symlink()
