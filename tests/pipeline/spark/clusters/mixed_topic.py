"""A topic of everything: transactions, five codecs, headers, nulls, a skew, a start that was cut.

Nearly all records are in partition 0. What a reader must get of it is what librdkafka's consumer
gets from the broker, with `read_committed`, up to where the tier ends.
"""

import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import confluent_kafka
import pyarrow as pa
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.pipeline.reading.scan import plan_scan
from tierlog.pipeline.reading.scan_options import scan_options
from tierlog.tests.pipeline.spark.clusters.story_size import VALUE_BYTES
from tierlog.tests.pipeline.spark.tiers import (
    TierPlace,
    broker_on,
    tiered_topic,
    wait_until_all_is_tiered,
)
from tierlog.tests.waiting import wait_until
from tierlog.tiering.store.object_keys import parse_object_key

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 4
SKEW = 0.7
"""The share of partition 0."""
ABORTED = 0.25
FIRST_MS = 1_790_000_000_000
_NULL = 0.1
_AT_ONCE = 100_000
_TIMEOUT_S = 60.0

FIELDS: pa.Schema = cast("Any", pa).schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""What is compared, field by field."""

Header = tuple[str, bytes | None]


class Drawn(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    partition: int


def drawn(chance: random.Random, number: int) -> Drawn:
    """One record, most of which no codec makes smaller."""
    partition = 0 if chance.random() < SKEW else chance.randrange(1, PARTITIONS)
    key = None if chance.random() < _NULL else f"k{number % 1000}".encode()
    value = None
    if chance.random() >= _NULL:
        size = chance.randrange(VALUE_BYTES * (1 if partition == 0 else 3))
        value = f"{number} ".encode() + chance.randbytes(size) + bytes(20)
    headers = [
        (f"h{each}", None if chance.random() < _NULL else chance.randbytes(each))
        for each in range(chance.choice((0, 0, 1, 3)))
    ]
    return Drawn(key, value, headers, partition)


@dataclass(frozen=True)
class MixedTopic:
    """A topic whose closed segments are in a tier, and who reads it without Spark."""

    node: TierlogNode
    place: TierPlace
    name: str
    aborted: int
    transactions: Mapping[int, Sequence[tuple[int, int]]]
    """By partition, the first and last offset of each; its marker is the next offset."""

    @property
    def ends(self) -> dict[int, int]:
        """One past the last offset that the tier can decide about: its own last stable offset."""
        ends = self.place.end_offsets(self.name)
        for partition, end in ends.items():
            still_open = [
                first
                for first, last in self.transactions[partition]
                if first < end and last + 1 >= end
            ]
            ends[partition] = min((*still_open, end))
        return ends

    @property
    def stored_bytes(self) -> int:
        """About how much a scan reads."""
        options = scan_options(self.place.options(self.name, failOnDataLoss="false"))
        return sum(task.nbytes for task in plan_scan(options))

    def consumed(self) -> Iterator[pa.Table]:
        """What librdkafka gets of the offsets in the tier, in tables of up to 100,000 rows."""
        for partition, end in self.ends.items():
            # A consumer that changes its assignment may still hand out what it had fetched before.
            consumer = _consumer(self.node)
            try:
                yield from _partition(consumer, self.name, partition, end)
            finally:
                consumer.close()

    def trim(self) -> int:
        """Delete the first segments of partition 0, a third of them; where it begins then.

        It begins with a segment: a tier does not say which records of one have been deleted.
        """
        partition = confluent_kafka.TopicPartition(self.name, 0)
        first = _first_offsets(self.place, self.name)
        partition.offset = first[len(first) // 3]
        admin = cast("Any", AdminClient({"bootstrap.servers": self.node.bootstrap}))
        for answer in admin.delete_records([partition]).values():
            answer.result(_TIMEOUT_S)

        def is_gone() -> bool:
            return _first_offsets(self.place, self.name)[0] == partition.offset

        wait_until(is_gone, _TIMEOUT_S, "the trimmed segments are still in the tier")
        return partition.offset


def _consumer(node: TierlogNode) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )


def _first_offsets(place: TierPlace, topic: str) -> list[int]:
    """Of the segments of partition 0, in order; a scan divides one where a leader has ended."""
    options = scan_options(place.options(topic, partition="0", failOnDataLoss="false"))
    keys = [parse_object_key(part.key) for task in plan_scan(options) for part in task.ranges]
    return sorted({key.start_offset for key in keys if key is not None})


def _partition(
    consumer: confluent_kafka.Consumer, topic: str, partition: int, end: int
) -> Iterator[pa.Table]:
    beginning = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, beginning)])
    rows: list[dict[str, object]] = []
    while True:
        first = consumer.poll(_TIMEOUT_S)
        assert first is not None, f"{topic}-{partition} has not ended, and nothing comes"
        is_read = False
        # Only what has come: to wait for more would be to wait beyond the end.
        for message in (first, *consumer.consume(2000, 0)):
            error = message.error()
            if error is not None:
                # Beyond the last record there may be markers alone.
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                is_read = True
            elif cast("int", message.offset()) >= end:
                is_read = True
            else:
                rows.append(_row(message))
        if is_read or len(rows) >= _AT_ONCE:
            yield pa.Table.from_pylist(rows, schema=FIELDS)
            rows = []
        if is_read:
            return


def _row(message: confluent_kafka.Message) -> dict[str, object]:
    headers = cast("list[Header]", message.headers() or [])
    return {
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": message.timestamp()[1],
        "headers": [{"key": key, "value": value} for key, value in headers] or None,
    }


class Writer:
    """Sends transactions, one after the other: each has its marker before the next one begins."""

    def __init__(self, node: TierlogNode, topic: str, chance: random.Random) -> None:
        self._node = node
        self._topic = topic
        self._chance = chance
        self.aborted = 0
        self.transactions: dict[int, list[tuple[int, int]]] = {
            partition: [] for partition in range(PARTITIONS)
        }
        """By partition, the first and last offset of each."""

    def write(
        self,
        codec: str,
        numbers: range,
        draw: Callable[[random.Random, int], Drawn] = drawn,
    ) -> None:
        """Send these records in about 30 transactions."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._node.bootstrap,
                # Under one name: it waits for the markers of the one before.
                "transactional.id": "mixed",
                "compression.type": codec,
                "linger.ms": 5,
            }
        )
        producer.init_transactions(_TIMEOUT_S)
        at_once = max(100, len(numbers) // 30)
        for first in range(numbers.start, numbers.stop, at_once):
            records = range(first, min(first + at_once, numbers.stop))
            self._transaction(producer, records, draw)

    def _transaction(
        self,
        producer: confluent_kafka.Producer,
        numbers: range,
        draw: Callable[[random.Random, int], Drawn],
    ) -> None:
        offsets: dict[int, list[int]] = {}

        def delivered(error: object, message: confluent_kafka.Message) -> None:
            assert error is None, error
            offset = cast("int", message.offset())
            span = offsets.setdefault(cast("int", message.partition()), [offset, offset])
            span[1] = offset

        producer.begin_transaction()
        for number in numbers:
            record = draw(self._chance, number)
            while True:
                try:
                    producer.produce(
                        self._topic,
                        record.value,
                        record.key,
                        record.partition,
                        delivered,
                        timestamp=FIRST_MS + number * 10,
                        headers=cast("Any", record.headers),
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.flush(_TIMEOUT_S)
        if self._chance.random() < ABORTED:
            producer.abort_transaction(_TIMEOUT_S)
            self.aborted += len(numbers)
        else:
            producer.commit_transaction(_TIMEOUT_S)
        for partition, (first, last) in offsets.items():
            self.transactions[partition].append((first, last))


def segments(records: int, size: int | None = None) -> dict[str, str]:
    """What a topic is configured with: segments of so many bytes, or about twenty in all."""
    size = size or max(1 << 20, min(records * VALUE_BYTES // 24, 256 << 20))
    # Records and markers are of different days, and would begin a segment each.
    return {"segment.bytes": str(size), "segment.ms": "1000000000000"}


@contextmanager
def mixed_topic(
    directory: Path,
    name: str,
    records: int,
    seed: int,
    *,
    place: TierPlace | None = None,
    segment_bytes: int | None = None,
) -> Generator[MixedTopic]:
    """The topic, drawn from a seed, and a broker that lives as long as the context."""
    chance = random.Random(seed)
    place = place or TierPlace((directory / "remote").as_uri())
    with broker_on(directory, place) as node:
        tiered_topic(node, name, partitions=PARTITIONS, config=segments(records, segment_bytes))
        writer = Writer(node, name, chance)
        share = -(-records // len(CODECS))
        for number, codec in enumerate(CODECS):
            writer.write(codec, range(number * share, (number + 1) * share))
        wait_until_all_is_tiered(node, place, name)
        yield MixedTopic(node, place, name, writer.aborted, writer.transactions)
