"""Transactions on three nodes with three replicas, under faults: exact copies and legal histories.

A copy reads records, writes them and commits its positions in one transaction, with librdkafka and
with Java, while a random broker is killed whenever all replicas are in sync again; at the end the
output is the input, exactly once and in order. A history is what six processes sent, polled,
committed and aborted under faults of all kinds, of which the checker of `bench/harness/checker`
accepts only what Kafka allows. `broker.session.timeout.ms` is 4000, so that a killed broker is back
sooner.
"""

import shutil
from collections.abc import Sequence

from ...harness.checker.anomalies import Anomaly
from ...harness.processes.cluster import kind_of
from ...harness.targets.target import RunningTarget, Target
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ..percentiles import record_percentiles
from .failover import needs_a_cluster

_KILLS = {Scale.SMOKE: 3, Scale.SMALL: 20, Scale.FULL: 200}
_HISTORIES = {Scale.SMOKE: 1, Scale.SMALL: 5, Scale.FULL: 50}
_ACTS = {Scale.SMOKE: 500, Scale.SMALL: 5_000, Scale.FULL: 5_000}
_KILL_S = 7.0
# 50 histories took 70 minutes on two cores.
_HISTORY_S = 84.0
_AROUND_S = 60.0


class ChaosTransactions:
    """One run: a cluster for the copies, or one for the histories."""

    name = "chaos_transactions"
    summary = "three nodes, RF 3: exact copies under kills, and histories that only show the legal"

    def cases(self, scale: Scale) -> Sequence[Case]:
        histories = f"{_HISTORIES[scale]} × {_ACTS[scale]} acts"
        return [Case(f"copies, {_KILLS[scale]} kills"), Case(f"histories, {histories}")]

    def plan(self, scale: Scale) -> Plan:
        seconds = (_KILLS[scale] * _KILL_S + _HISTORIES[scale] * _HISTORY_S) / 2
        return Plan(0, 1, "run", expected_seconds=seconds + _AROUND_S)

    def refuses(self, case: Case, target: Target) -> str | None:
        return needs_a_cluster(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        measure = _copies if case.name.startswith("copies") else _histories
        measure(target, recorder, scale)


def _copies(target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
    # It needs confluent-kafka, and a list of the scenarios does not.
    from ...harness.cluster_runs.exactly_once import run_copies
    from ...harness.loads.acknowledged.producers import JAVA
    from ...harness.loads.acknowledged.steady_producers import LIBRDKAFKA

    clients = [LIBRDKAFKA, *([JAVA] if shutil.which("javac") and shutil.which("mvn") else [])]
    directory = target.directory / "cluster"
    copies = run_copies(directory, kind_of(target.name), clients, _KILLS[scale])
    recorder.figure("kills", copies.kills)
    record_percentiles(recorder, "recovered", copies.recovered_s)
    for client in clients:
        recorder.figure(f"{client}_records", copies.records[client])
        recorder.figure(f"{client}_commits", copies.commits[client])
        recorder.figure(f"{client}_aborts", copies.aborts[client])
        recorder.figure(f"{client}_starts", copies.starts[client])


def _histories(target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
    from ...harness.cluster_runs.exactly_once import run_histories

    directory = target.directory / "cluster"
    kind = kind_of(target.name)
    histories = run_histories(directory, kind, _HISTORIES[scale], _ACTS[scale])
    recorder.figure("histories", len(histories.judged))
    recorder.figure("acts", sum(each.acts for each in histories.judged))
    recorder.figure("faults", len(histories.faults))
    lags = [each.judgement.worst_realtime_lag_s for each in histories.judged]
    recorder.figure("worst_realtime_lag_s", max(lags))
    for anomaly in Anomaly:
        recorder.figure(f"histories_with_{anomaly}", histories.count(anomaly))


SCENARIO: Scenario = ChaosTransactions()
