"""The leader of partitions is killed again and again under load (SIGKILL).

A partition is unavailable from the kill until its next record is acknowledged: the controller
notices the death and elects another leader, brokers hear of it, and clients find it. The process
that dies may be the active controller, too; then another controller is elected before.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..processes.cluster import Kind
from .cluster_load import ClientAnswers, LoadedCluster, Place, loaded_cluster

_ELECTED_WITHIN_S = 90.0
_UP_S = 180.0
_SETTLE_S = 3.0

DEATH_HINT = {"tierlog.broker.death.hint": "true"}


@dataclass(frozen=True, slots=True)
class LeaderKill:
    """One kill; the times are those of `time.time`."""

    node_id: int
    killed: float
    settled: float
    elected_s: float
    """From the kill until all partitions that it led have other leaders in some broker's eyes."""
    led: Sequence[Place]


@dataclass(frozen=True, slots=True)
class LeaderKills:
    """All kills, and what was acknowledged meanwhile."""

    kills: Sequence[LeaderKill]
    answers: ClientAnswers

    def unavailable_s(self, client: str) -> list[float]:
        """For each kill, the time until all partitions that the node led have acknowledged."""
        return [
            max(self.answers.gaps_s(client, kill.led, (kill.killed, kill.settled)), default=0.0)
            for kill in self.kills
        ]


def kill_leaders(
    directory: Path,
    kind: Kind,
    kills: int,
    properties: Mapping[str, str] | None = None,
    *,
    with_controller: bool,
) -> LeaderKills:
    """Kill a leader so often; with or without the active controller in its process.

    Raises MeasurementError if something acknowledged is lost, doubled or reordered; NotUpError if
    no leader is elected, or a node does not come back.
    """
    with loaded_cluster(directory, kind, properties) as loaded:
        done = [_kill_once(loaded, at, with_controller) for at in range(kills)]
        return LeaderKills(done, loaded.acknowledged())


def _kill_once(loaded: LoadedCluster, at: int, with_controller: bool) -> LeaderKill:
    loaded.wait_until_in_sync()
    loaded.bring_leaders_home()
    time.sleep(_SETTLE_S)
    active = loaded.cluster.wait_for_leader().node_id
    others = [node for node in loaded.cluster.nodes if node != active]
    node_id = active if with_controller else others[at % len(others)]
    led = loaded.led_by(node_id)
    killed = time.time()
    loaded.cluster.nodes[node_id].kill()
    loaded.wait_until_led_by_others(node_id, _ELECTED_WITHIN_S)
    elected = time.time()
    time.sleep(_SETTLE_S)
    settled = time.time()
    loaded.cluster.nodes[node_id].spawn()
    loaded.cluster.nodes[node_id].wait_until_up(_UP_S)
    return LeaderKill(node_id, killed, settled, elected - killed, led)
