"""What the broker counts about itself, under the names of Kafka's MBeans.

A counter is an object with a number in it: the hot path keeps the object and adds to it, and the
name is looked up once. A gauge is a function, asked only when somebody reads. Names are written as
JMX writes them, ``kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec``; what JMX calls a rate
is a total here, from which whoever reads twice gets any rate.
"""

from collections.abc import Callable, Iterator


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount


class Metrics:
    """All counters and gauges of one broker, by name."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def counter(self, name: str) -> Counter:
        """The counter of that name, made when it is first asked for."""
        return self._counters.setdefault(name, Counter())

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Let `read` answer for `name` from now on."""
        self._gauges[name] = read

    def read(self) -> Iterator[tuple[str, float]]:
        """Every name with its value of this moment, sorted."""
        values: dict[str, float] = {name: each.value for name, each in self._counters.items()}
        values.update((name, read()) for name, read in self._gauges.items())
        yield from sorted(values.items())
