"""Faults of processes: killed, stopped, paused, and killed again while they start."""

import os
import signal
import time
from collections.abc import Sequence

from ..processes.cluster import ClusterNode
from .fault import Fault, Grounds, Nodes, to_one

_STOP_S = 60.0


def _controller(grounds: Grounds) -> Nodes:
    """The active controller."""
    lead = grounds.cluster.leader()
    return () if lead is None or lead.node_id not in grounds.free() else (lead.node_id,)


def _majority(grounds: Grounds) -> Nodes:
    majority = len(grounds.cluster.nodes) // 2 + 1
    free = grounds.free()
    return tuple(free[:majority]) if len(free) >= majority else ()


def _kill(grounds: Grounds, nodes: Nodes, lasts_s: float) -> None:
    hit = [grounds.cluster.nodes[each] for each in nodes]
    for node in hit:
        node.kill()
    grounds.wait(lasts_s)
    for node in hit:
        node.spawn()


@to_one
def _kill_starting(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
    node.kill()
    for _ in range(2):
        node.spawn()
        ends = grounds.wait(grounds.chance.uniform(0.1, 1.5))
        if ends:
            return
        node.kill()
    node.spawn()


@to_one
def _restart(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
    node.stop(_STOP_S)
    grounds.wait(lasts_s)
    node.spawn()


def _pause(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
    pid = node.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        grounds.wait(lasts_s)
    finally:
        os.kill(pid, signal.SIGCONT)


@to_one
def _stutter(grounds: Grounds, node: ClusterNode, lasts_s: float) -> None:
    over = time.monotonic() + lasts_s
    while time.monotonic() < over and node.is_alive():
        _pause(grounds, node, grounds.chance.uniform(0.1, 0.6))
        if grounds.wait(grounds.chance.uniform(0.05, 0.2)):
            return


KILL = Fault("kill", "SIGKILL of any node, which starts again.", _kill)
KILL_CONTROLLER = Fault(
    "controller_kill", "SIGKILL of the active controller's process.", _kill, _controller
)
RESTART = Fault("restart", "SIGTERM, and a new start once it has stopped.", _restart)
PAUSE = Fault("pause", "SIGSTOP, and SIGCONT some seconds later.", to_one(_pause))

PROCESS_FAULTS: Sequence[Fault] = (
    KILL,
    KILL_CONTROLLER,
    Fault(
        "kill_starting",
        "SIGKILL again, a moment after the start: in the middle of loading or catching up.",
        _kill_starting,
    ),
    Fault(
        "majority_kill",
        "SIGKILL of a majority at once, so that nobody is left who could elect or acknowledge.",
        _kill,
        _majority,
    ),
    RESTART,
    Fault(
        "controller_restart",
        "SIGTERM of the active controller's process, and a new start.",
        _restart,
        _controller,
    ),
    PAUSE,
    Fault(
        "controller_pause",
        "SIGSTOP of the active controller's process, and SIGCONT some seconds later.",
        to_one(_pause),
        _controller,
    ),
    Fault(
        "stutter",
        "SIGSTOP and SIGCONT many times a second: a process that gets too little of the machine.",
        _stutter,
    ),
)
"""The profile `process`."""
