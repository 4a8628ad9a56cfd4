"""The faults of a chaos run: which are drawn, and how each is done to a cluster.

The plan is drawn from a seed. Who is hit depends on who runs at that moment and who leads, so a
second run of a seed tells a similar story and not the same one.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from ..cluster import Cluster, ClusterNode
from .links import Links

_TICK_S = 0.1
_STOP_S = 60.0
_JOIN_S = 120.0


class FaultKind(StrEnum):
    """What can happen to a node."""

    KILL = "kill"
    """SIGKILL of any broker, which starts again."""
    KILL_CONTROLLER = "controller_kill"
    """SIGKILL of the active controller's process."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT some seconds later."""
    CUT = "cut"
    """Two nodes do not reach each other."""
    RESTART = "restart"
    """SIGTERM, and a new start once it has stopped."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault to come: for how long the node is paused, down or cut off."""

    kind: FaultKind
    lasts_s: float


_WEIGHTS = {
    FaultKind.KILL: 3,
    FaultKind.KILL_CONTROLLER: 2,
    FaultKind.PAUSE: 2,
    FaultKind.CUT: 2,
    FaultKind.RESTART: 1,
}
_LASTS_S = {
    FaultKind.KILL: (0.0, 4.0),
    FaultKind.KILL_CONTROLLER: (0.0, 4.0),
    FaultKind.PAUSE: (5.0, 15.0),
    FaultKind.CUT: (5.0, 15.0),
    FaultKind.RESTART: (0.0, 2.0),
}


def plan(chance: random.Random, longest_s: float = 15.0) -> Iterator[Planned]:
    """Faults without end: every kind comes once in a random order, and then as it is drawn."""
    kinds = list(FaultKind)
    chance.shuffle(kinds)
    while True:
        for kind in kinds:
            yield Planned(kind, min(chance.uniform(*_LASTS_S[kind]), longest_s))
        kinds = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=1)


@dataclass(slots=True)
class Fault:
    """One fault that fired; the times are those of `time.time`."""

    kind: FaultKind
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

    A fault whose node is in the middle of another is left out. Nodes that end by themselves are
    noted and started again.
    """

    def __init__(
        self,
        cluster: Cluster,
        links: Links,
        faults: Iterator[Planned],
        interval_s: float,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_begin` is asked before each fault, which is put off for an interval otherwise."""
        self._cluster = cluster
        self._links = links
        self._plan = faults
        self._interval_s = interval_s
        self._may_begin = may_begin
        self._chance = random.Random(interval_s)
        self._busy = _Busy()
        self._ends = threading.Event()
        self._threads: list[threading.Thread] = []
        self.faults: list[Fault] = []
        self.ended_by_themselves: list[str] = []
        """What the log of each said last."""
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self._start(self._inject)
        self._start(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Begin no more faults, and wait until all are over and every node runs."""
        self._ends.set()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _start(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=run, name="chaos")
        self._threads.append(thread)
        thread.start()

    def _inject(self) -> None:
        for planned in self._plan:
            if self._ends.wait(self._interval_s):
                return
            while not self._may_begin():
                if self._ends.wait(self._interval_s):
                    return
            self._start(lambda planned=planned: self._do(planned))  # type: ignore[misc]  # bound now

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

    def _do(self, planned: Planned) -> None:
        nodes = self._choose(planned.kind)
        if not nodes:
            return
        fault = Fault(planned.kind, nodes, time.time())
        self.faults.append(fault)
        try:
            self._act(planned, [self._cluster.nodes[each] for each in nodes])
        finally:
            fault.returned = time.time()
            self._busy.release(*nodes)

    def _choose(self, kind: FaultKind) -> tuple[int, ...]:
        """The nodes of a fault, which are seized; none if they are in the middle of another."""
        nodes = [node.node_id for node in self._cluster.nodes.values() if node.is_alive()]
        self._chance.shuffle(nodes)
        if kind is FaultKind.KILL_CONTROLLER:
            lead = self._cluster.leader()
            nodes = [] if lead is None else [lead.node_id]
        if kind is FaultKind.CUT:
            pair = tuple(nodes[:2])
            return pair if len(pair) == 2 and self._busy.seize(*pair) else ()
        return next(((node,) for node in nodes if self._busy.seize(node)), ())

    def _act(self, planned: Planned, nodes: list[ClusterNode]) -> None:
        node = nodes[0]
        match planned.kind:
            case FaultKind.KILL | FaultKind.KILL_CONTROLLER:
                node.kill()
                self._ends.wait(planned.lasts_s)
                node.spawn()
            case FaultKind.PAUSE:
                os.kill(node.pid, signal.SIGSTOP)
                self._ends.wait(planned.lasts_s)
                os.kill(node.pid, signal.SIGCONT)
            case FaultKind.CUT:
                self._links.cut(node.node_id, nodes[1].node_id)
                self._ends.wait(planned.lasts_s)
                self._links.heal(node.node_id, nodes[1].node_id)
            case FaultKind.RESTART:
                node.stop(_STOP_S)
                self._ends.wait(planned.lasts_s)
                node.spawn()
