"""Throughput: producing and consuming as fast as one client can.

A case is a direction, a client and a shape of load: record size, partitions, maximum batch size,
codec, acks. At `full` they form the whole matrix; at `small` the shapes in which brokers differ
most. MB/s count the records' values, and depend on the client too; the broker's CPU seconds per
gigabyte hardly do.

All cases share a broker, and each pass measures all of them. The uncounted passes are the broker's
warm-up: a JVM keeps compiling for some gigabytes, in which its CPU per gigabyte falls by half or
more, while ours stays the same. `broker_cpu_before_s` shows how much CPU the broker had used before
a run, so that a reader can judge this. Java's clients warm up within each run
(`java_perf.py`).

Consumed records were produced before, through librdkafka, to a topic that is kept for all passes
(except at `full`, where there would be too many topics), and are read into the page cache before
each run.
Reading from the tier is measured in another scenario (`copying.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ..harness.loads.load import Load
from ..harness.targets.target import RunningTarget, Target
from ..page_cache import fill_page_cache, write_back
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .client_runs import fill_topic, partition_words, run_load, size_words

PRODUCE = "produce"
CONSUME = "consume"
LIBRDKAFKA = "librdkafka"
JAVA = "Java"
OWN = "own client"
MODULES = {LIBRDKAFKA: "librdkafka_load", JAVA: "java_perf", OWN: "own_load"}

_KIB = 1024
_CODECS = ("gzip", "snappy", "lz4", "zstd")
_MEGABYTES = {
    (Scale.SMOKE, LIBRDKAFKA): 20,
    (Scale.SMALL, LIBRDKAFKA): 400,
    (Scale.FULL, LIBRDKAFKA): 150,
    (Scale.SMOKE, JAVA): 60,
    (Scale.SMALL, JAVA): 80,
    (Scale.FULL, JAVA): 120,
    (Scale.SMOKE, OWN): 5,
    (Scale.FULL, OWN): 20,
}
"""Megabytes of values in one run. The Python client does less in the same time."""

_CONSUMED_MEGABYTES = {**_MEGABYTES, (Scale.SMALL, LIBRDKAFKA): 600}
"""Consuming is much faster, and a run of only a quarter of a second would be mostly noise."""

_RECORDS_MAX = {LIBRDKAFKA: 1_000_000, JAVA: 1_000_000, OWN: 100_000}
"""Small records cost clients more than brokers."""

_BATCHES_MAX = {Scale.SMOKE: 2_000, Scale.SMALL: 8_000, Scale.FULL: 12_500}
"""The most batches to produce. Small batches cost brokers so much that fewer are enough."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of one client's load."""

    direction: str
    client: str = LIBRDKAFKA
    record_bytes: int = _KIB
    partitions: int = 1
    batch_bytes: int = 16 * _KIB
    codec: str = "none"
    acks: str = "all"
    tiered: bool = False

    @property
    def case(self) -> Case:
        """The case, with a name that lists everything but the defaults."""
        parts = [
            f"{self.direction} {self.client}",
            f"{size_words(self.record_bytes)} records",
            partition_words(self.partitions),
            f"{size_words(self.batch_bytes)} batches",
        ]
        parts += [self.codec] if self.codec != "none" else []
        parts += [f"acks={self.acks}"] if self.acks != "all" else []
        return Case(", ".join(parts), self.tiered)

    def load(self, scale: Scale) -> Load:
        """The load of this shape at a scale."""
        if self.direction == CONSUME:
            nbytes = _CONSUMED_MEGABYTES[scale, self.client] * 1_000_000
        else:
            nbytes = _MEGABYTES[scale, self.client] * 1_000_000
            nbytes = min(nbytes, _BATCHES_MAX[scale] * self.batch_bytes)
        return Load(
            records=min(nbytes // self.record_bytes, _RECORDS_MAX[self.client]),
            record_bytes=self.record_bytes,
            partitions=self.partitions,
            batch_bytes=self.batch_bytes,
            codec=self.codec,
            acks=self.acks,
        )


def _smoke() -> Iterator[Shape]:
    yield Shape(PRODUCE)
    yield Shape(CONSUME)


def _small() -> Iterator[Shape]:
    for batch_kib in (2, 16, 128):
        yield Shape(PRODUCE, batch_bytes=batch_kib * _KIB)
    yield Shape(PRODUCE, batch_bytes=128 * _KIB, tiered=True)
    yield Shape(PRODUCE, record_bytes=100, partitions=6, batch_bytes=64 * _KIB, codec="lz4")
    yield Shape(PRODUCE, record_bytes=10 * _KIB, partitions=6, batch_bytes=512 * _KIB, acks="1")
    yield Shape(PRODUCE, partitions=100)
    yield Shape(PRODUCE, JAVA)
    yield Shape(PRODUCE, JAVA, partitions=6, batch_bytes=128 * _KIB, codec="zstd")
    for batch_kib in (16, 128):
        yield Shape(CONSUME, batch_bytes=batch_kib * _KIB)
    yield Shape(CONSUME, record_bytes=100, partitions=6, batch_bytes=64 * _KIB, codec="lz4")
    yield Shape(CONSUME, JAVA, batch_bytes=128 * _KIB)


def _full() -> Iterator[Shape]:
    for direction in (PRODUCE, CONSUME):
        for record_bytes, partitions in product((100, _KIB, 10 * _KIB), (1, 6, 100)):
            yield Shape(direction, LIBRDKAFKA, record_bytes, partitions)
        for record_bytes in (100, _KIB, 10 * _KIB):
            yield Shape(direction, LIBRDKAFKA, record_bytes, 6, 128 * _KIB)
        for kib in (2, 128, 512):
            yield Shape(direction, batch_bytes=kib * _KIB)
        for codec in _CODECS:
            yield Shape(direction, partitions=6, batch_bytes=128 * _KIB, codec=codec)
        for record_bytes, kib in ((100, 128), (_KIB, 16), (_KIB, 128), (10 * _KIB, 128)):
            yield Shape(direction, JAVA, record_bytes, 6, kib * _KIB)
        yield Shape(direction, OWN)
    for codec in _CODECS:
        yield Shape(PRODUCE, JAVA, partitions=6, batch_bytes=128 * _KIB, codec=codec)
    for kib in (16, 128):
        for client in (LIBRDKAFKA, JAVA):
            yield Shape(PRODUCE, client, batch_bytes=kib * _KIB, acks="1")
        yield Shape(PRODUCE, batch_bytes=kib * _KIB, tiered=True)


_SHAPES = {Scale.SMOKE: _smoke, Scale.SMALL: _small, Scale.FULL: _full}


@dataclass(frozen=True, slots=True)
class Throughput:
    """Each run produces a case's records to a new topic, or consumes existing ones."""

    name: str = "throughput"
    summary: str = "produce and consume: MB/s and the broker's CPU seconds per gigabyte"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [shape.case for shape in _SHAPES[scale]()]

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 2)
        if scale is Scale.SMALL:
            # One disturbed run moves the median of two runs, but not of three.
            return Plan(1, 3, "scenario", 10)
        return Plan(1, 2, "scenario", 8.5)

    def refuses(self, case: Case, target: Target) -> str | None:
        if case.tiered and "tier" not in target.capabilities:
            return f"{target.name} has no remote tier"
        if case.name.startswith(f"{PRODUCE} {JAVA}") and "durable" not in target.capabilities:
            return f"{target.name} does not report how many records it has, nor does Java's tool"
        return None

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        from ..harness.requests.admin import delete_topic

        shape = next(shape for shape in _SHAPES[scale]() if shape.case == case)
        load = shape.load(scale)
        if shape.direction == PRODUCE:
            produce(shape, load, target, recorder)
        else:
            consume(shape, load, target, recorder)
            if scale is Scale.FULL:
                # Together, all topics would evict each other from the page cache.
                delete_topic(target.bootstrap, kept_topic(load))


def kept_topic(load: Load) -> str:
    """The topic with the records of a load that is consumed repeatedly."""
    return f"{load.records}-{load.record_bytes}-{load.partitions}-{load.batch_bytes}-{load.codec}"


def produce(
    shape: Shape,
    load: Load,
    target: RunningTarget,
    recorder: Recorder,
    options: Sequence[str] = (),
) -> None:
    """Produce a load to a new topic, with more options of the client."""
    from ..harness.requests.admin import fresh_topic

    config = target.topic_config(shape.tiered)
    with fresh_topic(target.bootstrap, config, load.partitions) as topic:
        _run(shape, load, target, topic, recorder, options)


def consume(
    shape: Shape,
    load: Load,
    target: RunningTarget,
    recorder: Recorder,
    options: Sequence[str] = (),
) -> None:
    """Consume a load, which is produced first if missing, with more options of the client."""
    from ..harness.requests.admin import create_topic, delete_topic, holds, led_partitions

    topic = kept_topic(load)
    if not holds(target.bootstrap, topic, load.records, load.partitions):
        if led_partitions(target.bootstrap, topic):
            # An earlier run failed halfway.
            delete_topic(target.bootstrap, topic)
        config = target.topic_config(shape.tiered)
        create_topic(target.bootstrap, topic, config, partitions=load.partitions)
        fill_topic(target.bootstrap, topic, load)
    _run(shape, load, target, topic, recorder, options)


def _run(
    shape: Shape,
    load: Load,
    target: RunningTarget,
    topic: str,
    recorder: Recorder,
    options: Sequence[str],
) -> None:
    """Run the client, and measure what it and the broker use."""
    # Otherwise earlier writes, such as filling a topic, would be charged to this run.
    write_back()
    if shape.direction == CONSUME and target.node is not None:
        fill_page_cache(target.directory, topic)
    run_load((MODULES[shape.client], shape.direction), load, target, topic, recorder, options)


SCENARIO: Scenario = Throughput()
