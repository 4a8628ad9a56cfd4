"""Requests that take long are worked on one at a time, in slices, so that others get their turn.

Everything runs on one event loop: a request that took a second in one go would keep every client
waiting for that second. Work comes as a generator that pauses often. A slice ends after some pauses
or some milliseconds; then the loop sees to everybody else, and the next slice follows. Only one
request is worked on at any time, so that many of them take no more memory together than one, and no
more of anybody's time. What waits is counted in the memory of requests (`receive_budget.py`). A
client that goes gives its turn away, and what its request has taken.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_SLICE_PAUSES = 256
_SLICE_S = 0.005
_LONG_SLICE_S = 0.02
"""After a slice that was longer, because a handler cannot pause, others get as long a time."""


class Done(NamedTuple, Generic[T]):
    """What a generator has returned."""

    value: T


class _Job(NamedTuple):
    work: Generator[None, None, object]
    answer: "asyncio.Future[object]"


def run_slice(work: Generator[None, None, T]) -> Done[T] | None:
    """Go on with the work for a slice; None: it is not done yet."""
    time = asyncio.get_running_loop().time
    deadline = time() + _SLICE_S
    try:
        for _ in range(_SLICE_PAUSES):
            next(work)
            if time() > deadline:
                break
    except StopIteration as end:
        return Done(end.value)
    return None


class LargeRequests:
    """The queue of one broker."""

    def __init__(self) -> None:
        self._waiting: deque[_Job] = deque()

    def submit(self, work: Generator[None, None, object]) -> "asyncio.Future[object]":
        """Do the work after that of others; the future is its answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        # Closed at once when it is cancelled, not at its next turn: it keeps its request in memory.
        answer.add_done_callback(lambda _: work.close())
        self._waiting.append(_Job(work, answer))
        if len(self._waiting) == 1:
            loop.call_soon(self._work)
        return answer

    def _work(self) -> None:
        """Go on with the first job, and come back as long as there is one."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        job = self._waiting[0]
        if self._has_ended(job):
            self._waiting.popleft()
        if not self._waiting:
            return
        took_s = loop.time() - started
        if took_s > _LONG_SLICE_S:
            loop.call_later(took_s, self._work)
        else:
            loop.call_soon(self._work)

    def _has_ended(self, job: _Job) -> bool:
        if job.answer.done():
            # The client has disconnected.
            return True
        # Whatever ends this one, those behind it have their turn.
        answer = job.answer
        try:
            done = run_slice(job.work)
        except asyncio.CancelledError:
            # The work was cancelled, and so is the response.
            answer.cancel()
            return True
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
            return True
        if done is not None and not answer.done():
            answer.set_result(done.value)
        return done is not None
