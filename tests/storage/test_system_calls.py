"""The broker runs where a system call is missing: what stands in for it does the same.

There is no macOS here: its calls are hidden before the code is imported.
"""

import errno
import fcntl
import importlib.util
import mmap
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tierlog.storage import system_calls
from tierlog.storage.files import OsFiles
from tierlog.tests.house_rules import ROOT
from tierlog.tests.waiting import wait_until

HIDDEN = ("fdatasync", "posix_fallocate", "sendfile")
_HIDE = f"import os, sys\nfor name in {HIDDEN}: delattr(os, name)\n"
_FULL_SYNC = 51
_WITHIN_S = 60.0
_ON_REAL_FILES = (
    "test_files.py",
    "test_full_indexes.py",
    "test_checkpoints.py",
    "segment/test_indexes.py",
    "manager/test_log_loader.py",
)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as a system imports it that is not Linux and has none of the calls."""
    for name in HIDDEN:
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(sys, "platform", "elsewhere")
    return _imported()


def _imported() -> ModuleType:
    spec = importlib.util.spec_from_file_location("elsewhere", system_calls.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors of each fsync of a module that is imported from now on."""
    made: list[int] = []
    monkeypatch.setattr(os, "fsync", made.append)
    return made


def test_linux_uses_its_own_calls() -> None:
    assert system_calls.system.sync_data is os.fdatasync
    assert system_calls.system.allocate is os.posix_fallocate
    assert system_calls.system.send_file is os.sendfile


def test_without_fdatasync_a_file_gets_an_fsync(syncs: list[int], elsewhere: ModuleType) -> None:
    elsewhere.system.sync_data(7)
    assert syncs == [7]


@pytest.mark.parametrize(
    ("error", "synced"), [(None, []), (errno.ENOTSUP, [7]), (errno.ENOTTY, [7])]
)
def test_where_the_disk_can_be_flushed_it_is(
    error: int | None, synced: list[int], monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    flushed: list[tuple[int, int]] = []

    def flush(fd: int, command: int) -> int:
        flushed.append((fd, command))
        if error is not None:
            raise OSError(error, "")
        return 0

    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", _FULL_SYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", flush)
    module = _imported()
    module.system.sync_data(7)
    assert flushed == [(7, _FULL_SYNC)]
    assert syncs == synced


def test_a_disk_that_fails_is_no_disk_that_cannot(
    monkeypatch: pytest.MonkeyPatch, syncs: list[int]
) -> None:
    def fail(_fd: int, _command: int) -> int:
        raise OSError(errno.EIO, "")

    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", _FULL_SYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", fail)
    module = _imported()
    with pytest.raises(OSError, match=rf"Errno {errno.EIO}"):
        module.system.sync_data(7)
    assert syncs == []


def test_a_range_that_is_allocated_has_blocks_and_keeps_its_content(
    elsewhere: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "index"
    size = 3 * mmap.PAGESIZE
    content = b"entry".ljust(size // 2, b"\0") + b"x"
    path.write_bytes(content)
    fd = os.open(path, os.O_RDWR)
    os.ftruncate(fd, 4 * size)
    elsewhere.system.allocate(fd, 0, 2 * size)
    os.close(fd)
    assert path.read_bytes() == content.ljust(4 * size, b"\0")
    assert path.stat().st_blocks * 512 >= 2 * size


def test_an_index_keeps_its_entries_where_blocks_are_written(
    elsewhere: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_calls.system, "allocate", elsewhere.system.allocate)
    path, entries = str(tmp_path / "index"), [bytes([n]) * 8 for n in range(1, 200)]
    for n, entry in enumerate(entries):
        # Opened anew, it does not know which blocks it has.
        mapped = OsFiles().map(path, 16 * mmap.PAGESIZE)
        mapped.write_at(8 * n, entry)
        mapped.close()
    assert OsFiles().read(path)[: 8 * len(entries)] == b"".join(entries)


def test_a_range_is_sent_by_copying_up_to_the_end_of_the_file(
    elsewhere: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDONLY)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert elsewhere.system.send_file(ours.fileno(), fd, 2, 3) == 3
        assert elsewhere.system.send_file(ours.fileno(), fd, 8, 5) == 2
        assert elsewhere.system.send_file(ours.fileno(), fd, 10, 5) == 0
        assert theirs.recv(20) == b"23489"
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            while elsewhere.system.send_file(ours.fileno(), fd, 0, 10):
                pass
    os.close(fd)


def test_one_lock_excludes_a_second_owner(
    elsewhere: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_calls.system, "lock_file", elsewhere.system.lock_file)
    path = str(tmp_path / ".lock")
    lock = OsFiles().lock(path)
    with pytest.raises(BlockingIOError):
        OsFiles().lock(path)
    lock.release()
    OsFiles().lock(path).release()


def _started(*lines: str) -> "subprocess.Popen[str]":
    """A Python without the calls that runs the lines."""
    program = _HIDE + "\n".join(lines)
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_a_broker_without_the_calls_keeps_what_it_is_given(tmp_path: Path) -> None:
    start = (
        "from tierlog.broker.__main__ import main",
        f"sys.exit(main(['serve', '--override=log.dirs={tmp_path}',"
        " '--override=listeners=PLAINTEXT://127.0.0.1:0']))",
    )
    values = [os.urandom(5000) for _ in range(100)]
    for is_first in (True, False):
        broker = _started(*start)
        try:
            assert broker.stdout is not None
            ready = re.search(r"ready on ([\d.:]+)", broker.stdout.readline())
            assert ready is not None
            bootstrap: dict[str, Any] = {"bootstrap.servers": ready[1]}
            if is_first:
                producer = Producer({**bootstrap, "batch.size": 10_000})
                for value in values:
                    producer.produce("t", value, partition=0)
                assert producer.flush(_WITHIN_S) == 0
            assert _consumed(bootstrap, len(values)) == values
        finally:
            broker.terminate()
            broker.communicate(timeout=_WITHIN_S)
        assert broker.returncode == 0


def _consumed(bootstrap: dict[str, Any], count: int) -> list[bytes | None]:
    consumer = Consumer({**bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition("t", 0, 0)])
    read: list[bytes | None] = []

    def has_all() -> bool:
        read.extend(message.value() for message in consumer.consume(count, 1.0))
        return len(read) >= count

    wait_until(has_all, _WITHIN_S, lambda: f"{len(read)} of {count}")
    consumer.close()
    return read


@pytest.mark.slow
@pytest.mark.long
def test_what_is_told_of_real_files_holds_without_the_calls() -> None:
    """The stories of files, indexes, checkpoints and starts, which use the real file system."""
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "-x", "-m", "not slow"]
    files = [f"tests/storage/{name}" for name in _ON_REAL_FILES]
    run = _started("import pytest", f"sys.exit(pytest.main({[*options, *files]!r}))")
    output, _ = run.communicate(timeout=200)
    assert run.returncode == 0, output[-3000:]
