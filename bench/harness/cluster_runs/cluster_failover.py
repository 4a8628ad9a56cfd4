"""The active controller of a cluster is killed again and again under a stream of changes.

The time without a controller counts from the kill to the next acknowledgement: it is the
longest time in which no change was acknowledged, before the killed node is started again. So it has
all that clients feel: the election, the new leader's first commit, and the brokers' search for it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..checker.acknowledged import shortened
from ..loads.cluster_changes import Change, ChangeStream, Outcome, wrong_changes
from ..measurement_error import MeasurementError
from ..processes.cluster import Cluster
from ..processes.cluster_log import committed, metadata_records

_ELECTED_WITHIN_S = 60.0
_SERVED_WITHIN_S = 60.0
_SETTLE_S = 1.0


@dataclass(frozen=True, slots=True)
class Failover:
    """One kill: the node that led, when it died and when the stream had settled after it."""

    node_id: int
    killed: float
    settled: float
    elected_s: float
    """Seconds from the kill until another node said that it leads."""


@dataclass(slots=True)
class Failovers:
    """All kills, and the changes meanwhile."""

    kills: list[Failover] = field(default_factory=list[Failover])
    history: list[Change] = field(default_factory=list[Change])

    def unavailable_s(self) -> list[float]:
        """The longest time without an acknowledgement after each kill, in seconds."""
        acknowledged = [
            entry.ended for entry in self.history if entry.outcome is Outcome.ACKNOWLEDGED
        ]
        return [_longest_gap(acknowledged, kill) for kill in self.kills]

    def count(self, outcome: Outcome) -> int:
        return sum(change.outcome is outcome for change in self.history)


def _longest_gap(acknowledged: Sequence[float], kill: Failover) -> float:
    moments = [kill.killed, *sorted(at for at in acknowledged if kill.killed < at <= kill.settled)]
    return max((later - before for before, later in pairwise(moments)), default=0.0)


def kill_controllers(cluster: Cluster, kills: int, name: str = "a") -> Failovers:
    """Kill the active controller so often, and check what became of every change meanwhile.

    The cluster must have three nodes or more and stand; `name` must be another each time. Raises
    MeasurementError if an acknowledged change is lost, one is there twice, a refused one is there,
    or the logs differ; NotUpError if nobody is elected, or a node does not come back.
    """
    failovers = Failovers()
    cluster.wait_until_caught_up()
    with ChangeStream([node.bootstrap for node in cluster.brokers], name) as stream:
        stream.wait_for_acknowledgement(_SERVED_WITHIN_S)
        for _ in range(kills):
            failovers.kills.append(_kill_once(cluster, stream))
        stream.wait_for_acknowledgement(_SERVED_WITHIN_S)
    failovers.history = stream.history
    wrong = wrong_changes(failovers.history, metadata_records(committed(cluster)))
    if wrong:
        raise MeasurementError(shortened(wrong))
    return failovers


def _kill_once(cluster: Cluster, stream: ChangeStream) -> Failover:
    lead = cluster.wait_for_leader(_ELECTED_WITHIN_S)
    killed = time.monotonic()
    cluster.nodes[lead.node_id].kill()
    cluster.wait_for_leader(_ELECTED_WITHIN_S, after_epoch=lead.epoch)
    elected = time.monotonic()
    stream.wait_for_acknowledgement(_SERVED_WITHIN_S)
    time.sleep(_SETTLE_S)
    settled = time.monotonic()
    cluster.nodes[lead.node_id].start()
    cluster.wait_until_caught_up()
    return Failover(lead.node_id, killed, settled, elected - killed)
