"""Three nodes lose their active controller, again and again, under a stream of changes.

Every node is controller and broker. Each kill (SIGKILL) takes both, so that clients of that broker
must turn to another. After the last kill, every change is held against the committed metadata log:
a cluster that lost an acknowledged change, made one twice or made a refused one gets no figures.
"""

from collections.abc import Sequence
from statistics import median

from ..cluster import Cluster, Kind, combined, kind_of
from ..cluster_changes import Outcome
from ..cluster_failover import kill_controllers
from ..probe import NotUpError
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from ..target import MeasurementError, RunningTarget, Target

NODES = 3
_KILLS = {Scale.SMOKE: 2, Scale.SMALL: 10, Scale.FULL: 10}
_START_S, _KILL_S = 20.0, 15.0
_PROPERTIES = {
    # The log is compared from its first record on, and must not grow while it is.
    "metadata.max.idle.interval.ms": "0",
}


class Failover:
    """One run: all kills of one cluster."""

    name = "failover"
    summary = "three nodes: kill -9 of the active controller under changes; none is lost"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case(f"{_KILLS[scale]} kills of the active controller")]

    def plan(self, scale: Scale) -> Plan:
        return Plan(0, 1, "run", expected_seconds=_START_S + _KILLS[scale] * _KILL_S)

    def refuses(self, case: Case, target: Target) -> str | None:
        return needs_a_cluster(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        kinds: list[Kind] = [kind_of(target.name)] * NODES
        seats = combined(*kinds)
        cluster = Cluster(target.directory / "cluster", seats, _PROPERTIES)
        try:
            with cluster:
                failovers = kill_controllers(cluster, _KILLS[scale])
        except NotUpError as error:
            raise MeasurementError(f"{error}\n{cluster.log_tails()}") from error
        unavailable = failovers.unavailable_s()
        elected = [kill.elected_s for kill in failovers.kills]
        for name, seconds in (("unavailable", unavailable), ("election", elected)):
            recorder.figure(f"median_{name}_s", median(seconds))
            recorder.figure(f"worst_{name}_s", max(seconds))
        for outcome in Outcome:
            recorder.figure(f"{outcome.value}_changes", failovers.count(outcome))


def needs_a_cluster(target: Target) -> str | None:
    """The reason why a target cannot be started as several nodes; None if it can."""
    return None if "quorum" in target.capabilities else "several nodes of it cannot be started"


SCENARIO: Scenario = Failover()
