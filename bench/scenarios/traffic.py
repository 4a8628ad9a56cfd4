"""The normal traffic of KIP-405's tests: a producer that keeps its pace beside a consumer at the
end of the log, each in a process of its own.

The producer's latency of a record counts from when it was meant to be sent to its acknowledgement,
the tail consumer's from then to its arrival. So whatever a broker makes wait is counted for all
that should have been under way meanwhile (coordinated omission).

The KIP's own two workloads are 30 MB/s a broker with acks=all and 55 MB/s with acks=1, on machines
of 20 cores. Ours keep the proportion.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from ..clients.client_process import ClientProcess, start_client
from ..clients.steady import SteadyLoad
from ..recorder import Recorder
from .old_data import RECORD_BYTES

WARM_UP_S = 1.0
PRODUCE = "produce"
TAIL = "tail"


@dataclass(frozen=True, slots=True)
class Workload:
    """What producers do: so many records a second, acknowledged like this."""

    acks: str
    records_per_second: int

    @property
    def megabytes_per_second(self) -> float:
        return self.records_per_second * RECORD_BYTES / 1e6

    def load(self, seconds: float, partitions: int = 1, share: float = 1.0) -> SteadyLoad:
        """As clients know it, or a share of it, with a second before the first that counts."""
        rate = round(self.records_per_second * share)
        return SteadyLoad(rate, RECORD_BYTES, seconds, WARM_UP_S, partitions, self.acks)


WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {"acks=all": Workload("all", 5_000), "acks=1": Workload("1", 9_000)}
)
"""By the name of their cases."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The two clients, under way."""

    producer: ClientProcess
    tail: ClientProcess

    def record(self, recorder: Recorder) -> None:
        """Wait for both to end and keep their latencies. Raises MeasurementError."""
        for name, client in ((PRODUCE, self.producer), (TAIL, self.tail)):
            client.result().record_into(recorder.histogram(name))


@contextmanager
def traffic(
    bootstrap: str, topic: str, workload: Workload, seconds: float
) -> Generator[Traffic, None, None]:
    """Let the workload go on for so long, its first second not counted; whoever is still at work
    when the context is left is stopped.
    """
    order = ("--bootstrap", bootstrap, "--topic", topic, *workload.load(seconds).arguments())
    with start_client("tail_consumer", *order) as tail:
        with start_client("steady_load", *order) as producer:
            yield Traffic(producer, tail)
