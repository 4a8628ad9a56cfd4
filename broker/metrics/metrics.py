"""What the broker counts about itself, under the names of Kafka's MBeans.

A counter is an object with a number in it: the hot path keeps the object and adds to it, and the
name is looked up once. A gauge is a function, called only when the metrics are read. A family is a
function that gives many figures at once, where it is known only then which there are, such as one
for each topic. Names are written as JMX writes them, ``kafka.server:type=BrokerTopicMetrics,
name=BytesInPerSec``; what JMX calls a rate is a total here, from which two readings give any
rate: of a meter's attributes there is `Count`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...clients.supervisor import Supervisor

COUNT = "Count"
"""The attribute of what only grows."""

VALUE = "Value"
"""The attribute of a gauge."""

_LOOP_FAILURES = "tierlog.server:type=Supervisor,name=FailuresPerSec"


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class Sample(NamedTuple):
    """One figure: an attribute of an MBean, and its value of this moment."""

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
        """The counter of that name, made when it is first asked for."""
        return self._counters.setdefault(name, Counter())

    def gauge(self, name: str, read: Callable[[], float], attribute: str = VALUE) -> None:
        """Let `read` answer for `name` from now on."""
        self._gauges[name, attribute] = read

    def family(self, read: Callable[[], Iterable[Sample]]) -> None:
        """Have `read` add its own samples at each reading."""
        self._families.append(read)

    def samples(self) -> list[Sample]:
        """Every figure of this moment, sorted by name."""
        samples = [Sample(name, COUNT, each.value) for name, each in self._counters.items()]
        samples += [Sample(*key, read()) for key, read in self._gauges.items()]
        for read in self._families:
            samples += read()
        samples.sort()
        return samples

    def read(self) -> Iterator[tuple[str, float]]:
        """Every name that has a count or a value with it, sorted."""
        for name, attribute, value in self.samples():
            if attribute in (COUNT, VALUE):
                yield name, value


def failures_of_loops(supervisor: Supervisor) -> Iterator[Sample]:
    """How often the loops of the broker failed unexpectedly: all, and each one that ever did."""
    yield Sample(_LOOP_FAILURES, COUNT, supervisor.failures.total())
    for loop, failures in supervisor.failures.items():
        yield Sample(f"{_LOOP_FAILURES},loop={loop}", COUNT, failures)
