"""One torture run: a cluster, its clients, faults for some minutes, and the judges."""

import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..harness.checker.acknowledged import Violation, violations
from ..harness.cluster_runs.batch_producers import blame_clients
from ..harness.cluster_runs.durability import read_back
from ..harness.cluster_runs.exactly_once import compare_copy
from ..harness.cluster_runs.in_sync import InSyncWatch
from ..harness.faults.chaos_cluster import ChaosCluster, chaos_cluster
from ..harness.faults.fault import Fault, Store
from ..harness.faults.fault_runner import Chaos
from ..harness.measurement_error import MeasurementError, message_and_notes
from ..harness.processes.cluster import ClusterNode, Kind
from ..harness.requests.probe import NotUpError
from .load import PARTITIONS, SOURCE, Histories, Load, Pulse, Stress
from .outcome import ClientSeen, CopySeen, Outcome, wrong_of
from .plan import Turns

PROGRESS_S = 10.0
_TICK_S = 0.2
_IN_SYNC_WITHIN_S = 180.0
_AT_ONCE = {3: 2, 5: 3}
_PROPERTIES: Mapping[str, str] = {
    # A killed broker is fenced, and may come back, sooner than after Kafka's 9 s.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Clocks jump by hours, and nothing may be too old.
    "log.retention.ms": "-1",
}
_TIER_PROPERTIES: Mapping[str, str] = {
    "log.retention.check.interval.ms": "5000",
    "remote.log.manager.task.interval.ms": "2000",
}
_SMALL_SEGMENTS = {"segment.bytes": str(1 << 20)}
_TIERED = {**_SMALL_SEGMENTS, "remote.storage.enable": "true", "local.retention.ms": "20000"}


@dataclass(frozen=True, slots=True)
class Order:
    """What a run is to be; all is checked."""

    kind: Kind
    brokers: int
    seconds: float
    seed: int
    faults: Sequence[Fault]
    producers: Sequence[str]
    copiers: Sequence[str]
    acts: int
    """Of each history; 0 for no histories."""
    open_store: Callable[[Path], Store] | None = None
    """Starts the store of a remote tier in a directory; None for no tier."""


def report(message: str) -> None:
    """Show a line of progress."""
    print(message, file=sys.stderr, flush=True)


def run(order: Order, directory: Path, outcome: Outcome) -> None:
    """Do everything, and note in `outcome` what is seen: what has gone wrong, too.

    An interrupt ends the faults early, and what was done is judged.
    """
    with ExitStack() as stack:
        store = None
        properties = dict(_PROPERTIES)
        if order.open_store is not None:
            store = order.open_store(directory)
            stack.callback(store.close)
            properties |= {**_TIER_PROPERTIES, **store.properties}
        report("starting the cluster …")
        try:
            made = stack.enter_context(
                chaos_cluster(
                    directory / "cluster",
                    order.kind,
                    properties,
                    nodes=order.brokers,
                    has_client_links=True,
                    prepare=partial(_prepare, order.faults),
                )
            )
            _on_cluster(order, made, directory, store, outcome)
        except MeasurementError as error:
            outcome.failures.append(message_and_notes(error))


def _prepare(faults: Sequence[Fault], node: ClusterNode) -> None:
    for fault in faults:
        fault.prepare(node)


def _on_cluster(
    order: Order, made: ChaosCluster, directory: Path, store: Store | None, outcome: Outcome
) -> None:
    tiered = None if store is None else _TIERED
    stress = Stress(order.producers, order.copiers, order.acts, _SMALL_SEGMENTS, tiered)
    schedule = Turns(
        order.faults, random.Random(order.seed), order.seconds, _AT_ONCE.get(order.brokers, 2)
    )
    outcome.tallies = schedule.tallies
    with (
        Load(made.bootstrap, directory, stress, order.seed) as load,
        InSyncWatch(made.cluster, None) as watch,
    ):
        began = time.time()
        chaos = Chaos(
            made.cluster,
            made.links,
            schedule,
            str(order.seed),
            may_begin=Pulse(load.records).beats,
            all_in_sync=watch.is_everything_in_sync,
            store=store,
        )
        try:
            with chaos:
                _watch_progress(order, load, chaos)
            outcome.seconds = time.time() - began
            schedule.end()
            _judge(made, watch, load, outcome, began, chaos)
        finally:
            outcome.seconds = outcome.seconds or time.time() - began
            outcome.ended_by_themselves += chaos.ended_by_themselves
            outcome.fault_errors = list(chaos.errors)
            if not outcome.faults:
                outcome.say_faults(chaos.faults, watch.history, began)


def _watch_progress(order: Order, load: Load, chaos: Chaos) -> None:
    began = time.monotonic()
    next_at = PROGRESS_S
    try:
        while (at := time.monotonic() - began) < order.seconds:
            if at >= next_at:
                next_at += PROGRESS_S
                under_way = ", ".join(chaos.under_way()) or "nothing"
                report(
                    f"{at:5.0f} s  {load.records():9,} records  {len(chaos.faults):4} faults  "
                    f"under way: {under_way}"
                )
            time.sleep(_TICK_S)
    except KeyboardInterrupt:
        report("interrupted: no more faults; what was done is judged …")


def _judge(
    made: ChaosCluster,
    watch: InSyncWatch,
    load: Load,
    outcome: Outcome,
    began: float,
    chaos: Chaos,
) -> None:
    """Wait until all is well again, end the clients, and compare.

    Raises MeasurementError.
    """
    report("all faults are over: waiting until every replica is in sync …")
    try:
        watch.wait_for_all(_IN_SYNC_WITHIN_S)
    except NotUpError as error:
        # What was acknowledged must be there even so.
        outcome.failures.append(str(error))
    finally:
        outcome.say_faults(chaos.faults, watch.history, began)
    report("ending the clients, and waiting for the last acknowledgements …")
    outcome.failures += load.stop()
    moments = [began + fault.began_s for fault in outcome.faults]
    for producing in load.producing:
        seen = ClientSeen(producing.name)
        outcome.clients.append(seen)
        outcome.ended_by_themselves += producing.ended_by_itself
        for read_answers in producing.answered():
            answered = read_answers()
            seen.add(answered.acknowledged, began, moments)
            report(f"reading {answered.topic}: {answered.acknowledged.records:,} acknowledged …")
            try:
                read = read_back(made.cluster.bootstrap, answered.topic, PARTITIONS)
                wrong = violations(answered.acknowledged, read)
                wrong = blame_clients(made.cluster.bootstrap, answered.topic, wrong)
            except MeasurementError as error:
                # The others are judged all the same.
                outcome.failures.append(str(error))
                continue
            _note(outcome, producing.name, wrong)
            if answered.topic == SOURCE:
                for client, copier in load.copiers.items():
                    report(f"comparing the copy of {client} …")
                    wrong = compare_copy(made.cluster.bootstrap, read, copier)
                    _note(outcome, f"copy by {client}", wrong)
                    outcome.copies.append(
                        CopySeen(
                            client,
                            sum(map(len, read.values())),
                            copier.commits,
                            copier.aborts,
                            copier.starts,
                        )
                    )
    _note_histories(outcome, load.histories)


def _note(outcome: Outcome, who: str, wrong: Sequence[Violation]) -> None:
    outcome.violations += [(who, violation) for violation in wrong]


def _note_histories(outcome: Outcome, histories: Histories) -> None:
    seen = outcome.histories
    seen.inconclusive = len(histories.inconclusive)
    for topic, judged in histories.judged.items():
        seen.judged += 1
        seen.acts += judged.acts
        illegal = {case.anomaly for case in judged.judgement.illegal}
        seen.anomalies.update(
            str(anomaly) for anomaly in judged.judgement.counts if anomaly not in illegal
        )
        wrong = [
            Violation(wrong_of(case.anomaly), f"{case.anomaly}: {case.text}.")
            for case in judged.judgement.illegal
        ]
        _note(outcome, topic, wrong)
