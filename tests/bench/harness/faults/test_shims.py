"""The shims change what a process gets from libc: of its own files, of its own clock, no others."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tierlog.bench.harness.faults.clock import prepare_clock, set_clock
from tierlog.bench.harness.faults.disk_control import (
    CREATE,
    READ,
    SYNC,
    TRUNCATE,
    WRITE,
    DiskControl,
    prepare_disk,
)
from tierlog.bench.harness.faults.shim import ShimError, compiled
from tierlog.bench.harness.processes.cluster import ClusterNode, Seat

pytestmark = pytest.mark.requires("cc")

CALLS = """
import errno, os, socket, sys
folder = sys.argv[1]
mine = os.open(folder + "/mine", os.O_RDWR)
other = os.open(folder + "/../other", os.O_RDWR | os.O_CREAT)
here, there = socket.socketpair()
CALLS = {
    "write": lambda: os.write(mine, b"x"),
    "pwrite": lambda: os.pwrite(mine, b"x", 0),
    "pwritev": lambda: os.pwritev(mine, [b"x", b"y"], 0),
    "writev": lambda: os.writev(mine, [b"x", b"y"]),
    "fallocate": lambda: os.posix_fallocate(mine, 0, 10),
    "truncate": lambda: os.ftruncate(mine, 8),
    "pread": lambda: os.pread(mine, 1, 0),
    "preadv": lambda: os.preadv(mine, [bytearray(1)], 0),
    "read": lambda: os.read(mine, 1),
    "sendfile": lambda: os.sendfile(here.fileno(), mine, 0, 1),
    "fsync": lambda: os.fsync(mine),
    "fdatasync": lambda: os.fdatasync(mine),
    "create": lambda: os.close(os.open(f"{folder}/{len(os.listdir(folder))}", os.O_CREAT)),
    "open": lambda: os.close(os.open(folder + "/mine", os.O_RDONLY | os.O_CREAT)),
    "other": lambda: (os.pwrite(other, b"x", 0), os.pread(other, 1, 0), os.fsync(other)),
}
print("ready", flush=True)
for _ in sys.stdin:
    said = []
    for name, call in CALLS.items():
        try:
            call()
        except OSError as error:
            said.append(f"{name}:{errno.errorcode[error.errno]}")
    print(*said, flush=True)
"""
CLOCKS = """
import sys, threading, time
print("ready", flush=True)
for _ in sys.stdin:
    began = time.monotonic()
    time.sleep(0.01)
    threading.Event().wait(0.01)
    print(time.time(), time.monotonic() - began, flush=True)
"""


class Child:
    """A process that loads the shims of a node, and answers each line with one of its own."""

    def __init__(self, node: ClusterNode, code: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(node.log_directory)],
            env={**os.environ, **node.extra_environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def answer(self) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().split()

    def end(self) -> None:
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0


@pytest.fixture
def node(tmp_path: Path) -> ClusterNode:
    one = ClusterNode(1, Seat("tierlog", "broker"), tmp_path / "node-1", "unused", {})
    one.log_directory.mkdir(parents=True)
    (one.log_directory / "mine").write_bytes(bytes(16))
    return one


def all_with(error: str, *names: str) -> list[str]:
    return [f"{name}:{error}" for name in names]


def test_the_calls_that_are_to_fail_do_and_no_others(node: ClusterNode) -> None:
    prepare_disk(node)
    disk = DiskControl.of(node)
    child = Child(node, CALLS)
    assert child.answer() == []
    disk.fail(WRITE | CREATE, errno.ENOSPC)
    full = ("write", "pwrite", "pwritev", "writev", "fallocate", "create")
    assert child.answer() == all_with("ENOSPC", *full)
    assert disk.hits == len(full)
    disk.fail(TRUNCATE, errno.EIO)
    assert child.answer() == all_with("EIO", "truncate")
    disk.fail(READ, errno.EIO)
    assert child.answer() == all_with("EIO", "pread", "preadv", "read", "sendfile")
    disk.fail(SYNC, errno.EIO, left=1)
    assert child.answer() == all_with("EIO", "fsync")
    assert child.answer() == []
    disk.fail(SYNC, errno.EIO, per_million=0)
    assert child.answer() == []
    disk.slow(SYNC, delay_us=1000)
    assert child.answer() == []
    assert disk.hits == 2
    disk.fail(READ, errno.EIO)
    disk.mend()
    assert child.answer() == []
    child.end()


def test_a_clock_jumps_and_what_measures_time_does_not(node: ClusterNode) -> None:
    prepare_clock(node)
    child = Child(node, CLOCKS)
    for ahead_s in (0, 7200, -1800, 0):
        set_clock(node, ahead_s)
        before = time.time()
        now, took = map(float, child.answer())
        assert before <= now - ahead_s <= time.time()
        assert took < 60
    child.end()


def test_both_shims_are_loaded_once_however_often_they_are_prepared(node: ClusterNode) -> None:
    for _ in range(2):
        prepare_disk(node)
        prepare_clock(node)
    libraries = node.extra_environment["LD_PRELOAD"].split(":")
    assert [Path(each).name for each in libraries] == ["disk_shim.so", "clock_shim.so"]
    child = Child(node, CALLS)
    DiskControl.of(node).fail(SYNC, errno.EIO)
    assert child.answer() == all_with("EIO", "fsync", "fdatasync")
    child.end()


def test_a_source_that_does_not_compile_is_an_error_that_says_so(tmp_path: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int main(")
    with pytest.raises(ShimError, match=r"cc could not compile broken\.c: "):
        compiled(source, tmp_path / "out")
