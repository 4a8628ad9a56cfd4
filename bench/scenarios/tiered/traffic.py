"""The normal traffic of KIP-405's tests: a steady producer and a consumer at the end of the log.

Each is a separate process. The producer's latency of a record counts from when it was meant to be
sent to its acknowledgement, the consumer's from the same time to its arrival. So a stall of the
broker counts for all records that should have been sent meanwhile (coordinated omission).

The KIP's own two workloads are 30 MB/s per broker with acks=all and 55 MB/s with acks=1, on
machines with 20 cores. Ours keep the proportion.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from ...harness.loads.client_process import ClientProcess, start_client
from ...harness.loads.steady import SteadyLoad
from ...recorder import Recorder
from .old_data import RECORD_BYTES

WARM_UP_S = 1.0
PRODUCE = "produce"
TAIL = "tail"


@dataclass(frozen=True, slots=True)
class Workload:
    """A producer's rate and acks."""

    acks: str
    records_per_second: int

    @property
    def megabytes_per_second(self) -> float:
        return self.records_per_second * RECORD_BYTES / 1e6

    def load(self, seconds: float, partitions: int = 1, share: float = 1.0) -> SteadyLoad:
        """The load of the clients, or a share of it, with a second of warm-up."""
        rate = round(self.records_per_second * share)
        return SteadyLoad(rate, RECORD_BYTES, seconds, WARM_UP_S, partitions, self.acks)


WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {"acks=all": Workload("all", 5_000), "acks=1": Workload("1", 9_000)}
)
"""The workloads, by case name."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The two running clients."""

    producer: ClientProcess
    tail: ClientProcess

    def record(self, recorder: Recorder) -> None:
        """Wait for both to end and record their latencies. Raises MeasurementError."""
        for name, client in ((PRODUCE, self.producer), (TAIL, self.tail)):
            client.result().record_into(recorder.histogram(name))


@contextmanager
def traffic(
    bootstrap: str, topic: str, workload: Workload, seconds: float
) -> Generator[Traffic, None, None]:
    """Run the workload for `seconds` after a second of warm-up; leaving the context stops it."""
    order = ("--bootstrap", bootstrap, "--topic", topic, *workload.load(seconds).arguments())
    with start_client("tail_consumer", *order) as tail:
        with start_client("steady_load", *order) as producer:
            yield Traffic(producer, tail)
