"""What a process asks of the kernel is counted by kind, and nothing before or after."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, cast

import pytest

from tierlog.bench.harness.measurement_error import MeasurementError
from tierlog.bench.harness.processes.system_calls import (
    CountedCalls,
    kinds_of,
    why_not_countable,
)

READS = 500
"""A multiple of what a reader may do besides."""

_READER = f"""
import os, sys
zero = os.open("/dev/zero", os.O_RDONLY)
for _ in sys.stdin:
    for _ in range({READS}):
        os.read(zero, 1)
    print(flush=True)
"""


@contextmanager
def reader() -> Generator["subprocess.Popen[str]", None, None]:
    """A process that reads a file so often for each line that it gets."""
    with subprocess.Popen(
        [sys.executable, "-c", _READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def read_once(process: "subprocess.Popen[str]") -> None:
    orders, answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
    orders.write("\n")
    orders.flush()
    assert answers.readline() == "\n"


def test_each_call_is_of_one_kind() -> None:
    counts = {
        "raw_syscalls:sys_enter": 20,
        "syscalls:sys_enter_epoll_wait": 3,
        "syscalls:sys_enter_recvfrom": 4,
        "syscalls:sys_enter_read": 1,
        "syscalls:sys_enter_sendfile64": 5,
        "context-switches": 2,
    }
    assert kinds_of(counts) == {
        "system_calls": 20,
        "wait_system_calls": 3,
        "read_system_calls": 5,
        "write_system_calls": 0,
        "sendfile_system_calls": 5,
        "lock_system_calls": 0,
        "other_system_calls": 7,
        "context_switches": 2,
    }


@pytest.mark.requires("perf")
def test_what_is_called_inside_the_block_is_counted_and_nothing_else() -> None:
    with reader() as process:
        read_once(process)
        with CountedCalls([process.pid]) as counted:
            read_once(process)
        read_once(process)
    assert READS <= counted.counts["read_system_calls"] < 2 * READS
    assert counted.counts["system_calls"] >= counted.counts["read_system_calls"]
    assert counted.counts["sendfile_system_calls"] == 0


@pytest.mark.requires("perf")
def test_an_error_inside_the_block_ends_the_counting() -> None:
    with reader() as process:
        with pytest.raises(ZeroDivisionError), CountedCalls([process.pid]) as counted:
            raise ZeroDivisionError
        assert counted.counts == {}
        read_once(process)


@pytest.mark.requires("perf")
def test_a_process_that_is_not_there_is_said_by_perf_itself() -> None:
    with pytest.raises(MeasurementError, match="perf does not count"), CountedCalls([2**22 + 1]):
        raise AssertionError("there is nothing to count")


def test_a_machine_without_perf_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path_factory.mktemp("empty")))
    assert why_not_countable() == "perf is not installed (Debian: apt install linux-perf)"
