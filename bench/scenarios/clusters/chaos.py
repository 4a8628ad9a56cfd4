"""Three nodes with three replicas of everything, under faults, and four libraries that produce.

Every 10 seconds a broker or the active controller is killed, a process is paused, a link between
two nodes is cut, or a node is restarted; faults overlap. Every producer is idempotent, waits for
acks=all with min.insync.replicas=2 and has its own topic. At the end a consumer reads everything
once: a run that has lost, doubled or reordered an acknowledged record has no figures.
"""

from collections.abc import Sequence

from ...harness.faults.fault_runner import USUAL
from ...harness.processes.cluster import kind_of
from ...harness.targets.target import RunningTarget, Target
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ..percentiles import record_clients, record_percentiles
from .failover import needs_a_cluster

_SECONDS = {Scale.SMOKE: 60.0, Scale.SMALL: 180.0, Scale.FULL: 600.0}
_AROUND_S = 90.0


class Chaos:
    """One run: one cluster, until everything is read back."""

    name = "chaos"
    summary = "three nodes, RF 3: kills, pauses, cut links; nothing acknowledged is lost"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case(f"{_SECONDS[scale] / 60:g} min of faults")]

    def plan(self, scale: Scale) -> Plan:
        return Plan(0, 1, "run", expected_seconds=_SECONDS[scale] + _AROUND_S)

    def refuses(self, case: Case, target: Target) -> str | None:
        return needs_a_cluster(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        # They need confluent-kafka, and a list of the scenarios does not.
        from ...harness.cluster_runs.durability import run
        from ...harness.loads.acknowledged.producers import clients_here

        directory = target.directory / "cluster"
        done = run(directory, kind_of(target.name), clients_here(), _SECONDS[scale])
        for fault in USUAL:
            recorder.figure(f"{fault.name}_faults", done.count(fault.name))
        recorder.figure("ended_by_themselves", len(done.ended_by_themselves))
        record_clients(recorder, done.acknowledged, done.unavailable_s)
        record_percentiles(recorder, "back_in_sync", done.back_in_sync_s())


SCENARIO: Scenario = Chaos()
