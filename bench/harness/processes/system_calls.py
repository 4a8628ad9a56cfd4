"""Counts the system calls of processes by kind, with `perf` and the kernel's trace points.

Counts hardly depend on the processor, nor on what else the machine does, as times do. Counting
costs the process some CPU for each call: what is counted is not timed in the same run.
"""

import os
import select
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from ..measurement_error import MeasurementError

_TRACE_POINT = "syscalls:sys_enter_"
_ALL = "raw_syscalls:sys_enter"
_SWITCHES = "context-switches"
_KINDS: Mapping[str, Sequence[str]] = {
    "wait": ("epoll_wait", "epoll_pwait", "poll", "ppoll", "select", "pselect6"),
    "read": ("read", "readv", "recvfrom", "recvmsg", "pread64", "preadv"),
    "write": ("write", "writev", "sendto", "sendmsg", "pwrite64", "pwritev"),
    "sendfile": ("sendfile64",),
    "lock": ("futex",),
}
_EVENTS = ",".join(
    (_ALL, _SWITCHES, *(_TRACE_POINT + call for calls in _KINDS.values() for call in calls))
)
_TIMEOUT_S = 10.0


def kinds_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by kind from counts by event: all, each kind, and what is of no kind."""
    by_kind = {
        kind: sum(counts.get(_TRACE_POINT + call, 0) for call in calls)
        for kind, calls in _KINDS.items()
    }
    other = counts[_ALL] - sum(by_kind.values())
    return {
        "system_calls": counts[_ALL],
        **{f"{kind}_system_calls": count for kind, count in by_kind.items()},
        "other_system_calls": max(other, 0),
        "context_switches": counts[_SWITCHES],
    }


def why_not_countable() -> str | None:
    """Why system calls cannot be counted here; None if they can."""
    try:
        answer = subprocess.run(
            ["perf", "stat", "-x,", "-e", _EVENTS, "true"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        return "perf is not installed (Debian: apt install linux-perf)"
    if answer.returncode or not _counts(answer.stderr.splitlines())[_ALL]:
        return "the kernel shows its trace points to root only, or not at all"
    return None


class CountedCalls:
    """Counts what processes call, with all their threads, while it is entered."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = ",".join(map(str, pids))
        self.counts: dict[str, int] = {}
        """By kind, after the end."""

    def __enter__(self) -> Self:
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        # Begun without counting: an order begins and ends it, and is answered when it is done.
        command = ["perf", "stat", "-x,", "-D", "-1", "--control", f"fd:{orders},{answers}"]
        command += ["-e", _EVENTS, "-p", self._pids]
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, pass_fds=(orders, answers)
        )
        os.close(orders)
        os.close(answers)
        self._say("enable")
        return self

    def _say(self, order: str) -> None:
        with suppress(BrokenPipeError):
            # If perf has ended, it has said why.
            os.write(self._orders, f"{order}\n".encode())
        is_answered, _, _ = select.select([self._answers], [], [], _TIMEOUT_S)
        if not is_answered or not os.read(self._answers, 64).startswith(b"ack"):
            said = self._end()
            raise MeasurementError(f"perf does not count: {said.strip()[-300:]}")

    def _end(self) -> str:
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=_TIMEOUT_S)
        os.close(self._orders)
        os.close(self._answers)
        return said

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._say("disable")
        said = self._end()
        if error is None:
            self.counts = kinds_of(_counts(said.splitlines()))


def _counts(lines: Iterable[str]) -> Counter[str]:
    """The counts by event of perf's table with commas: the count, a unit, the event, …"""
    counts: Counter[str] = Counter()
    for line in lines:
        match line.split(","):
            case [count, _, event, *_] if count.isdecimal():
                counts[event] += int(count)
            case _:
                # A warning, or an event that this kernel does not count.
                continue
    return counts
