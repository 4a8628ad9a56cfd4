"""Three nodes, each controller and broker, that nobody uses: start, memory, and CPU while idle.

All start at once on formatted storage, and a node is unfenced when the Metadata that it answers
lists itself. The active controller and the standbys are separate rows, for their work differs; of
two standbys, the worse counts.
"""

import time
from collections.abc import Sequence

from ...harness.measurement_error import MeasurementError
from ...harness.processes.cluster import Cluster, Kind, combined, kind_of
from ...harness.processes.process_usage import read_usage
from ...harness.targets.target import RunningTarget, Target
from ...recorder import MEBIBYTE, Recorder
from ...scenario import Case, Plan, Scale, Scenario
from .failover import NODES, needs_a_cluster

_SETTLE_S = {Scale.SMOKE: 1.0, Scale.SMALL: 10.0, Scale.FULL: 10.0}
_WATCH_S = {Scale.SMOKE: 2.0, Scale.SMALL: 30.0, Scale.FULL: 60.0}
_REPEATS = {Scale.SMOKE: 1, Scale.SMALL: 1, Scale.FULL: 3}
_START_S = 20.0


class ThreeNodes:
    """One run: a new cluster, its start and a quiet minute."""

    name = "three_nodes"
    summary = "three nodes: seconds until the third is unfenced, memory and idle CPU of each"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [Case("three empty nodes")]

    def plan(self, scale: Scale) -> Plan:
        seconds = _START_S + _SETTLE_S[scale] + _WATCH_S[scale]
        repeats = _REPEATS[scale]
        return Plan(0, repeats, "run", expected_seconds=repeats * seconds)

    def refuses(self, case: Case, target: Target) -> str | None:
        return needs_a_cluster(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        kinds: list[Kind] = [kind_of(target.name)] * NODES
        seats = combined(*kinds)
        cluster = Cluster(target.directory / "cluster", seats)
        up = cluster.start()
        try:
            recorder.figure("first_unfenced_s", min(up.values()))
            recorder.figure("third_unfenced_s", max(up.values()))
            cluster.wait_until_caught_up()
            _watch(cluster, recorder, scale)
        finally:
            cluster.kill()


def _watch(cluster: Cluster, recorder: Recorder, scale: Scale) -> None:
    """Memory and CPU of each node; the start does not count."""
    started = {node_id: read_usage(node.pid) for node_id, node in cluster.nodes.items()}
    time.sleep(_SETTLE_S[scale])
    lead = cluster.wait_for_leader()
    before = {node_id: read_usage(node.pid) for node_id, node in cluster.nodes.items()}
    began = time.monotonic()
    time.sleep(_WATCH_S[scale])
    minutes = (time.monotonic() - began) / 60
    after = {node_id: read_usage(node.pid) for node_id, node in cluster.nodes.items()}
    if cluster.wait_for_leader() != lead:
        raise MeasurementError("Another controller was elected in an idle cluster.")
    standbys = [node_id for node_id in cluster.nodes if node_id != lead.node_id]
    for role, node_ids in (("active", [lead.node_id]), ("standby", standbys)):
        recorder.figure(f"{role}_start_cpu_s", max(started[each].cpu_seconds for each in node_ids))
        resident = max(after[each].resident_bytes for each in node_ids)
        recorder.figure(f"{role}_resident_mib", resident / MEBIBYTE)
        used = max(after[each].cpu_seconds - before[each].cpu_seconds for each in node_ids)
        recorder.figure(f"{role}_idle_cpu_s_per_minute", used / minutes)


SCENARIO: Scenario = ThreeNodes()
