"""The broker runs where a system call is missing: what stands in for it does the same.

There is no macOS here: its calls are hidden before the code is imported.
"""

import errno
import fcntl
import importlib.util
import mmap
import os
import re
import resource
import select
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trustme
from confluent_kafka import Consumer, Producer, TopicPartition

from tierlog.storage import system_calls
from tierlog.storage.files import OsFiles
from tierlog.tests.house_rules import ROOT
from tierlog.tests.waiting import wait_until

HIDDEN = ("fdatasync", "posix_fallocate", "sendfile", "memfd_create")
HIDDEN_ELSEWHERE: tuple[tuple[ModuleType, str], ...] = (
    (select, "epoll"),
    (select, "EPOLLRDHUP"),
    (socket, "MSG_MORE"),
    (socket, "TCP_CONGESTION"),
    (errno, "EREMOTEIO"),
)
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
    for module, name in HIDDEN_ELSEWHERE:
        monkeypatch.delattr(module, name)
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
    assert system_calls.hangup_poll is select.epoll
    assert system_calls.PEER_HUNG_UP == select.EPOLLRDHUP
    assert system_calls.MORE_FOLLOWS == socket.MSG_MORE
    assert system_calls.CONGESTION_CONTROL == socket.TCP_CONGESTION
    assert system_calls.REMOTE_IO_ERRORS == (errno.EREMOTEIO,)
    assert system_calls.MEMORY_DIRECTORY == "/dev/shm"
    with system_calls.secret_file(b"key") as path:
        assert path.startswith("/proc/self/fd/")


def test_what_a_system_lacks_is_stated_as_none_or_nothing(elsewhere: ModuleType) -> None:
    assert elsewhere.hangup_poll is None
    assert elsewhere.CONGESTION_CONTROL is None
    assert elsewhere.MEMORY_DIRECTORY is None
    assert elsewhere.OUTGOING_PORTS is None
    assert elsewhere.MORE_FOLLOWS == 0
    assert elsewhere.REMOTE_IO_ERRORS == ()


def test_a_secret_goes_through_a_pipe_that_ends_and_has_no_name(elsewhere: ModuleType) -> None:
    content = os.urandom(10_000)
    with elsewhere.secret_file(content) as path:
        assert path.startswith("/dev/fd/")
        with open(path, "rb") as reader:
            assert reader.read() == content
    assert not Path(path).exists()


def test_a_secret_that_is_larger_than_a_pipe_is_refused_and_closes_it(
    elsewhere: ModuleType,
) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="larger than a pipe"):
        with elsewhere.secret_file(bytes(1 << 20)):
            pass
    assert os.listdir("/proc/self/fd") == before


def test_openssl_reads_a_chain_and_a_key_from_two_pipes(elsewhere: ModuleType) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    key = issued.private_key_pem.bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with elsewhere.secret_file(chain) as chain_path, elsewhere.secret_file(key) as key_path:
        context.load_cert_chain(chain_path, key_path)
    with elsewhere.secret_file(chain) as chain_path, elsewhere.secret_file(b"damaged") as key_path:
        with pytest.raises(OSError, match=r"."):
            context.load_cert_chain(chain_path, key_path)


@pytest.mark.parametrize(
    ("soft", "hard", "set_to"),
    [
        (256, resource.RLIM_INFINITY, [resource.RLIM_INFINITY, 10_240]),
        (256, 100_000, [100_000, 10_240]),
        (256, 4096, [4096]),
    ],
)
def test_a_system_that_grants_no_hard_limit_grants_what_it_has(
    soft: int, hard: int, set_to: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As macOS, whose hard limit says infinity and whose kernel refuses it."""
    asked: list[int] = []

    def grant(_kind: int, limits: tuple[int, int]) -> None:
        asked.append(limits[0])
        if not 0 <= limits[0] <= 10_240:
            raise ValueError("not allowed to raise maximum limit")

    def limits(_kind: int) -> tuple[int, int]:
        return soft, hard

    monkeypatch.setattr(resource, "getrlimit", limits)
    monkeypatch.setattr(resource, "setrlimit", grant)
    system_calls.raise_files_limit()
    assert asked == set_to


def test_a_limit_that_cannot_be_raised_at_all_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_kind: int, _limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with pytest.raises(ValueError, match="exceeds"):
        system_calls.raise_files_limit()


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
        "from tierlog.cli.__main__ import main",
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
def test_what_holds_of_real_files_holds_without_the_calls() -> None:
    """The stories of files, indexes, checkpoints and starts, which use the real file system."""
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "-x", "-m", "not slow"]
    files = [f"tests/storage/{name}" for name in _ON_REAL_FILES]
    run = _started("import pytest", f"sys.exit(pytest.main({[*options, *files]!r}))")
    output, _ = run.communicate(timeout=200)
    assert run.returncode == 0, output[-3000:]
