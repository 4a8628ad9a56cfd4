"""The broker's metrics, under the names of Kafka's MBeans.

A counter is an object with a number: the hot path keeps the object and adds to it, so its name is
looked up only once. A gauge is a function, called only when the metrics are read. A family is a
function that returns samples whose names are known only when the metrics are read, such as one per
topic. Names are written as in JMX, ``kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec``. A
rate in JMX is a total here, from which any rate can be computed: of a meter's attributes there is
only `Count`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from ...clients.runtime.steps import finished
from ...clients.runtime.supervisor import Supervisor

COUNT = "Count"
"""The attribute of a counter."""

VALUE = "Value"
"""The attribute of a gauge."""

_SAMPLES_A_STEP = 16

_LOOP_FAILURES = "tierlog.server:type=Supervisor,name=FailuresPerSec"


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class Sample(NamedTuple):
    """An attribute of an MBean, and its value at the time of the reading."""

    name: str
    attribute: str
    value: float


class Metrics:
    """All counters and gauges of one broker, by name."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[tuple[str, str], Callable[[], float]] = {}
        self._families: list[Callable[[], Iterable[Sample]]] = []

    def counter(self, name: str) -> Counter:
        """The counter with that name, made at the first call."""
        return self._counters.setdefault(name, Counter())

    def gauge(self, name: str, read: Callable[[], float], attribute: str = VALUE) -> None:
        """Register `read` as the gauge `name`."""
        self._gauges[name, attribute] = read

    def family(self, read: Callable[[], Iterable[Sample]]) -> None:
        """Register `read`, which returns its samples at each reading.

        What it iterates over may change between two samples.
        """
        self._families.append(read)

    def samples(self) -> list[Sample]:
        """All samples at this time, sorted by name."""
        return sorted(finished(self.sample_steps()))

    def sample_steps(self) -> Generator[None, None, list[Sample]]:
        """All samples in no order, in steps: of a family, each is read when its turn comes."""
        samples = [Sample(name, COUNT, counter.value) for name, counter in self._counters.items()]
        yield
        for key, read in list(self._gauges.items()):
            samples.append(Sample(*key, read()))
            yield
        for family in list(self._families):
            for count, sample in enumerate(family(), 1):
                samples.append(sample)
                if not count % _SAMPLES_A_STEP:
                    yield
            yield
        return samples

    def read(self) -> Iterator[tuple[str, float]]:
        """Every count and every value, with its name, sorted by name."""
        for name, attribute, value in self.samples():
            if attribute in (COUNT, VALUE):
                yield name, value


def failures_of_loops(supervisor: Supervisor) -> Iterator[Sample]:
    """How often the broker's loops failed unexpectedly: in total, and for each loop that failed."""
    yield Sample(_LOOP_FAILURES, COUNT, supervisor.failures.total())
    for loop, failures in list(supervisor.failures.items()):
        yield Sample(f"{_LOOP_FAILURES},loop={loop}", COUNT, failures)
