"""Faults of processes: killed, stopped, paused, and killed again while they start."""

import os
import signal
import time
from collections.abc import Sequence

from ...cluster import ClusterNode
from ..fault import Fault, Grounds

_STOP_S = 60.0


class _ProcessFault:
    """Something that any machine can do, to nodes in any state of the cluster."""

    is_alone = False

    def missing(self) -> str | None:
        return None

    def prepare(self, node: ClusterNode) -> None:
        """Do nothing: a process needs no preparation."""

    def choose(self, grounds: Grounds) -> tuple[int, ...]:
        """Any node that runs."""
        return tuple(grounds.free()[:1])


def _active_controller(grounds: Grounds) -> tuple[int, ...]:
    lead = grounds.cluster.leader()
    return () if lead is None or lead.node_id not in grounds.free() else (lead.node_id,)


class Kill(_ProcessFault):
    """SIGKILL of any node, which starts again."""

    name = "kill"

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        node = grounds.cluster.nodes[nodes[0]]
        node.kill()
        grounds.wait(lasts_s)
        node.spawn()


class KillController(Kill):
    """SIGKILL of the active controller's process."""

    name = "controller_kill"

    def choose(self, grounds: Grounds) -> tuple[int, ...]:
        return _active_controller(grounds)


class KillStarting(Kill):
    """SIGKILL again, a moment after the start: in the middle of loading or catching up."""

    name = "kill_starting"

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        node = grounds.cluster.nodes[nodes[0]]
        node.kill()
        for _ in range(2):
            node.spawn()
            ends = grounds.wait(grounds.chance.uniform(0.1, 1.5))
            if ends:
                return
            node.kill()
        node.spawn()


class KillMost(Kill):
    """SIGKILL of a majority at once, so that nobody is left who could elect or acknowledge."""

    name = "majority_kill"

    def choose(self, grounds: Grounds) -> tuple[int, ...]:
        majority = len(grounds.cluster.nodes) // 2 + 1
        free = grounds.free()
        return tuple(free[:majority]) if len(free) >= majority else ()

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        hit = [grounds.cluster.nodes[each] for each in nodes]
        for node in hit:
            node.kill()
        grounds.wait(lasts_s)
        for node in hit:
            node.spawn()


class Restart(_ProcessFault):
    """SIGTERM, and a new start once it has stopped."""

    name = "restart"

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        node = grounds.cluster.nodes[nodes[0]]
        node.stop(_STOP_S)
        grounds.wait(lasts_s)
        node.spawn()


class RestartController(Restart):
    """SIGTERM of the active controller's process, and a new start."""

    name = "controller_restart"

    def choose(self, grounds: Grounds) -> tuple[int, ...]:
        return _active_controller(grounds)


class Pause(_ProcessFault):
    """SIGSTOP, and SIGCONT some seconds later."""

    name = "pause"

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        pid = grounds.cluster.nodes[nodes[0]].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            grounds.wait(lasts_s)
        finally:
            os.kill(pid, signal.SIGCONT)


class PauseController(Pause):
    """SIGSTOP of the active controller's process, and SIGCONT some seconds later."""

    name = "controller_pause"

    def choose(self, grounds: Grounds) -> tuple[int, ...]:
        return _active_controller(grounds)


class Stutter(Pause):
    """SIGSTOP and SIGCONT many times a second: a process that gets too little of the machine."""

    name = "stutter"

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        node = grounds.cluster.nodes[nodes[0]]
        over = time.monotonic() + lasts_s
        while time.monotonic() < over and node.is_alive():
            super().act(grounds, nodes, grounds.chance.uniform(0.1, 0.6))
            if grounds.wait(grounds.chance.uniform(0.05, 0.2)):
                return


FAULTS: Sequence[Fault] = (
    Kill(),
    KillController(),
    KillStarting(),
    KillMost(),
    Restart(),
    RestartController(),
    Pause(),
    PauseController(),
    Stutter(),
)
"""The profile `process`."""
