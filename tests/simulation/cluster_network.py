"""A loop that can pause a process, and a network whose links can be cut and slow in one direction.

A paused process (SIGSTOP) runs nothing: what is due for it waits, in its order, until it goes on.
"""

import asyncio
import contextlib
import contextvars
import heapq
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import Conditions, Process, SimulatedNetwork, process_of
from tierlog.tests.simulation.transport import SimulatedTransport

Link = tuple[str, str] | tuple[str, str, int]
"""From one host to another; with a port, only the connections to that port of either."""


class ClusterLoop(SimulatedLoop):
    """See the module."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int
    _clock_resolution: float

    def __init__(self, seed: int = 0, time_limit_s: float = 3600) -> None:
        super().__init__(seed, time_limit_s)
        self._paused: dict[Process, deque[asyncio.Handle]] = {}

    def _remember(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # A process holds its tasks while it lives: only those of dead ones are collected.
        if not str(context.get("message")).startswith("Task was destroyed"):
            super()._remember(self, context)

    def close(self) -> None:
        """End what dead processes have left waiting for ever, so that nobody hears of it later."""
        for task in asyncio.all_tasks(self):
            name = "_log_destroy_pending"
            setattr(task, name, False)
            coroutine = task.get_coro()
            with contextlib.suppress(BaseException):
                if isinstance(coroutine, Coroutine):
                    coroutine.close()
        super().close()

    def pause(self, process: Process) -> None:
        """Let a process run nothing more until `resume`."""
        self._paused.setdefault(process, deque())

    def resume(self, process: Process) -> None:
        """Let a process go on, with all that was due meanwhile."""
        self._ready.extend(self._paused.pop(process, ()))

    def _run_once(self) -> None:
        while self._paused:
            self._make_due_ready()
            self._set_aside()
            if self._ready:
                break
        super()._run_once()  # type: ignore[misc]  # typeshed does not have it

    def _make_due_ready(self) -> None:
        """What the base class does first; time passes only if nothing is ready."""
        scheduled = self._scheduled
        while scheduled and scheduled[0].cancelled():
            self._timer_cancelled_count -= 1
            _unschedule(heapq.heappop(scheduled))
        if not self._ready:
            timeout = max(scheduled[0].when() - self.time(), 0) if scheduled else None
            self._selector.select(timeout)
        until = self.time() + self._clock_resolution
        while scheduled and scheduled[0].when() < until:
            handle = heapq.heappop(scheduled)
            _unschedule(handle)
            self._ready.append(handle)

    def _set_aside(self) -> None:
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            waiting = self._paused.get(process_of(vars_of(handle)))
            (self._ready if waiting is None else waiting).append(handle)


def _unschedule(handle: asyncio.TimerHandle) -> None:
    """Tell a handle that it is not among the timers any more, as the base class does."""
    name = "_scheduled"
    setattr(handle, name, False)


def vars_of(handle: asyncio.Handle) -> contextvars.Context:
    """The context that a handle runs in."""
    name = "_context"
    context: contextvars.Context = getattr(handle, name)
    return context


class ClusterNetwork(SimulatedNetwork):
    """See the module."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(loop, Conditions(latency_s_min=0.0002, latency_s_max=0.004))
        self.slow: dict[Link, float] = {}
        """Links with up to so many seconds of delay."""
        self._cut: Counter[Link] = Counter()
        # A connection stands here once for each piece that waits.
        self._held_on: dict[Link, deque[SimulatedTransport]] = {}

    def piece_bytes(self, available: int) -> int:
        """Whole writes: how pieces fall is another test's matter, and costs most of the time."""
        return available

    def carry(self, source: SimulatedTransport, arrive: Callable[[], None]) -> None:
        """See `Carrier`."""
        source.on_the_way.append(arrive)
        self._carry_next(source)

    def _carry_next(self, source: SimulatedTransport) -> None:
        end = source.end
        delay = self._latency_s()
        if self.slow:
            delay += (
                self.slow.get((end.local.host, end.remote.host), 0.0) * self._loop.random.random()
            )
        arrival_s = max(self._loop.time() + delay, source.last_arrival_s + 1e-6)
        source.last_arrival_s = arrival_s
        context = source.peer.end.context
        self._loop.call_at(arrival_s, self._deliver_or_hold, source, context=context)

    def _deliver_or_hold(self, source: SimulatedTransport) -> None:
        for link in self._links_of(source) if self._cut else ():
            if self._cut[link] > 0:
                self._held_on.setdefault(link, deque()).append(source)
                return
        source.on_the_way.popleft()()

    def _links_of(self, source: SimulatedTransport) -> tuple[Link, ...]:
        here, there = source.end.local, source.end.remote
        both = here.host, there.host
        return both, (*both, here.port), (*both, there.port)

    def _are_parted(self, one: str, other: str) -> bool:
        return bool(self._cut) and (self._cut[one, other] > 0 or self._cut[other, one] > 0)

    def cut_links(self, links: Iterable[Link]) -> None:
        """Let nothing through from the first host of each pair to the second."""
        self._cut.update(links)

    def mend_links(self, links: Iterable[Link]) -> None:
        """Undo one cut of each; what was held comes now, in its order."""
        for link in links:
            if self._cut[link] > 0:
                self._cut[link] -= 1
            if not self._cut[link]:
                del self._cut[link]
                self._release(link)
        self._healed.set()
        self._healed.clear()

    def mend_all(self) -> None:
        """Let everything through, at once."""
        self.slow.clear()
        self.mend_links(list(self._cut.elements()))

    def _release(self, link: Link) -> None:
        for source in self._held_on.pop(link, ()):
            self._carry_next(source)

    def reset(self, one: str, other: str) -> None:
        """Reset every connection between two hosts."""
        for end in self.connections(one):
            if end.end.remote.host == other:
                end.lose(ConnectionResetError("The connection was cut."))
                end.peer.lose(ConnectionResetError("The connection was cut."))
