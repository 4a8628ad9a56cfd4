"""Produce and consume through three brokers that replicate: RF 3, two in sync for a write.

Every node is controller and broker; all three share the machine with the client, which is the same
for every target. Producers are idempotent and wait for all in-sync replicas (acks=all). So a
gigabyte of values is received once, sent twice more and written three times, and the broker's CPU
per gigabyte and memory are sums over the three.

- `produce` and `consume`: as fast as one client can, 100 B, 1 KiB and 16 KiB records, one partition
  or six (which have two leaders on each node);
- `steady 5 MB/s`: the latency of a record to its acknowledgement and to a consumer at the end of
  the log, as in the scenario `latency`.

All cases share a cluster, and each pass measures all of them at each target in turn; the uncounted
pass warms up the JVMs. Consumed records were produced before, to a topic that is kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ...harness.loads.load import Load
from ...harness.loads.steady import SteadyLoad
from ...harness.targets.target import RunningTarget, Target
from ...page_cache import fill_page_cache, write_back
from ...recorder import Recorder
from ...scenario import Case, Plan, Scale, Scenario
from ..client_runs import (
    fill_topic,
    measure_latency,
    partition_words,
    run_load,
    size_words,
)
from ..throughput import CONSUME, JAVA, LIBRDKAFKA, MODULES, PRODUCE
from .failover import NODES, needs_a_cluster

_KIB = 1024
_SIZES = (100, _KIB, 16 * _KIB)
_BATCH_BYTES = 64 * _KIB
_STEADY = "steady 5 MB/s, acks=all"
_STEADY_S = {Scale.SMOKE: 2.0, Scale.SMALL: 3.0, Scale.FULL: 8.0}
_MEGABYTES = {Scale.SMOKE: 20, Scale.SMALL: 120, Scale.FULL: 200}
_RECORDS_MAX = {Scale.SMOKE: 60_000, Scale.SMALL: 600_000, Scale.FULL: 1_000_000}
_TOPIC = {"min.insync.replicas": str(NODES - 1)}


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of one client's load."""

    direction: str
    client: str
    record_bytes: int = _KIB
    partitions: int = 6

    @property
    def case(self) -> Case:
        shown = f"{size_words(self.record_bytes)} records, {partition_words(self.partitions)}"
        return Case(f"{self.direction} {self.client}, {shown}")

    def load(self, scale: Scale) -> Load:
        """The load of this shape at a scale."""
        records = min(_MEGABYTES[scale] * 1_000_000 // self.record_bytes, _RECORDS_MAX[scale])
        return Load(
            records, self.record_bytes, self.partitions, _BATCH_BYTES, linger_ms=5, idempotent=True
        )


def _smoke() -> Iterator[Shape]:
    yield Shape(PRODUCE, LIBRDKAFKA)
    yield Shape(CONSUME, LIBRDKAFKA)


def _small() -> Iterator[Shape]:
    yield Shape(PRODUCE, LIBRDKAFKA, partitions=1)
    for size in _SIZES:
        yield Shape(PRODUCE, LIBRDKAFKA, size)
    yield Shape(PRODUCE, JAVA, 100, partitions=1)
    yield Shape(PRODUCE, JAVA)
    yield Shape(CONSUME, LIBRDKAFKA)
    yield Shape(CONSUME, JAVA)


def _full() -> Iterator[Shape]:
    for direction, client, size, partitions in product(
        (PRODUCE, CONSUME), (LIBRDKAFKA, JAVA), _SIZES, (1, 6)
    ):
        yield Shape(direction, client, size, partitions)


_SHAPES = {Scale.SMOKE: _smoke, Scale.SMALL: _small, Scale.FULL: _full}


@dataclass(frozen=True, slots=True)
class Replicated:
    """Each run is one load through a cluster; see the top of this file."""

    name: str = "replicated"
    summary: str = "three brokers, RF 3, acks=all: MB/s, CPU of all three per gigabyte, latency"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [*(shape.case for shape in _SHAPES[scale]()), Case(_STEADY)]

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 8, nodes=NODES)
        if scale is Scale.SMALL:
            return Plan(1, 2, "scenario", 12, nodes=NODES)
        return Plan(1, 3, "scenario", 24, nodes=NODES)

    def refuses(self, case: Case, target: Target) -> str | None:
        return needs_a_cluster(target)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        if case.name == _STEADY:
            _measure_latency(target, recorder, scale)
            return
        shape = next(shape for shape in _SHAPES[scale]() if shape.case == case)
        load = shape.load(scale)
        if shape.direction == PRODUCE:
            _produce(shape, load, target, recorder)
        else:
            _consume(shape, load, target, recorder)


def _topic_config(target: RunningTarget) -> dict[str, str]:
    return {**target.topic_config(tiered=False), **_TOPIC}


def _produce(shape: Shape, load: Load, target: RunningTarget, recorder: Recorder) -> None:
    from ...harness.requests.admin import fresh_topic

    config = _topic_config(target)
    with fresh_topic(target.bootstrap, config, load.partitions, NODES) as topic:
        _run(shape, load, target, topic, recorder)


def _consume(shape: Shape, load: Load, target: RunningTarget, recorder: Recorder) -> None:
    """Consume a load, which is produced first if missing."""
    from ...harness.requests.admin import create_topic, holds

    topic = f"kept-{load.records}-{load.record_bytes}-{load.partitions}"
    if not holds(target.bootstrap, topic, load.records, load.partitions):
        create_topic(
            target.bootstrap,
            topic,
            _topic_config(target),
            partitions=load.partitions,
            replication_factor=NODES,
        )
        fill_topic(target.bootstrap, topic, load)
    for node in target.directory.glob("node-*"):
        fill_page_cache(node, topic)
    _run(shape, load, target, topic, recorder)


def _run(shape: Shape, load: Load, target: RunningTarget, topic: str, recorder: Recorder) -> None:
    """Run the client, and measure what it and all brokers use."""
    write_back()
    run_load((MODULES[shape.client], shape.direction), load, target, topic, recorder)


def _measure_latency(target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
    from ...harness.requests.admin import fresh_topic

    load = SteadyLoad(5_000, 1_000, _STEADY_S[scale], 1.0)
    with fresh_topic(target.bootstrap, _topic_config(target), 1, NODES) as topic:
        measure_latency(load, target, topic, recorder)


SCENARIO: Scenario = Replicated()
