"""The queue of large requests, which are processed one at a time, in slices.

Everything runs on one event loop: a request processed for a second in one go would block every
client for that second. Work comes as a generator that pauses often. A slice ends after some pauses
or some milliseconds; then the loop serves the other clients, and the next slice follows. Only one
request is processed at a time: many of them need no more memory for that than one, and slow other
clients down no more than one. Clients take turns, each with one request, so that a client with
hundreds of connections holds up the others no longer than one. Requests in the queue count towards
the memory budget (`receive_budget.py`). When a client disconnects, its request is dropped and its
memory freed.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Generator, Hashable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_SLICE_PAUSES = 256
_SLICE_S = 0.005
_LONG_SLICE_S = 0.02
"""After a longer slice, from a handler that cannot pause, other clients get the same time."""


class Done(NamedTuple, Generic[T]):
    """What a generator has returned."""

    value: T


class _Job(NamedTuple):
    work: Generator[None, None, object]
    answer: "asyncio.Future[object]"


def run_slice(work: Generator[None, None, T]) -> Done[T] | None:
    """Run the work for one slice; None if it is not done yet."""
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
    """The queue of one broker's large requests."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[_Job]] = OrderedDict()
        """By client; it is the first one's turn."""

    def submit(
        self, work: Generator[None, None, object], client: Hashable = None
    ) -> "asyncio.Future[object]":
        """Queue the work, behind that of the same client; the future gets its result."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        # Close cancelled work at once, not at its next turn: it keeps its request in memory.
        answer.add_done_callback(lambda _: work.close())
        if not self._waiting:
            loop.call_soon(self._work)
        self._waiting.setdefault(client, deque()).append(_Job(work, answer))
        return answer

    def _work(self) -> None:
        """Run a slice of the first job, and schedule the next slice while there are jobs."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        client, jobs = next(iter(self._waiting.items()))
        if self._has_ended(jobs[0]):
            jobs.popleft()
            self._waiting.move_to_end(client)
            if not jobs:
                del self._waiting[client]
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
        # However this job ends, the next jobs must run.
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
