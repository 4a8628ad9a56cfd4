"""The model of `tierlog-bench size`, held against clusters of this machine.

Each figure `X` of a run has a second one, `X_model_ratio`: what the model says divided by what was
measured. 1 is right, 2 is twice too much.

- `N brokers, P partitions, RF R, idle`: memory, CPU and open files of a node (the mean over all),
  the size of the metadata log, the time from the death of a broker until the last of its partitions
  has another leader, and that of a broker's start after it has stopped cleanly. The death hint is
  on, so that a death is noticed after 2.25 s rather than 9, and so is the clean restart.
- `5 MB/s, linger 2 ms, …`: one partition at a fixed rate. CPU of its leader, the mean CPU of its
  followers, and the fetches that the leader answers in a second. The size of the batches is what
  came of the rate and the linger, and the model gets it.

Three nodes are controllers; further ones are brokers only. Nodes share this machine's cores with
each other and the clients: CPU seconds bear that, times do not, so times are worth something on a
quiet machine only.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from ...harness.loads.client_process import ClientError
from ...harness.measurement_error import MeasurementError
from ...harness.processes.cluster import Cluster, ClusterNode, Seat
from ...harness.processes.process_usage import read_usage
from ...harness.requests.probe import NotUpError
from ...harness.requests.wire import WireError
from ...harness.targets.node_target import topic_config
from ...harness.targets.target import RunningTarget, Target
from ...recorder import MEBIBYTE, Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ...sizing import idle_cluster as idle
from ...sizing.costs import MEASURED
from ...sizing.loaded_cluster import METRICS, Steady, under_load
from ...sizing.runs import RUNS, IdleRun, LoadRun
from .failover import NODES

_PREFIX = "sized-"
_HINTS = {"tierlog.broker.death.hint": "true", "tierlog.broker.clean.restart": "true"}
_SETTLE_S = {Scale.SMOKE: 1.0, Scale.SMALL: 8.0, Scale.FULL: 15.0}
_WATCH_S = {Scale.SMOKE: 2.0, Scale.SMALL: 20.0, Scale.FULL: 60.0}
_LOAD_S = {Scale.SMOKE: 2.0, Scale.SMALL: 10.0, Scale.FULL: 30.0}
_LEAST = 1e-6
_EMPTY = IdleRun(NODES, 0, NODES)
_FIVE_MEGABYTES = LoadRun(5, 2, NODES)


@dataclass(frozen=True, slots=True)
class IdleCluster(Case):
    """A cluster without clients."""

    size: IdleRun = _EMPTY


@dataclass(frozen=True, slots=True)
class LoadedCluster(Case):
    """Three brokers, and one partition under a load."""

    load: LoadRun = _FIVE_MEGABYTES


def _case(run: IdleRun | LoadRun) -> Case:
    if isinstance(run, IdleRun):
        return IdleCluster(run.name, run.tiered, run)
    return LoadedCluster(run.name, load=run)


_SMOKE = (IdleRun(3, 30, NODES), LoadRun(1, 5, NODES, 1))
_FULL = (*RUNS, IdleRun(3, 3_000, NODES), LoadRun(40, 20, NODES, 2))
_CASES: Mapping[Scale, Sequence[Case]] = {
    scale: tuple(_case(run) for run in runs)
    for scale, runs in ((Scale.SMOKE, _SMOKE), (Scale.SMALL, RUNS), (Scale.FULL, _FULL))
}


class Sizing:
    """Each run starts a new cluster; see the top of this file."""

    name = "sizing"
    summary = "what partitions, batches and fetches cost a cluster, and model ÷ measured"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return _CASES[scale]

    def plan(self, scale: Scale) -> Plan:
        repeats = 2 if scale is Scale.FULL else 1
        seconds = 10 + _SETTLE_S[scale] + _WATCH_S[scale]
        return Plan(0, repeats, "run", expected_seconds=repeats * seconds)

    def refuses(self, case: Case, target: Target) -> str | None:
        return None if target.name == "tierlog" else "the model is that of tierlog"

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        directory = target.directory / "cluster"
        brokers = case.size.brokers if isinstance(case, IdleCluster) else NODES
        properties = {**_HINTS, **METRICS}
        if case.tiered:
            properties |= idle.tier_of(target.directory / "tier")
        cluster = Cluster(directory, _seats(brokers), properties)
        try:
            with cluster:
                cluster.wait_until_caught_up()
                if isinstance(case, IdleCluster):
                    _measure_idle(case.size, cluster, recorder, scale)
                else:
                    assert isinstance(case, LoadedCluster)
                    _measure_load(case.load, cluster, recorder, scale)
        except (NotUpError, WireError, ClientError) as error:
            raise MeasurementError(f"{error}\n{cluster.log_tails()}") from error


def _seats(brokers: int) -> dict[int, Seat]:
    roles = ["broker,controller"] * NODES + ["broker"] * (brokers - NODES)
    return {at: Seat("tierlog", each) for at, each in enumerate(roles, 1)}


def _record(recorder: Recorder, measured: Mapping[str, float], model: Mapping[str, float]) -> None:
    """Record what was measured, and what the model says divided by it."""
    for metric, value in measured.items():
        recorder.figure(metric, value)
        if metric in model:
            recorder.figure(f"{metric}_model_ratio", model[metric] / max(value, _LEAST))


# -- Idle clusters --------------------------------------------------------------------------------


def _measure_idle(size: IdleRun, cluster: Cluster, recorder: Recorder, scale: Scale) -> None:
    node = cluster.brokers[0]
    measured: dict[str, float] = {}
    empty_bytes = idle.metadata_log_bytes(node)
    if size.partitions:
        began = time.perf_counter()
        config = topic_config(size.tiered)
        idle.create_topics(node, _PREFIX, size.partitions, size.replicas, config)
        idle.wait_until_in_sync(node, _PREFIX, size.partitions, size.replicas)
        measured["create_s"] = time.perf_counter() - began
        measured["metadata_mb"] = (idle.metadata_log_bytes(node) - empty_bytes) / 1e6
    time.sleep(_SETTLE_S[scale])
    figures = idle.watch(cluster, _WATCH_S[scale]).values()
    measured |= {
        "resident_mib": mean(figure.resident_bytes for figure in figures) / MEBIBYTE,
        "idle_cpu_s_per_minute": mean(figure.idle_cores for figure in figures) * 60,
        "busiest_cpu_s_per_minute": max(figure.idle_cores for figure in figures) * 60,
        "open_files": mean(figure.open_files for figure in figures),
    }
    lead = cluster.wait_for_leader()
    other = next(node for node in cluster.brokers if node.node_id != lead.node_id)
    if size.partitions and size.replicas > 1:
        died = idle.fail_over(cluster, other, _PREFIX)
        measured |= {"failover_s": died.last_s, "failover_partitions_count": died.led}
        other.start()
        idle.wait_until_in_sync(node, _PREFIX, size.partitions, size.replicas)
    measured |= _restart(other)
    _record(recorder, measured, size.model(MEASURED))


def _restart(node: ClusterNode) -> dict[str, float]:
    """The node stops cleanly and starts again while the others run."""
    node.stop()
    seconds = node.start()
    return {"restart_s": seconds, "restart_cpu_s": read_usage(node.pid).cpu_seconds}


# -- Loads ----------------------------------------------------------------------------------------


def _measure_load(load: LoadRun, cluster: Cluster, recorder: Recorder, scale: Scale) -> None:
    controller = cluster.wait_for_leader().node_id
    others = [node_id for node_id in cluster.nodes if node_id != controller]
    leader, followers = others[0], [*others[1:], controller][: load.replicas - 1]
    config = topic_config(tiered=False)
    topic = f"{_PREFIX}0"
    idle.create_placed_topic(cluster.brokers[0], topic, [leader, *followers], config)
    idle.wait_until_in_sync(cluster.brokers[0], topic, 1, load.replicas)
    steady = Steady(load.megabytes, load.linger_ms, load.readers)
    windows = under_load(cluster, topic, steady, _LOAD_S[scale])
    window = windows[leader]
    measured = {
        "mb_per_s": window.produced_mb_per_s,
        "batches_per_s": window.produces_per_s,
        "resident_mib": window.resident_bytes / MEBIBYTE,
        "answered_per_s": window.fetches_per_s,
        "leader_cores": window.cores,
    }
    if followers:
        measured["follower_cores"] = mean(windows[follower].cores for follower in followers)
    _record(recorder, measured, replace(load, figures=measured).model(MEASURED))


SCENARIO: Scenario = Sizing()
