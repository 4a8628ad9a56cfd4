"""What brokers use while a partition is produced to, copied and read at a fixed rate.

Everything is measured between two looks at the processes, while the clients keep their pace, so
that neither the start of a client nor its end counts. The brokers' own metrics say how many batches
and fetches there were.
"""

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ..harness.loads.client_process import ClientProcess, start_client
from ..harness.loads.steady import SteadyLoad
from ..harness.measurement_error import MeasurementError
from ..harness.processes.cluster import Cluster, ClusterNode
from ..harness.processes.process_usage import read_usage
from ..harness.requests.broker_metrics import read_metrics

METRICS = {"tierlog.metrics.port": "0"}
"""The properties of a cluster that can be measured like this."""

_ENDLESS_S = 600.0
_BEGIN_S = 4.0
_CLIENT_WITHIN_S = 60.0
_PORT = re.compile(r"Metrics are at http://[^:]+:(\d+)/metrics")
_REQUESTS = 'kafka_network_RequestMetrics_Count{name="RequestsPerSec",request="%s"}'
_BYTES_IN = 'kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec"}'


@dataclass(frozen=True, slots=True)
class _Reading:
    at: float
    cpu_seconds: float
    produced: float
    fetched: float
    bytes_in: float


@dataclass(frozen=True, slots=True)
class Window:
    """What one broker did and used: cores, requests a second that it answered, megabytes (10⁶)."""

    cores: float
    produces_per_s: float
    fetches_per_s: float
    produced_mb_per_s: float
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Steady:
    """A load at a fixed rate: 1,000-byte records of one partition, how long a producer gathers
    them, and how many consumers read it."""

    megabytes: int
    linger_ms: int
    readers: int = 0

    def load(self) -> SteadyLoad:
        """A load that goes on until its producer is stopped."""
        return SteadyLoad(self.megabytes * 1_000, 1_000, _ENDLESS_S, 1.0, linger_ms=self.linger_ms)


def under_load(
    cluster: Cluster, topic: str, steady: Steady, seconds: float
) -> Mapping[int, Window]:
    """Run the load, and look at all nodes for so long while it runs.

    Raises MeasurementError if a client ends early or loses a record.
    """
    order = ("--bootstrap", cluster.bootstrap, "--topic", topic, *steady.load().arguments())
    nodes = list(cluster.nodes.values())
    with ExitStack() as stack:
        readers = [
            stack.enter_context(start_client("tail_consumer", *order))
            for _ in range(steady.readers)
        ]
        producer = stack.enter_context(start_client("steady_load", *order))
        time.sleep(_BEGIN_S)
        before = [_read(node) for node in nodes]
        time.sleep(seconds)
        after = [_read(node) for node in nodes]
        _all_run([producer, *readers])
        os.kill(producer.pid, signal.SIGTERM)
        producer.result(_CLIENT_WITHIN_S)
        for reader in readers:
            reader.close()
    return {
        node.node_id: _window(sooner, later, read_usage(node.pid).resident_bytes)
        for node, sooner, later in zip(nodes, before, after, strict=True)
    }


def _all_run(clients: Sequence[ClientProcess]) -> None:
    for client in clients:
        if client.has_ended():
            client.result()
            raise MeasurementError("A client of a load without an end has ended.")


def _read(node: ClusterNode) -> _Reading:
    metrics = read_metrics(_metrics_port(node))
    return _Reading(
        time.monotonic(),
        read_usage(node.pid).cpu_seconds,
        metrics.get(_REQUESTS % "Produce", 0.0),
        metrics.get(_REQUESTS % "Fetch", 0.0),
        metrics.get(_BYTES_IN, 0.0),
    )


def _metrics_port(node: ClusterNode) -> int:
    ports = _PORT.findall(node.output)
    if not ports:
        raise MeasurementError(f"Node {node.node_id} serves no metrics.")
    return int(ports[-1])


def _window(sooner: _Reading, later: _Reading, resident_bytes: int) -> Window:
    seconds = later.at - sooner.at
    return Window(
        (later.cpu_seconds - sooner.cpu_seconds) / seconds,
        (later.produced - sooner.produced) / seconds,
        (later.fetched - sooner.fetched) / seconds,
        (later.bytes_in - sooner.bytes_in) / seconds / 1e6,
        resident_bytes,
    )
