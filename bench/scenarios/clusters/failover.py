"""Three nodes lose a process (SIGKILL), again and again: the active controller, or a leader.

Every node is controller and broker, so each kill takes both.

- `kills of the active controller`, under a stream of changes. After the last kill, every change is
  held against the committed metadata log: a cluster that lost an acknowledged change, made one
  twice or made a refused one gets no figures.
- `kills of a leader`, under the load of librdkafka and Java (acks=all, idempotent, three replicas,
  two in sync). The process is not the active controller's. `CLIENT_unavailable` is the time from
  the kill until every partition that it led has acknowledged a record; a cluster that has lost,
  doubled or reordered an acknowledged record gets no figures.
- `kills of a leader and active controller`: both are in the process.
- `…, death hint`: with `tierlog.broker.death.hint=true`; tierlog only.
"""

from collections.abc import Sequence
from statistics import median

from ...harness.cluster_runs.cluster_failover import kill_controllers
from ...harness.loads.cluster_changes import Outcome
from ...harness.processes.cluster import Cluster, Kind, combined, kind_of
from ...harness.requests.probe import NotUpError
from ...harness.targets.target import RunningTarget, Target
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ..percentiles import record_clients, record_percentiles

NODES = 3
_KILLS = {Scale.SMOKE: 2, Scale.SMALL: 10, Scale.FULL: 10}
_LEADER_KILLS = {Scale.SMOKE: 1, Scale.SMALL: 5, Scale.FULL: 20}
_START_S, _KILL_S, _LEADER_KILL_S = 20.0, 15.0, 30.0
_HINT = ", death hint"
_LEADER = "kills of a leader"
_BOTH = "kills of a leader and active controller"
_PROPERTIES = {
    # The log is compared from its first record on, and must not grow while it is.
    "metadata.max.idle.interval.ms": "0",
}


class Failover:
    """One run: all kills of one cluster."""

    name = "failover"
    summary = "three nodes: kill -9 of the active controller, of a leader; nothing is lost"

    def cases(self, scale: Scale) -> Sequence[Case]:
        kills = _LEADER_KILLS[scale]
        names = [f"{kills} {kind}{hint}" for hint in ("", _HINT) for kind in (_LEADER, _BOTH)]
        return [Case(f"{_KILLS[scale]} kills of the active controller"), *map(Case, names)]

    def plan(self, scale: Scale) -> Plan:
        kills_s = max(_KILLS[scale] * _KILL_S, _LEADER_KILLS[scale] * _LEADER_KILL_S)
        return Plan(0, 1, "run", expected_seconds=_START_S + kills_s)

    def refuses(self, case: Case, target: Target) -> str | None:
        reason = needs_a_cluster(target)
        if reason is None and case.name.endswith(_HINT) and target.name == "kafka":
            reason = "tierlog.broker.death.hint is tierlog's own"
        return reason

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        if _LEADER in case.name:
            _kill_leaders(case, target, recorder, scale)
        else:
            _kill_controllers(target, recorder, scale)


def _kill_controllers(target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
    kinds: list[Kind] = [kind_of(target.name)] * NODES
    cluster = Cluster(target.directory / "cluster", combined(*kinds), _PROPERTIES)
    try:
        with cluster:
            failovers = kill_controllers(cluster, _KILLS[scale])
    except NotUpError as error:
        error.add_note(cluster.log_tails())
        raise
    unavailable = failovers.unavailable_s()
    elected = [kill.elected_s for kill in failovers.kills]
    for name, seconds in (("unavailable", unavailable), ("election", elected)):
        recorder.figure(f"median_{name}_s", median(seconds))
        recorder.figure(f"worst_{name}_s", max(seconds))
    for outcome in Outcome:
        recorder.figure(f"{outcome.value}_changes", failovers.count(outcome))


def _kill_leaders(case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
    # It needs confluent-kafka, and a list of the scenarios does not.
    from ...harness.cluster_runs.leader_failover import DEATH_HINT, kill_leaders

    done = kill_leaders(
        target.directory / "cluster",
        kind_of(target.name),
        _LEADER_KILLS[scale],
        DEATH_HINT if case.name.endswith(_HINT) else None,
        with_controller=_BOTH in case.name,
    )
    record_clients(recorder, done.answers.acknowledged, done.unavailable_s)
    record_percentiles(recorder, "elected", [kill.elected_s for kill in done.kills])


def needs_a_cluster(target: Target) -> str | None:
    """The reason why a target cannot be started as several nodes; None if it can."""
    return None if "quorum" in target.capabilities else "several nodes of it cannot be started"


SCENARIO: Scenario = Failover()
