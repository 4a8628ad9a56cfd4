"""Three brokers with thousands of partitions: one after the other is killed, and comes back.

Each partition has a replica on each broker, and nobody produces: what is measured is what the
cluster does about the death and the return. `beside busy processes` are four that never rest.

- `led`: seconds from the kill until each partition has a leader that lives;
- `whole`: seconds from the start of the killed broker until each ISR has three members;
- `elections`: of an active controller, in all; a killed one needs one;
- `fenced_though_alive`: how often a broker that lived was fenced;
- `longest_answer`: how long a broker that lives took to answer ApiVersions, at the longest;
- `worst_at_rest_cores`: the CPU of the busiest node before the first kill.
"""

from collections.abc import Sequence

from ...harness.cluster_runs.partition_kills import (
    busy_processes,
    cores_at_rest,
    kill_in_turn,
    wait_until_whole,
)
from ...harness.processes.cluster import Cluster, Kind, combined, kind_of
from ...harness.requests.probe import NotUpError
from ...harness.targets.target import RunningTarget, Target
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ...sizing.idle_cluster import create_topics
from ..percentiles import record_percentiles
from .failover import needs_a_cluster

NODES = 3
_PARTITIONS = {Scale.SMOKE: 60, Scale.SMALL: 3_000, Scale.FULL: 3_000}
_KILLS = {Scale.SMOKE: 1, Scale.SMALL: 3, Scale.FULL: 10}
_BUSY = "beside busy processes"
_BUSY_PROCESSES = 4
_START_S, _KILL_S = 40.0, 40.0


class PartitionKills:
    """One run: all kills of one cluster."""

    name = "partition_kills"
    summary = "3,000 partitions on three brokers: kill -9 of each in turn, quiet and busy"

    def cases(self, scale: Scale) -> Sequence[Case]:
        name = f"{_PARTITIONS[scale]:,} partitions, {_KILLS[scale]} kill(s)"
        return [Case(name), Case(f"{name}, {_BUSY}")]

    def plan(self, scale: Scale) -> Plan:
        return Plan(0, 1, "run", expected_seconds=_START_S + _KILLS[scale] * _KILL_S)

    def refuses(self, case: Case, target: Target) -> str | None:
        return needs_a_cluster(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        kinds: list[Kind] = [kind_of(target.name)] * NODES
        cluster = Cluster(target.directory / "cluster", combined(*kinds))
        partitions = _PARTITIONS[scale]
        try:
            with cluster:
                create_topics(cluster.brokers[0], "many", partitions, NODES, {})
                wait_until_whole(cluster, partitions)
                recorder.figure("worst_at_rest_cores", max(cores_at_rest(cluster)))
                with busy_processes(_BUSY_PROCESSES if case.name.endswith(_BUSY) else 0):
                    kills = list(kill_in_turn(cluster, partitions, _KILLS[scale]))
        except NotUpError as error:
            error.add_note(cluster.log_tails())
            raise
        record_percentiles(recorder, "led", [kill.led_s for kill in kills])
        record_percentiles(recorder, "whole", [kill.whole_s for kill in kills])
        recorder.figure("elections", sum(kill.elections for kill in kills))
        recorder.figure("fenced_though_alive", sum(kill.fenced for kill in kills))
        record_percentiles(recorder, "longest_answer", [kill.longest_answer_s for kill in kills])


SCENARIO: Scenario = PartitionKills()
