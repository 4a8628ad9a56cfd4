"""Clients with their default settings, each in the loop that people usually write with it.

Nothing is set but the bootstrap address, the topic, the group and, to read at all,
`auto.offset.reset=earliest`. A case is a direction, a client, a size of records, and one or six
partitions. Consumers read from the page cache (hot), from the disk (cold: the topic's files are
dropped from the page cache before each run) or from the tier (all but the active segments have left
the disk). The broker's own caches are not dropped.

The consumed records are produced once, through librdkafka with its default batching, and kept for
all runs. Every client counts records and bytes, and checks that each partition's offsets are 0, 1,
2, …

The rate is from a client's first record to its last: without its start, the metadata and joining
the group, which is in `first_record_s`. A producer sends one record by itself first, and waits for
its acknowledgement. Java's first third is not counted: a JVM compiles for the first seconds. Slow
clients get fewer records, so that a run takes some seconds; the others two million or 400 MB.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from types import MappingProxyType

from ..harness.loads.client_process import run_client
from ..harness.loads.defaults.programs import LIBRDKAFKA, built, missing
from ..harness.loads.load import Load
from ..harness.measurement_error import MeasurementError
from ..harness.targets.target import RunningTarget, Target
from ..page_cache import drop_page_cache, fill_page_cache, write_back
from ..recorder import Recorder
from ..scenario import Case, Plan, Scale, Scenario
from .client_runs import partition_words, record_cpu_before, size_words
from .tiered.old_data import has_no_tier, knows_its_disk, wait_until_local_is_small

PRODUCE = "produce"
CONSUME = "consume"
HOT = "hot"
COLD = "cold"
TIER = "tier"

_KIB = 1024
_SIZES = (100, _KIB, 10 * _KIB)
_MEGABYTES = 400
"""What takes a fifth of a second measures chance."""

_MEGABYTES_IN_PYTHON = 40
_SMOKE_RECORDS = 100_000
_SEGMENT_BYTES_MIN = 2 << 20
_SEGMENT_BYTES_MAX = 64 << 20
_SEGMENTS = 8
"""The segments of a tiered partition, of which only the last stays on the disk."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client: its module in clients/defaults and what it is called with, how many records a
    and megabytes of a run, and the Python package that it needs.
    """

    module: str
    arguments: tuple[str, ...]
    consumed_max: int
    produced_max: int
    produced_megabytes: int = _MEGABYTES
    package: str = ""

    def records(self, direction: str, record_bytes: int) -> int:
        """How many records of that size a run has."""
        if direction == PRODUCE:
            most, megabytes = self.produced_max, self.produced_megabytes
        else:
            most, megabytes = self.consumed_max, _MEGABYTES
        # Whole thousands, or the last call for a list would wait in vain for it to be full.
        return min(most, megabytes * 1_000_000 // record_bytes // 1_000 * 1_000)


POLL = "confluent-kafka poll()"
LISTS = "confluent-kafka consume(500)"
JAVA = "Java"
FRANZ_GO = "franz-go"

CLIENTS: Mapping[str, Client] = MappingProxyType(
    {
        POLL: Client("confluent", ("poll",), 2_000_000, 500_000),
        LISTS: Client("confluent", ("consume",), 2_000_000, 500_000),
        LIBRDKAFKA: Client("foreign", (LIBRDKAFKA,), 2_000_000, 2_000_000),
        JAVA: Client("foreign", (JAVA,), 2_000_000, 1_000_000),
        FRANZ_GO: Client("foreign", (FRANZ_GO,), 2_000_000, 2_000_000),
        "sarama": Client("foreign", ("sarama",), 2_000_000, 1_000_000),
        "kafkajs": Client("foreign", ("kafkajs",), 500_000, 500_000, 100),
        "kafka-python": Client("kafka_python", (), 200_000, 100_000, _MEGABYTES_IN_PYTHON, "kafka"),
        "aiokafka": Client(
            "aiokafka_client", (), 200_000, 100_000, _MEGABYTES_IN_PYTHON, "aiokafka"
        ),
    }
)
"""The clients, by their names in the cases."""

_SAME_PRODUCER = frozenset({LISTS})
"""Clients that produce in the same way as another one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of one client."""

    direction: str
    client: str
    record_bytes: int = 100
    partitions: int = 1
    place: str = HOT

    @property
    def case(self) -> Case:
        """The case; a tiered one has the same name as the hot one, and is shown next to it."""
        # Producing does not depend on the loop that reads.
        client = "confluent-kafka" if self.client == POLL and self.direction == PRODUCE else ""
        parts = [
            f"{self.direction} {client or self.client}",
            f"{size_words(self.record_bytes)} records",
            partition_words(self.partitions),
        ]
        parts += [COLD] if self.place == COLD else []
        return Case(", ".join(parts), tiered=self.place == TIER)

    def load(self, scale: Scale) -> Load:
        """The load, with the number of records for this client and scale."""
        records = CLIENTS[self.client].records(self.direction, self.record_bytes)
        if scale is Scale.SMOKE:
            records = min(records, _SMOKE_RECORDS)
        return Load(records, self.record_bytes, self.partitions)


def _producers() -> list[str]:
    return [name for name in CLIENTS if name not in _SAME_PRODUCER]


def _smoke() -> Iterator[Shape]:
    yield Shape(CONSUME, LISTS)


def _small() -> Iterator[Shape]:
    for client in _producers():
        yield Shape(PRODUCE, client)
    for client in (POLL, LIBRDKAFKA, JAVA, FRANZ_GO):
        yield Shape(PRODUCE, client, _KIB, 6)
    for client in CLIENTS:
        yield Shape(CONSUME, client)
    for client in (LISTS, LIBRDKAFKA, JAVA, FRANZ_GO):
        yield Shape(CONSUME, client, partitions=6)
        yield Shape(CONSUME, client, _KIB)
        yield Shape(CONSUME, client, place=TIER)
    for client in (LISTS, JAVA):
        yield Shape(CONSUME, client, place=COLD)
        yield Shape(CONSUME, client, 10 * _KIB)


def _full() -> Iterator[Shape]:
    for client, size, partitions in product(_producers(), _SIZES, (1, 6)):
        yield Shape(PRODUCE, client, size, partitions)
    for client, size, partitions, place in product(CLIENTS, _SIZES, (1, 6), (HOT, TIER, COLD)):
        yield Shape(CONSUME, client, size, partitions, place)


_SHAPES = {Scale.SMOKE: _smoke, Scale.SMALL: _small, Scale.FULL: _full}


@dataclass(frozen=True, slots=True)
class Defaults:
    """One run is one client from its start to its end, with a new topic or a kept one."""

    name: str = "defaults"
    summary: str = "clients with their default settings: records/s, MB/s, broker CPU per gigabyte"

    def cases(self, scale: Scale) -> Sequence[Case]:
        return [shape.case for shape in _SHAPES[scale]()]

    def plan(self, scale: Scale) -> Plan:
        if scale is Scale.SMOKE:
            return Plan(0, 1, "scenario", 5)
        if scale is Scale.SMALL:
            return Plan(1, 3, "scenario", 20)
        return Plan(1, 3, "scenario", 20)

    def refuses(self, case: Case, target: Target) -> str | None:
        shape = _shape_of(case)
        return _lacks(shape.client) or _cannot(target, shape)

    def measure(self, case: Case, target: RunningTarget, recorder: Recorder, scale: Scale) -> None:
        shape = _shape_of(case)
        if CLIENTS[shape.client].module == "foreign":
            # Built before the measurement, so that the run is not charged for it.
            built(shape.client)
        load = shape.load(scale)
        if shape.direction == PRODUCE:
            _produce(shape, load, target, recorder)
        else:
            _consume(shape, load, target, recorder)


def _lacks(name: str) -> str | None:
    """The reason why this machine cannot run a client; None if it can."""
    client = CLIENTS[name]
    if client.package and find_spec(client.package) is None:
        return f"the client {name} is not installed"
    return missing(name) if client.module == "foreign" else None


def _cannot(target: Target, shape: Shape) -> str | None:
    """The reason why a shape cannot be measured at a target; None if it can."""
    if shape.client == FRANZ_GO and target.name == "tansu":
        return "tansu closes the connection when franz-go asks for its ApiVersions"
    is_spread = shape.direction == PRODUCE and shape.partitions > 1
    if is_spread and "durable" not in target.capabilities:
        return f"{target.name} does not report how many records its partitions have"
    if shape.place == TIER:
        return has_no_tier(target)
    if shape.place == COLD:
        in_memory = f"{target.name} keeps its records in memory"
        return knows_its_disk(target) or (None if "durable" in target.capabilities else in_memory)
    return None


def _shape_of(case: Case) -> Shape:
    """The shape of a case; `full` has all shapes."""
    return next(shape for shape in _full() if shape.case == case)


def _produce(shape: Shape, load: Load, target: RunningTarget, recorder: Recorder) -> None:
    from ..harness.requests.admin import end_offsets, ends_at, fresh_topic

    config = target.topic_config(tiered=False)
    with fresh_topic(target.bootstrap, config, load.partitions) as topic:
        _run(shape, load, target, topic, recorder)
        if load.partitions == 1 and ends_at(target.bootstrap, topic, [load.records]):
            return
        written = sum(end_offsets(target.bootstrap, topic, load.partitions))
        if written != load.records:
            raise MeasurementError(f"the broker has {written} of {load.records} records")


def _consume(shape: Shape, load: Load, target: RunningTarget, recorder: Recorder) -> None:
    topic = _kept_topic(target, load, shape.place == TIER)
    # Otherwise the records that filled the topic would be written back during this run.
    write_back()
    if shape.place == HOT and target.node is not None:
        fill_page_cache(target.directory, topic)
    if shape.place == COLD:
        for partition in range(load.partitions):
            drop_page_cache(target.directory / "logs" / f"{topic}-{partition}")
    _run(shape, load, target, topic, recorder)


def _kept_topic(target: RunningTarget, load: Load, tiered: bool) -> str:
    """The topic with these records, filled by librdkafka unless an earlier run did so."""
    from ..harness.requests.admin import create_topic, delete_topic, ends_at, led_partitions

    kind = "tiered" if tiered else "local"
    topic = f"defaults-{load.records}-{load.record_bytes}-{load.partitions}-{kind}"
    if led_partitions(target.bootstrap, topic):
        expected = [load.records_in(partition) for partition in range(load.partitions)]
        if ends_at(target.bootstrap, topic, expected):
            return topic
        # An earlier run failed halfway.
        delete_topic(target.bootstrap, topic)
    config = target.topic_config(tiered)
    segment_bytes = load.total_bytes // load.partitions // _SEGMENTS
    segment_bytes = max(_SEGMENT_BYTES_MIN, min(segment_bytes, _SEGMENT_BYTES_MAX))
    if tiered:
        # Copied segments leave the disk as soon as possible.
        config |= {"segment.bytes": str(segment_bytes), "local.retention.bytes": "1"}
    create_topic(target.bootstrap, topic, config, partitions=load.partitions)
    order = ("produce", "--bootstrap", target.bootstrap, "--topic", topic)
    run_client("defaults.librdkafka_fill", *order, *load.arguments())
    if tiered:
        wait_until_local_is_small(target, topic, segment_bytes * load.partitions)
    return topic


def _run(shape: Shape, load: Load, target: RunningTarget, topic: str, recorder: Recorder) -> None:
    """Run the client, and measure what it and the broker use."""
    client = CLIENTS[shape.client]
    order = (shape.direction, "--bootstrap", target.bootstrap, "--topic", topic)
    record_cpu_before(target, recorder)
    with recorder.usage(target, nbytes=load.total_bytes):
        result = run_client(
            f"defaults.{client.module}", *client.arguments, *order, *load.arguments()
        )
    rate = result.figures["records"] / result.figures["seconds"]
    recorder.figure("records_per_s", rate)
    recorder.figure("mb_per_s", rate * load.record_bytes / 1e6)
    recorder.figure("first_record_s", result.figures["first_record_s"])


SCENARIO: Scenario = Defaults()
