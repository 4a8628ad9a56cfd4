"""What every thread and task of this process does at the moment, for SIGUSR1.

A task is shown through all coroutines that it waits in, the innermost last, as a traceback is.
Tasks that wait in the same place, such as the connections of many clients, are one entry.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf
from types import FrameType

from ..clients.text_table import counted

FRAMES_MAX = 60
"""The most frames of one stack."""

STACKS_MAX = 200
"""The most stacks of tasks; those of most tasks come first."""

INTERVAL_S = 0.1
"""Signals within this time after the last stacks are answered together, at its end."""

_NAMES_MAX = 5


class StackSignal:
    """The handler of SIGUSR1: logs the stacks past all levels, and the broker goes on.

    Python calls it in the midst of whatever the loop's thread does, which may be stuck, may be
    writing to stderr, may be importing a module, or may be this handler. It imports nothing.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, log: logging.Logger) -> None:
        self._loop = loop
        self._log = log
        self._is_writing = False
        self._is_due = False
        self._written_s = -inf

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_writing or self._loop.time() < self._written_s + INTERVAL_S:
            self._write_later()
        else:
            self._write()

    def _write(self) -> None:
        self._is_writing = True
        try:
            self._log.handle(stacks_record(self._loop))
        except RuntimeError:
            # The signal came while this thread was writing to stderr, which does not nest.
            self._write_later()
        finally:
            self._written_s = self._loop.time()
            self._is_writing = False

    def _write_later(self) -> None:
        if self._is_due:
            return
        self._is_due = True
        # A closed loop runs nothing any more: the process is about to end.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.call_later, INTERVAL_S, self._write_due)

    def _write_due(self) -> None:
        self._is_due = False
        self._write()


def stacks_record(loop: asyncio.AbstractEventLoop) -> logging.LogRecord:
    """A log record with the stacks of all threads, and of all tasks of the loop.

    Call it in the loop's thread: a signal handler of Python's, or a callback.
    """
    threads = list(_of_threads())
    tasks = asyncio.all_tasks(loop)
    return logging.makeLogRecord(
        {
            "name": "tierlog",
            "levelno": logging.INFO,
            "levelname": "INFO",
            "msg": "Stacks of %d threads and %d tasks",
            "args": (len(threads), len(tasks)),
            "stack_info": "\n".join([*threads, *_of_tasks(tasks)]),
        }
    )


def _of_threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    current = sys._current_frames()  # pyright: ignore[reportPrivateUsage] # documented all the same
    for number, frame in current.items():
        frames = [each for each, _ in traceback.walk_stack(frame)]
        yield _stack(f"Thread {names.get(number, number)}", reversed(frames[:FRAMES_MAX]))


def _of_tasks(tasks: Iterable[asyncio.Task[object]]) -> Iterator[str]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    for task in tasks:
        names[_stack("", _frames(task))].append(task.get_name())
    most_first = sorted(names.items(), key=lambda each: -len(each[1]))
    for stack, same in most_first[:STACKS_MAX]:
        shown = ", ".join(sorted(same)[:_NAMES_MAX])
        more = f" and {len(same) - _NAMES_MAX} more" if len(same) > _NAMES_MAX else ""
        yield f"Task {shown}{more}{stack}"
    if len(most_first) > STACKS_MAX:
        yield f"and tasks in {counted(len(most_first) - STACKS_MAX, 'more place')}"


def _frames(task: asyncio.Task[object]) -> Iterator[FrameType]:
    """Of a task that waits, from the outermost coroutine to the innermost."""
    waiting: object = task.get_coro()
    for _ in range(FRAMES_MAX):
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if not isinstance(frame, FrameType):
            return
        yield frame
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _stack(title: str, frames: Iterable[FrameType]) -> str:
    lines = (
        f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        for frame in frames
    )
    return "\n".join((f"{title}:", *lines))
