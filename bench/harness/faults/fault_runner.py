"""Does faults to a cluster, as a schedule says when and the cluster's state says to whom.

The schedule is drawn from a seed. Who is hit depends on who runs at that moment and who leads, so a
second run of a seed is similar, and not the same.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

from ..processes.cluster import Cluster
from .fault import Fault, Grounds, Store
from .links import Links
from .network import CUT
from .signals import KILL, KILL_CONTROLLER, PAUSE, RESTART

_TICK_S = 0.1
_JOIN_S = 180.0
_CALM_AGAIN_S = 120.0

NOT_READY = "the cluster was not ready for more"
"""Why a fault is put off that has nothing against it itself."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault to come: for how long a node is paused, down or cut off."""

    fault: Fault
    lasts_s: float


class Schedule(Protocol):
    """When which fault is done. All times are seconds since the beginning."""

    def due(self, at: float, under_way: int) -> Planned | None:
        """The fault that is to begin now, while so many are under way; None if none is."""
        ...

    def put_off(self, planned: Planned, at: float, why: str) -> None:
        """It could not begin; `why` is half a sentence."""
        ...

    def ended(self, planned: Planned, at: float) -> None:
        """It has begun, and is over."""
        ...


class Odds(NamedTuple):
    """How often a fault is drawn beside the others, and the bounds of how long it lasts."""

    weight: int
    shortest_s: float
    longest_s: float


USUAL: Mapping[Fault, Odds] = {
    KILL: Odds(3, 0.0, 4.0),
    KILL_CONTROLLER: Odds(2, 0.0, 4.0),
    PAUSE: Odds(2, 5.0, 15.0),
    CUT: Odds(2, 5.0, 15.0),
    RESTART: Odds(1, 0.0, 2.0),
}
"""The faults of the scenarios `chaos` and `chaos_transactions`."""


class Drawn:
    """One fault an interval: every kind once in a random order, and then as it is drawn."""

    def __init__(
        self,
        chance: random.Random,
        interval_s: float,
        longest_s: float = 15.0,
    ) -> None:
        self._chance = chance
        self._interval_s = interval_s
        self._longest_s = longest_s
        self._next_at = interval_s
        self._queue = deque(chance.sample(list(USUAL), len(USUAL)))

    def due(self, at: float, under_way: int) -> Planned | None:
        if at < self._next_at:
            return None
        self._next_at += self._interval_s
        if not self._queue:
            weights = [each.weight for each in USUAL.values()]
            self._queue.extend(self._chance.choices(list(USUAL), weights))
        fault = self._queue.popleft()
        odds = USUAL[fault]
        drawn_s = self._chance.uniform(odds.shortest_s, odds.longest_s)
        return Planned(fault, min(drawn_s, self._longest_s))

    def put_off(self, planned: Planned, at: float, why: str) -> None:
        """Its turn comes again, after those whose first turn is still to come."""
        self._queue.append(planned.fault)

    def ended(self, planned: Planned, at: float) -> None:
        """Do nothing: what was done needs not be drawn again."""


@dataclass(slots=True)
class Fired:
    """One fault that fired; the times are those of `time.time`."""

    name: str
    nodes: tuple[int, ...]
    began: float
    returned: float = 0.0
    """When the node ran again or the link was healed; 0 if it never was."""


@dataclass(slots=True)
class _Busy:
    """The nodes that a fault has now, of which no other takes any."""

    nodes: set[int] = field(default_factory=set[int])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def seize(self, *nodes: int) -> bool:
        """Whether all of them were free, and are seized now."""
        with self.lock:
            if self.nodes & set(nodes):
                return False
            self.nodes |= set(nodes)
            return True

    def release(self, *nodes: int) -> None:
        with self.lock:
            self.nodes -= set(nodes)


class Chaos:
    """Does faults to a cluster in threads of its own. Use as a context manager.

    A fault that has no free node is put off. Nodes that end by themselves are noted and started
    again.
    """

    def __init__(
        self,
        cluster: Cluster,
        links: Links,
        schedule: Schedule,
        seed: str,
        *,
        may_begin: Callable[[], bool] = lambda: True,
        all_in_sync: Callable[[], bool] = lambda: True,
        store: Store | None = None,
    ) -> None:
        """`may_begin` is asked before each fault; `all_in_sync` by those that need a calm cluster,
        which wait for it again when they are over."""
        self._cluster = cluster
        self._schedule = schedule
        self._may_begin = may_begin
        self._all_in_sync = all_in_sync
        self._chance = random.Random(seed)
        self._busy = _Busy()
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._under_way: list[Planned] = []
        self._threads: set[threading.Thread] = set()
        self._began = time.monotonic()
        self._grounds = Grounds(
            cluster, links, self._chance, self._ends.wait, self._free, self._is_calm, store
        )
        self.faults: list[Fired] = []
        self.ended_by_themselves: list[str] = []
        """What the log of each said last."""
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._start(self._inject)
        self._start(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Begin no more faults, and wait until all are over and every node runs."""
        self._ends.set()
        for thread in tuple(self._threads):
            thread.join(_JOIN_S)

    def under_way(self) -> list[str]:
        """The names of the faults that have begun and are not over."""
        with self._lock:
            return [planned.fault.name for planned in self._under_way]

    def _start(self, work: Callable[[], None], name: str = "chaos") -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self.errors.append(f"{name}: {type(error).__name__}: {error}")
            self._threads.discard(thread)

        thread = threading.Thread(target=run, name=name)
        self._threads.add(thread)
        thread.start()

    def _at(self) -> float:
        return time.monotonic() - self._began

    def _inject(self) -> None:
        while not self._ends.wait(_TICK_S):
            with self._lock:
                planned = self._schedule.due(self._at(), len(self._under_way))
                if planned is None:
                    continue
                self._under_way.append(planned)
            self._start(lambda planned=planned: self._do(planned), planned.fault.name)  # type: ignore[misc]  # bound now

    def _watch(self) -> None:
        while not self._ends.wait(_TICK_S):
            for node in self._cluster.nodes.values():
                if node.has_died() and self._busy.seize(node.node_id):
                    if node.has_died():
                        self.ended_by_themselves.append(
                            f"node {node.node_id} ended by itself: {node.log_tail(5)}"
                        )
                        node.spawn()
                    self._busy.release(node.node_id)

    def _free(self) -> list[int]:
        nodes = [node.node_id for node in self._cluster.nodes.values() if node.is_alive()]
        free = [node for node in nodes if node not in self._busy.nodes]
        self._chance.shuffle(free)
        return free

    def _is_calm(self) -> bool:
        with self._lock:
            is_alone = len(self._under_way) <= 1  # the caller is one of them
        return is_alone and self._all_in_sync()

    def _do(self, planned: Planned) -> None:
        why: str | None = "it failed"
        try:
            why = self._fire(planned)
        finally:
            with self._lock:
                self._under_way.remove(planned)
                if why is None:
                    self._schedule.ended(planned, self._at())
                else:
                    self._schedule.put_off(planned, self._at(), why)

    def _fire(self, planned: Planned) -> str | None:
        """Do a fault and undo it; returns why it could not begin."""
        fault = planned.fault
        if not self._may_begin():
            return NOT_READY
        if fault.is_alone and not self._is_calm():
            return "not all replicas were in sync"
        nodes = fault.choose(self._grounds)
        if not nodes or not self._busy.seize(*nodes):
            return "no node was free for it"
        if self._ends.is_set():
            self._busy.release(*nodes)
            return "the run ended"
        fired = Fired(fault.name, nodes, time.time())
        self.faults.append(fired)
        try:
            fault.act(self._grounds, nodes, planned.lasts_s)
        finally:
            for node in nodes:
                if not self._cluster.nodes[node].is_alive():
                    self._cluster.nodes[node].spawn()
            fired.returned = time.time()
            self._busy.release(*nodes)
        if fault.is_alone:
            self._wait_for_calm()
        return None

    def _wait_for_calm(self) -> None:
        deadline = time.monotonic() + _CALM_AGAIN_S
        while not self._is_calm() and time.monotonic() < deadline:
            if self._ends.wait(_TICK_S):
                return
