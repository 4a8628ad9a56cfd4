"""More cores: throughput against the number of broker processes on this machine.

One process is one event loop, and uses about one core. So a machine's cores are used by a cluster
of several processes. A case is a number of processes (one, two, three, and on up to one more than
there are cores) and a replication factor: with 1 the load is shared out, with as many replicas as
processes (at most three) each record is written that often, too. In one more case, as many
processes as cores have a core each (`pinned`); the clients may use all. Apache Kafka, which uses
all cores with one process, is measured as one process.

Each run starts a new cluster, where every node is controller and broker, and does the same at each:
for each size of batch, as many clients as processes (at least two) produce to a topic each, whose
partitions are spread evenly, and then consume it. Every shape is run once before it counts, because
a JVM has to compile. The clients are on this machine as well, and take their share of its cores:
`client_cpu_s_per_gb` says how much. `busiest_process_cores` is the CPU time of the process that
used most, divided by the time of the load: near 1 that process is the limit; far below, the clients
or the machine are.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from ...harness.loads.client_process import ClientError, start_client
from ...harness.loads.load import Load
from ...harness.measurement_error import MeasurementError
from ...harness.processes.cluster import Cluster, Kind, combined, kind_of
from ...harness.processes.process_usage import read_usage
from ...harness.requests.probe import NotUpError
from ...harness.targets.several_nodes import SeveralNodes
from ...harness.targets.target import RunningTarget, Target
from ...page_cache import fill_page_cache, write_back
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ..throughput import CONSUME, PRODUCE
from .failover import needs_a_cluster

_KIB = 1024
_LEAST_PROCESSES_MAX = 3
_REPLICAS_MAX = 3
_CLIENTS_MIN = 2
_PARTITIONS_OF_A_PROCESS = 6
_CLIENT_WITHIN_S = 600.0
_EXPECTED_S = {Scale.SMOKE: 8.0, Scale.SMALL: 45.0, Scale.FULL: 300.0}


class _Batches(NamedTuple):
    """A size of batches, and how many megabytes all clients send and read together."""

    nbytes: int
    megabytes: int


_BATCHES = {
    Scale.SMOKE: (_Batches(16 * _KIB, 10),),
    Scale.SMALL: (_Batches(2 * _KIB, 30), _Batches(16 * _KIB, 300), _Batches(128 * _KIB, 600)),
    Scale.FULL: (_Batches(2 * _KIB, 120), _Batches(16 * _KIB, 1_200), _Batches(128 * _KIB, 2_400)),
}


def process_counts(cores: int) -> list[int]:
    """The numbers of processes to measure on a machine with so many cores: 1, 2, 3, then doubling,
    the cores and one more."""
    counts = {1, 2, _LEAST_PROCESSES_MAX, max(cores, 1), cores + 1}
    doubled = 4
    while doubled <= cores:
        counts.add(doubled)
        doubled *= 2
    return sorted(counts)


@dataclass(frozen=True, slots=True)
class Processes(Case):
    """So many broker processes, and replicas of each partition."""

    processes: int = 1
    replicas: int = 1
    is_pinned: bool = False
    """Each process may use one core only, and no two the same while there are enough."""

    @property
    def clients(self) -> int:
        """Client processes, each with a topic of its own."""
        return max(_CLIENTS_MIN, self.processes)

    @property
    def partitions(self) -> int:
        """The partitions of a topic: as many on each process, and as many as on a single one.

        A producer of librdkafka takes several times the CPU where a connection has few partitions.
        """
        return self.processes * _PARTITIONS_OF_A_PROCESS


def _cases(counts: Sequence[int]) -> list[Processes]:
    return [
        Processes(f"{_named(count)}, RF {replicas}", processes=count, replicas=replicas)
        for count in counts
        for replicas in dict.fromkeys((1, min(count, _REPLICAS_MAX)))
    ]


def _pinned(count: int) -> Processes:
    return Processes(f"{_named(count)}, RF 1, pinned", processes=count, is_pinned=True)


def _named(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


class Cores:
    """One run: a new cluster of one kind and size, and all shapes of load; see the top."""

    name = "cores"
    summary = "MB/s and CPU per gigabyte with 1, 2, 3, … broker processes on this machine"

    def cases(self, scale: Scale) -> Sequence[Case]:
        if scale is Scale.SMOKE:
            return _cases((2,))[:1]
        cores = len(os.sched_getaffinity(0))
        return [*_cases(process_counts(cores)), _pinned(cores)]

    def plan(self, scale: Scale) -> Plan:
        repeats = {Scale.SMOKE: 1, Scale.SMALL: 1, Scale.FULL: 3}[scale]
        return Plan(0, repeats, "run", expected_seconds=_EXPECTED_S[scale])

    def refuses(self, case: Case, target: Target) -> str | None:
        assert isinstance(case, Processes)
        if (case.processes > 1 or case.is_pinned) and target.name != "tierlog":
            return f"one process of {target.name} uses all cores"
        return needs_a_cluster(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        assert isinstance(case, Processes)
        kinds: list[Kind] = [kind_of(target.name)] * case.processes
        cluster = Cluster(target.directory / "cluster", combined(*kinds))
        running = SeveralNodes(target.name, target.directory / "cluster", cluster)
        try:
            with cluster:
                cluster.wait_until_caught_up()
                if case.is_pinned:
                    _pin(cluster)
                for batches in _BATCHES[scale]:
                    if scale is not Scale.SMOKE:
                        _produce_and_consume(case, batches, running, None)
                    _produce_and_consume(case, batches, running, recorder)
        except (NotUpError, ClientError) as error:
            raise MeasurementError(f"{error}\n{cluster.log_tails()}") from error


def _pin(cluster: Cluster) -> None:
    """Give each process a core, as `taskset` does."""
    cores = sorted(os.sched_getaffinity(0))
    for at, node in enumerate(cluster.nodes.values()):
        for thread in os.listdir(f"/proc/{node.pid}/task"):
            os.sched_setaffinity(int(thread), {cores[at % len(cores)]})


def _produce_and_consume(
    case: Processes, batches: _Batches, running: SeveralNodes, recorder: Recorder | None
) -> None:
    """All clients produce to new topics at once, and then consume them; see `_run`."""
    from ...harness.requests.admin import create_topic, delete_topic

    load = Load(
        records=batches.megabytes * 1_000_000 // _KIB // case.clients,
        record_bytes=_KIB,
        partitions=case.partitions,
        batch_bytes=batches.nbytes,
        linger_ms=5,
        idempotent=True,
    )
    kind = "counted" if recorder else "first"
    topics = [f"{kind}-{batches.nbytes // _KIB}-{at}" for at in range(case.clients)]
    config = {
        **running.topic_config(tiered=False),
        "min.insync.replicas": str(max(1, case.replicas - 1)),
    }
    for topic in topics:
        create_topic(
            running.bootstrap,
            topic,
            config,
            partitions=case.partitions,
            replication_factor=case.replicas,
        )
    write_back()
    size = f"{batches.nbytes // _KIB}_kib"
    _run(f"{PRODUCE}_{size}", load, topics, running, recorder)
    write_back()
    for topic in topics:
        for node in running.cluster.nodes.values():
            fill_page_cache(node.directory, topic)
    _run(f"{CONSUME}_{size}", load, topics, running, recorder)
    delete_topic(running.bootstrap, *topics)


def _run(
    name: str,
    load: Load,
    topics: Sequence[str],
    running: SeveralNodes,
    recorder: Recorder | None,
) -> None:
    """Run a client for each topic, all at once; record what they got and what the brokers used,
    unless this run does not count."""
    direction = name.partition("_")[0]
    if recorder is None:
        _clients(direction, load, topics, running)
        return
    nbytes = load.total_bytes * len(topics)
    nodes = running.cluster.nodes.values()
    before = [read_usage(node.pid).cpu_seconds for node in nodes]
    with recorder.usage(running, nbytes=nbytes, name=name):
        seconds = _clients(direction, load, topics, running)
    after = [read_usage(node.pid).cpu_seconds for node in nodes]
    busiest = max(later - sooner for later, sooner in zip(after, before, strict=True))
    recorder.figure(f"{name}_mb_per_s", nbytes / seconds / 1e6)
    recorder.figure(f"{name}_busiest_process_cores", busiest / seconds)


def _clients(direction: str, load: Load, topics: Sequence[str], running: SeveralNodes) -> float:
    """Seconds from the first client's begin to the last one's end. Raises ClientError."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                start_client(
                    "librdkafka_load",
                    *(direction, "--bootstrap", running.bootstrap, "--topic", topic),
                    *load.arguments(),
                )
            )
            for topic in topics
        ]
        results = [client.result(_CLIENT_WITHIN_S).figures for client in clients]
    began = min(result["began_at_s"] for result in results)
    return max(result["began_at_s"] + result["seconds"] for result in results) - began


SCENARIO: Scenario = Cores()
