"""A rolling restart, and a rolling upgrade, of three nodes under load.

One node after the other gets SIGTERM, has stopped, is started, is in sync everywhere, and leads
again what it led before; then the next. The window of a restart ends a second after all of that, so
it has both moves of its leaders, away and back.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..processes.cluster import Cluster, Kind
from .cluster_load import ClientAnswers, LoadedCluster, Place, loaded_cluster

_STOP_S = 120.0
_UP_S = 180.0
_SETTLE_S = 1.0

Program = tuple[str, ...]
"""The words that a command line of `tierlog` begins with."""


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart of one node; `began` and `ended` are times of `time.time`."""

    node_id: int
    began: float
    ended: float
    stopping_s: float
    """From SIGTERM to the end of the process."""
    returning_s: float
    """From the new process until it is in sync everywhere."""
    led: Sequence[Place]
    """What it led before."""


@dataclass(frozen=True, slots=True)
class Rolling:
    """All restarts, and what was acknowledged meanwhile."""

    restarts: Sequence[Restart]
    answers: ClientAnswers

    def unavailable_s(self, client: str) -> list[float]:
        """For each restart and each partition that the node led, the longest gap of a client."""
        return [gap for restart in self.restarts for gap in self._gaps_s(client, restart)]

    def worst_s(self, client: str) -> list[float]:
        """For each restart, the longest gap of any partition that the node led."""
        return [max(self._gaps_s(client, restart), default=0.0) for restart in self.restarts]

    def _gaps_s(self, client: str, restart: Restart) -> list[float]:
        return self.answers.gaps_s(client, restart.led, (restart.began, restart.ended))


def run_rolling(
    directory: Path,
    kind: Kind,
    rounds: int,
    properties: Mapping[str, str] | None = None,
    programs: Sequence[Program] = (),
) -> Rolling:
    """Restart every node so many times, and read everything back.

    The nodes begin with the first of `programs`, and each round starts them with the next one, in
    turn; without programs, it is always the installed one. Raises MeasurementError if something
    acknowledged is lost, doubled or reordered; NotUpError if a node does not come back.
    """

    def begin(cluster: Cluster) -> None:
        if programs:
            _use(cluster, programs[0])

    with loaded_cluster(directory, kind, properties, begin) as loaded:
        restarts: list[Restart] = []
        for turn in range(1, rounds + 1):
            if programs:
                _use(loaded.cluster, programs[turn % len(programs)])
            restarts += [_restart(loaded, node_id) for node_id in loaded.cluster.nodes]
        return Rolling(restarts, loaded.acknowledged())


def _use(cluster: Cluster, program: Program) -> None:
    for node in cluster.nodes.values():
        node.program = program


def _restart(loaded: LoadedCluster, node_id: int) -> Restart:
    loaded.wait_until_in_sync()
    loaded.bring_leaders_home()
    time.sleep(_SETTLE_S)
    node, led = loaded.cluster.nodes[node_id], loaded.led_by(node_id)
    began = time.time()
    node.stop(_STOP_S)
    stopped = time.time()
    node.spawn()
    node.wait_until_up(_UP_S)
    loaded.wait_until_in_sync()
    in_sync = time.time()
    loaded.bring_leaders_home()
    time.sleep(_SETTLE_S)
    return Restart(node_id, began, time.time(), stopped - began, in_sync - stopped, led)
