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
from types import FrameType

FRAMES_MAX = 60
"""The most frames of one stack."""

STACKS_MAX = 200
"""The most stacks of tasks; those of most tasks come first."""

_NAMES_MAX = 5


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
    names = {each.ident: each.name for each in threading.enumerate()}
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
        yield f"and tasks in {len(most_first) - STACKS_MAX} more places"


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
