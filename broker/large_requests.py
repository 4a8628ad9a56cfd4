"""Requests that take long are worked on one at a time, in slices, so that others get their turn.

Everything runs on one event loop: a request that took a second in one go would keep every client
waiting for that second. Work comes as a generator that pauses often. A slice ends after some pauses
or some milliseconds; then the loop sees to everybody else, and the next slice follows. Only one
request is worked on at any time, so that many of them take no more memory together than one, and no
more of anybody's time. What waits is bounded by its bytes. A client that goes gives its turn away.
"""

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Generic, NamedTuple, TypeVar

from .connection import Refused

T = TypeVar("T")

_SLICE_PAUSES = 256
_SLICE_S = 0.005
_LONG_SLICE_S = 0.02
"""After a slice that was longer, because a handler cannot pause, others get as long a time."""
_WAITING_BYTES_MAX = 64 * 1024 * 1024


class Done(NamedTuple, Generic[T]):
    """What a generator has returned."""

    value: T


class _Job(NamedTuple):
    work: Generator[None, None, object]
    answer: "asyncio.Future[object]"
    nbytes: int


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
        self._waiting_bytes = 0

    def submit(self, work: Generator[None, None, object], nbytes: int) -> "asyncio.Future[object]":
        """Do the work after that of others; the future is its answer.

        Raises Refused if too many bytes wait already.
        """
        if self._waiting and self._waiting_bytes + nbytes > _WAITING_BYTES_MAX:
            raise Refused(
                f"large requests of {self._waiting_bytes} bytes are waiting already: "
                "send it again later, or in parts"
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        self._waiting.append(_Job(work, answer, nbytes))
        self._waiting_bytes += nbytes
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
            self._waiting_bytes -= job.nbytes
        if not self._waiting:
            return
        took_s = loop.time() - started
        if took_s > _LONG_SLICE_S:
            loop.call_later(took_s, self._work)
        else:
            loop.call_soon(self._work)

    def _has_ended(self, job: _Job) -> bool:
        if job.answer.done():
            # The client is gone.
            job.work.close()
            return True
        # Whatever ends this one, those behind it have their turn.
        answer = job.answer
        try:
            done = run_slice(job.work)
        except asyncio.CancelledError:
            # What it waited for was given up, and so is the answer.
            answer.cancel()
            return True
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
            return True
        if done is not None and not answer.done():
            answer.set_result(done.value)
        return done is not None
