"""Transactions under faults: copies that must be exact, and histories for the checker."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from ..checker.acknowledged import ReadBack, Violation, copy_violations, shortened, wrong_records
from ..checker.anomalies import Anomaly
from ..checker.checker import Judgement, judge
from ..checker.history import decode_event, transactions
from ..faults.chaos_cluster import MIN_IN_SYNC, REPLICAS, chaos_cluster
from ..faults.fault_runner import Chaos, Drawn, Fired
from ..loads.acknowledged import copier as copier_module, history_client
from ..loads.acknowledged.producers import JAVA, java_program, producing
from ..loads.acknowledged.steady_producers import LIBRDKAFKA, Stated
from ..measurement_error import MeasurementError
from ..processes.cluster import Cluster, Kind
from ..requests.admin import create_topic
from ..requests.probe import NotUpError
from .durability import read_back
from .in_sync import InSyncWatch

PARTITIONS = 3
RATE = 30
RECORD_BYTES = 100
RECORDS_A_COMMIT = 100
PROCESSES = 6
FAULT_INTERVAL_S = 6.0

_QUICK: Mapping[str, str] = {
    # A killed broker is fenced, and may come back, sooner than after Kafka's 9 s.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
_INTERNAL = ("__transaction_state", "__consumer_offsets")
_HEALTHY_WITHIN_S = 120.0
_COPIED_WITHIN_S = 300.0
_HISTORY_WITHIN_S = 600.0
_POLL_S = 0.5


class Copier:
    """A copying process, which is started again when it ends. Use as a context manager."""

    def __init__(self, client: str, bootstrap: str, source: str, target: str, log: Path) -> None:
        command = [sys.executable, "-m", copier_module.__name__]
        if client == JAVA:
            command = java_program("Copier")
        self.target = target
        self._command = [*command, bootstrap, source, target, target, str(RECORDS_A_COMMIT)]
        self._log = log
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"copier-{client}")
        self.starts = 0

    @property
    def commits(self) -> int:
        return self._lines("committed")

    @property
    def aborts(self) -> int:
        return self._lines("aborted")

    def _lines(self, word: str) -> int:
        with self._log.open(errors="replace") as lines:
            return sum(line.startswith(word) for line in lines)

    def _run(self) -> None:
        while not self._ends.is_set():
            self.starts += 1
            with self._log.open("ab") as log:
                process = subprocess.Popen(self._command, stdout=log, stderr=log)
            while process.poll() is None and not self._ends.wait(_POLL_S):
                pass
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


@dataclass(frozen=True, slots=True)
class Copies:
    """What the copies under kills came to, once each was compared with its source."""

    kills: int
    recovered_s: Sequence[float]
    """After each kill, the seconds until every replica was in sync again."""
    records: Mapping[str, int]
    starts: Mapping[str, int]
    """How often each copier was started."""
    commits: Mapping[str, int]
    aborts: Mapping[str, int]


def run_copies(directory: Path, kind: Kind, clients: Sequence[str], kills: int) -> Copies:
    """Copy with each client while brokers are killed, as often as the cluster is healthy again.

    Raises MeasurementError if an output is not its input, exactly once and in order; NotUpError if
    the cluster does not recover.
    """
    with chaos_cluster(directory, kind, _QUICK) as made, ExitStack() as stack:
        cluster, copiers = made.cluster, dict[str, Copier]()
        sources: list[tuple[str, Stated]] = []
        for client in clients:
            source, target = f"from-{client}", f"to-{client}"
            for topic in (source, target):
                create_topic(
                    cluster.bootstrap, topic, partitions=PARTITIONS, replication_factor=REPLICAS
                )
            log = directory / f"copier-{client}.log"
            copiers[client] = Copier(client, cluster.bootstrap, source, target, log)
            stated = Stated(cluster.bootstrap, source, PARTITIONS, RATE, RECORD_BYTES)
            sources.append((LIBRDKAFKA, stated))
        topics = [f"{end}-{client}" for client in clients for end in ("from", "to")]
        watch = stack.enter_context(InSyncWatch(cluster, [*topics, *_INTERNAL]))
        producers = stack.enter_context(producing(sources, directory))
        for copier in copiers.values():
            stack.enter_context(copier)
        recovered_s = kill_when_healthy(cluster, watch, kills, copiers)
        acknowledged = [producer.stop() for producer in producers]
        wrong, records = list[str](), dict[str, int]()
        for client, sent in zip(clients, acknowledged, strict=True):
            read = read_back(cluster.bootstrap, f"from-{client}", PARTITIONS)
            wrong += wrong_records(sent, read)
            compared = compare_copy(cluster.bootstrap, read, copiers[client])
            wrong += [violation.text for violation in compared]
            records[client] = sum(map(len, read.values()))
        if wrong:
            raise MeasurementError(shortened(wrong))
        return Copies(
            kills,
            recovered_s,
            records,
            {client: copier.starts for client, copier in copiers.items()},
            {client: copier.commits for client, copier in copiers.items()},
            {client: copier.aborts for client, copier in copiers.items()},
        )


def kill_when_healthy(
    cluster: Cluster, watch: InSyncWatch, kills: int, copiers: Mapping[str, Copier]
) -> list[float]:
    """Kill one broker after the other; seconds until all replicas were in sync after each.

    Every copier commits between two kills. Raises NotUpError.
    """
    chance = random.Random("kills")
    recovered_s: list[float] = []
    for _ in range(kills):
        watch.wait_for_all(_HEALTHY_WITHIN_S)
        _wait_for_commits(copiers)
        node = chance.choice(list(cluster.nodes.values()))
        time.sleep(chance.uniform(0.0, 0.5))
        node.kill()
        killed = time.monotonic()
        time.sleep(chance.uniform(0.0, 0.5))
        node.spawn()
        # Until it is fenced, a dead node is still in sync in the eyes of the others.
        node.up(_HEALTHY_WITHIN_S)
        watch.wait_for_all(_HEALTHY_WITHIN_S)
        recovered_s.append(time.monotonic() - killed)
    return recovered_s


def _wait_for_commits(copiers: Mapping[str, Copier]) -> None:
    before = {client: copier.commits for client, copier in copiers.items()}
    deadline = time.monotonic() + _HEALTHY_WITHIN_S
    for client, copier in copiers.items():
        while copier.commits == before[client]:
            if time.monotonic() > deadline:
                raise NotUpError(
                    f"The {client} copier has committed nothing for {_HEALTHY_WITHIN_S:g} s."
                )
            time.sleep(_POLL_S / 5)


def compare_copy(
    bootstrap: str, source: Mapping[int, Sequence[ReadBack]], copier: Copier
) -> list[Violation]:
    """Wait until as much is copied as there is, and say what is not the same."""
    deadline = time.monotonic() + _COPIED_WITHIN_S
    expected = sum(map(len, source.values()))
    while True:
        copied = read_back(bootstrap, copier.target, PARTITIONS)
        if sum(map(len, copied.values())) >= expected or time.monotonic() > deadline:
            return copy_violations(copier.target, source, copied)
        time.sleep(_POLL_S)


class JudgedHistory(NamedTuple):
    """One history: how many acts it has, and what the checker says."""

    acts: int
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Histories:
    """All histories of a run, in none of which was anything that Kafka does not allow."""

    judged: Sequence[JudgedHistory]
    faults: Sequence[Fired]

    def count(self, anomaly: Anomaly) -> int:
        """In how many histories an anomaly was."""
        return sum(anomaly in each.judgement.counts for each in self.judged)


def run_histories(directory: Path, kind: Kind, histories: int, acts: int) -> Histories:
    """Let processes send, poll, commit and crash under faults, and judge each history.

    Raises MeasurementError if one shows what Kafka does not allow, or does not end; its events
    are in the directory.
    """
    judged: list[JudgedHistory] = []
    with chaos_cluster(directory, kind, _QUICK) as made:
        chance = random.Random("histories")
        schedule = Drawn(chance, FAULT_INTERVAL_S, longest_s=FAULT_INTERVAL_S)
        watch = InSyncWatch(made.cluster, _INTERNAL)

        def is_quorate() -> bool:
            """So many are in sync that transactions can go on."""
            return len(watch.now().nodes) >= MIN_IN_SYNC

        with Chaos(made.cluster, made.links, schedule, "histories", may_begin=is_quorate) as chaos:
            for number in range(histories):
                topic = f"history-{number}"
                judged.append(_history(made.cluster, directory, topic, acts, number))
        if chaos.errors:
            raise MeasurementError(f"A fault could not be done: {chaos.errors[0]}")
        return Histories(judged, chaos.faults)


def create_under_faults(
    bootstrap: str, topic: str, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic however long it takes; an attempt of unknown outcome may have done it.

    Raises MeasurementError.
    """
    deadline = time.monotonic() + _HEALTHY_WITHIN_S
    while True:
        try:
            create_topic(
                bootstrap, topic, config, partitions=PARTITIONS, replication_factor=REPLICAS
            )
        except Exception as error:
            if "TOPIC_ALREADY_EXISTS" in str(error):
                return
            if time.monotonic() > deadline:
                raise MeasurementError(f"{topic} could not be created: {error}") from error
            time.sleep(_POLL_S)
        else:
            return


def _history(cluster: Cluster, directory: Path, topic: str, acts: int, seed: int) -> JudgedHistory:
    judged = judged_history(cluster.bootstrap, directory, topic, acts, seed)
    if judged.judgement.illegal:
        messages = [f"{case.anomaly}: {case.text}." for case in judged.judgement.illegal]
        raise MeasurementError(f"{events_of(directory, topic)}: {shortened(messages)}")
    return judged


def events_of(directory: Path, topic: str) -> Path:
    """Where the events of a history are."""
    return directory / f"{topic}.events"


def judged_history(
    bootstrap: str,
    directory: Path,
    topic: str,
    acts: int,
    seed: int,
    started: Callable[["subprocess.Popen[bytes]"], None] = lambda process: None,
) -> JudgedHistory:
    """Let processes work on a new topic for so many acts, and judge what they saw.

    `started` gets the operating system's process that plays them all. Raises MeasurementError if it
    does not end, or fails.
    """
    create_under_faults(bootstrap, topic)
    numbers = (PARTITIONS, PROCESSES, acts, seed)
    command = [sys.executable, "-m", history_client.__name__, bootstrap, topic]
    events, errors = events_of(directory, topic), directory / f"{topic}.errors"
    with events.open("wb") as output, errors.open("wb") as error_log:
        process = subprocess.Popen(
            [*command, *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=error_log,
        )
    started(process)
    try:
        code = process.wait(_HISTORY_WITHIN_S)
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"{topic} did not end within {_HISTORY_WITHIN_S:g} s.") from None
    finally:
        process.kill()
        process.wait()
    if code:
        said = errors.read_text(errors="replace")[-2_000:]
        raise MeasurementError(f"{topic} ended with exit code {code}:\n{said}")
    with events.open() as lines:
        history = [decode_event(line) for line in lines]
    return JudgedHistory(acts, judge(transactions(history)))
