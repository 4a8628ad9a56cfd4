"""Collects answers so that the broker's clients hardly notice.

One answer at a time is collected, in slices of a fifth of a millisecond with a rest of one after
each: a request of a client waits for one slice at most, not for an answer. Collecting takes at most
a twentieth of the time in the long run, however often and for however many different answers
clients ask. While it is within that, who asks gets what is true now; beyond it, an answer is shared
by all who ask for it while it is young, and who asks for others waits.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast

from ...clients.runtime.task_owner import TaskOwner
from ..network.http_endpoint import Answer
from ..network.http_message import Response, plain

T = TypeVar("T")

_log = logging.getLogger(__name__)

SLICE_S = 0.0002
"""How long collecting keeps the event loop busy before others get their turn."""
REST_S = 0.001
"""How long they have it to themselves."""
SHARE = 0.05
"""The part of the time that collecting takes at most, in the long run."""
AHEAD_S = 0.25
"""How much collecting may be ahead of its share."""
SLICE_COUNTED_MAX_S = 0.005
"""A slice that seems longer was interrupted by other processes, and counts as this long."""
_ANSWERS_MAX = 16
_COLLECTIONS_MAX = 8

Key: TypeAlias = tuple[str | int, ...]
"""What is asked for: equal keys share an answer."""

Making: TypeAlias = Generator[None, None, Response]
"""Makes an answer, in steps."""


class Sliced(NamedTuple, Generic[T]):
    """What the steps return, and how long they kept the event loop busy."""

    result: T
    busy_s: float


class _Recent(NamedTuple):
    """An answer, until when it is shared, and until when it is while collecting has to wait."""

    response: Response
    until: float
    until_if_busy: float


async def in_slices(steps: Generator[None, None, T]) -> Sliced[T]:
    """Run the steps; other tasks run for `REST_S` each time that `SLICE_S` has passed."""
    loop = asyncio.get_running_loop()
    busy_s = 0.0
    while True:
        began = now = loop.time()
        while now < began + SLICE_S:
            try:
                next(steps)
            except StopIteration as end:
                busy_s += min(loop.time() - began, SLICE_COUNTED_MAX_S)
                return Sliced(cast("T", end.value), busy_s)
            now = loop.time()
        busy_s += min(now - began, SLICE_COUNTED_MAX_S)
        await asyncio.sleep(REST_S)


class Allowance:
    """Says when collecting may go on, so that it stays within its share of the time."""

    def __init__(self) -> None:
        self._used_until = 0.0

    def spend(self, busy_s: float, now: float) -> None:
        """Collecting took `busy_s`, up to now."""
        self._used_until = max(self._used_until, now) + busy_s / SHARE

    def wait_s(self, now: float) -> float:
        """How long to wait before the next collection; 0 if not at all."""
        return max(0.0, self._used_until - now - AHEAD_S / SHARE)


class Collector:
    """Collects the answers of one broker."""

    def __init__(self) -> None:
        self._tasks = TaskOwner(_COLLECTIONS_MAX, self._on_failure)
        self._turn = asyncio.Lock()
        self._allowance = Allowance()
        self._recent: OrderedDict[Key, _Recent] = OrderedDict()
        self._under_way: dict[Key, asyncio.Future[Response]] = {}
        self._is_stopped = False

    async def stop(self) -> None:
        """Stop collecting: from now on, everything is answered 503. Idempotent."""
        self._is_stopped = True
        await self._tasks.stop()
        self._recent.clear()

    def answer(self, key: Key, make: Callable[[], Making], age_s: float) -> Answer:
        """The answer for `key`, of which `make` begins a new one.

        It is shared for `age_s`; once collecting is beyond its share of the time, for as long as
        this answer took of it.
        """
        if self._is_stopped:
            return plain(503, "This node is stopping.")
        recent = self._recent.get(key)
        if recent is not None and asyncio.get_running_loop().time() < self._end_of(recent):
            return recent.response
        pending = self._under_way.get(key)
        if pending is not None:
            return pending
        if len(self._under_way) >= _COLLECTIONS_MAX:
            return plain(503, "The broker collects other answers: try again in a second.")
        task = self._tasks.start(self._collect(key, make, age_s), "status")
        self._under_way[key] = task
        task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return task

    def _end_of(self, recent: _Recent) -> float:
        """Until when the answer is shared."""
        is_busy = self._allowance.wait_s(asyncio.get_running_loop().time()) > 0
        return recent.until_if_busy if is_busy else recent.until

    async def _collect(self, key: Key, make: Callable[[], Making], age_s: float) -> Response:
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(self._allowance.wait_s(loop.time()))
            response, busy_s = await in_slices(make())
            now = loop.time()
            self._allowance.spend(busy_s, now)
        self._recent[key] = _Recent(response, now + age_s, now + max(age_s, busy_s / SHARE))
        self._recent.move_to_end(key)
        if len(self._recent) > _ANSWERS_MAX:
            self._recent.popitem(last=False)
        return response

    def _on_failure(self, task: asyncio.Task[object], failure: BaseException) -> None:
        _log.error("Internal error while collecting the status", exc_info=failure)
