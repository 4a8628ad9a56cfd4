"""Writes rows to a topic through the broker, each row once, in source order.

Each row has its source topic, partition and offset, and goes to the partition with the same number.
The records of a source partition are written in transactions, each of which also commits the
source position as a group's offset, so that records and position are committed atomically. A
restarted or duplicate writer reads the position and skips the records below it. The topic's id, if
known, is the metadata of that offset: a topic that was created again is not written behind the old
one's position.

The transactional id is made of the job's name, the target topic and the source partition. So a new
writer first fences an old one that is still alive, and then reads the position. The rows of a
source partition must come in offset order, within a call and across calls.

This needs librdkafka on the driver and the executors (`pip install 'tierlog[spark]'` installs it).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import pyarrow as pa

from ...clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ...clients.topic_partition import TopicPartition
from ..reading.scan_options import TopicIds
from ..reading.topic_ids import recreated_topic

if TYPE_CHECKING:
    import confluent_kafka
    from pyspark.sql import DataFrame

TRANSACTION_RECORDS = 10_000
TRANSACTION_BYTES = 8 * 1024 * 1024
TRANSACTION_S = 5.0
"""A transaction ends at the first of these limits; the time is for backfills at a low rate, so that
consumers see the records soon."""

_TOPIC_ID = "topicId"
_ATTEMPTS = 5
_TIMEOUT_S = 60.0

_COLUMNS = ("key", "value", "headers", "timestamp", "topic", "partition", "offset")
_NEEDED = frozenset({"value", "topic", "partition", "offset"})


Value = str | bytes | None
"""The value of a header, as librdkafka accepts it."""


class TopicWriterError(Exception):
    """Rows cannot be written to a topic. The message is one sentence for the user."""


class SourceRecord(NamedTuple):
    """A record to write, and its offset in the source."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, Value]]
    timestamp_ms: int
    offset: int

    @property
    def nbytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


@dataclass(frozen=True, slots=True)
class TopicWriter:
    """A target topic, and the job name that the positions are stored under.

    A job with the same name continues; one with another name starts from the beginning.
    """

    bootstrap: str
    topic: str
    name: str
    records_per_second: float = 0
    """The limit for all writers together; 0 for none."""
    client: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Further settings of librdkafka, such as credentials."""
    topic_ids: TopicIds = field(default_factory=dict[str, Uuid])
    """The ids of the source topics, as far as they are known."""

    def write(self, rows: "DataFrame") -> int:
        """Write the rows that are not in the topic yet; returns their number."""
        missing = sorted(_NEEDED - set(rows.columns))
        if missing:
            raise TopicWriterError(
                f"The rows have no column {missing[0]!r}: they need the topic, partition and "
                "offset of each record."
            )
        there = [name for name in _COLUMNS if name in rows.columns]
        writers = rows.sparkSession.sparkContext.defaultParallelism
        arranged = (
            rows.select(*there)
            .repartition(writers, "topic", "partition")
            .sortWithinPartitions("topic", "partition", "offset")
        )
        share = _Share(self, self.records_per_second / writers)
        (row,) = (
            arranged.mapInArrow(share.write, "written BIGINT").agg({"written": "sum"}).collect()
        )
        return int(row[0] or 0)

    def settings(self) -> dict[str, str]:
        """The librdkafka settings of every client of this job."""
        return {"bootstrap.servers": self.bootstrap, **self.client}

    def group(self, source_topic: str) -> str:
        """The group whose committed offsets are the positions in a source topic."""
        return f"tierlog-{self.name}.{source_topic}"

    def end_offsets(self) -> dict[int, int]:
        """The end offset of each partition of the target topic. Raises TopicWriterError."""
        import confluent_kafka

        consumer = confluent_kafka.Consumer({**self.settings(), "group.id": self.group("")})
        try:
            topic = consumer.list_topics(self.topic, timeout=_TIMEOUT_S).topics[self.topic]
            if topic.error is not None:
                raise TopicWriterError(f"{self.topic}: {topic.error.str()}")
            parts = {
                number: confluent_kafka.TopicPartition(self.topic, number)
                for number in sorted(topic.partitions)
            }
            return {
                number: int(consumer.get_watermark_offsets(part, timeout=_TIMEOUT_S)[1])
                for number, part in parts.items()
            }
        except confluent_kafka.KafkaException as error:
            raise TopicWriterError(f"{self.bootstrap}: {error.args[0].str()}") from error
        finally:
            consumer.close()

    def position(self, source: TopicPartition) -> int | None:
        """The next offset of a source partition to write; None if no position is committed.

        Raises TopicWriterError if that position is of a topic that was created again since.
        """
        import confluent_kafka

        consumer = confluent_kafka.Consumer(
            {**self.settings(), "group.id": self.group(source.topic)}
        )
        try:
            return _position(consumer, self, source)
        finally:
            consumer.close()


def _position(
    consumer: "confluent_kafka.Consumer", writer: TopicWriter, source: TopicPartition
) -> int | None:
    import confluent_kafka

    partitions = [confluent_kafka.TopicPartition(writer.topic, source.partition)]
    (answer,) = consumer.committed(partitions, timeout=_TIMEOUT_S)
    if answer.error is not None:
        raise confluent_kafka.KafkaException(answer.error)
    if answer.offset < 0:
        return None
    other = recreated_topic(_saved_ids(source.topic, answer.metadata), writer.topic_ids)
    if other is not None:
        raise TopicWriterError(
            f"The progress that is saved under the name {writer.name!r} is of the old topic, but "
            f"{other}; use another name, and another target unless the new records are to follow "
            "the old ones."
        )
    return int(answer.offset)


def _saved_ids(topic: str, metadata: str | None) -> TopicIds:
    """The id in the metadata of a committed offset; none in what an earlier version committed."""
    marker, _, text = (metadata or "").partition("=")
    return {topic: uuid_from_string(text)} if marker == _TOPIC_ID else {}


@dataclass(frozen=True, slots=True)
class _Share:
    """One task: writes some of the source partitions, at its share of the rate."""

    writer: TopicWriter
    records_per_second: float

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = 0
        with asyncio.Runner() as runner:
            pace = _Pace(runner, self.records_per_second)
            current: _SourceWriter | None = None
            try:
                for source, record in _records(batches):
                    if current is None or current.source != source:
                        if current is not None:
                            written += current.finish()
                        current = _SourceWriter(self.writer, source, pace)
                    current.add(record)
                if current is not None:
                    written += current.finish()
                    current = None
            finally:
                if current is not None:
                    current.close()
        yield pa.RecordBatch.from_pydict({"written": [written]})


class _Column(Protocol):
    """The methods of an Arrow array that are used here; PyArrow's own types are too loose."""

    def cast(self, target: pa.DataType) -> "_Column": ...

    def to_pylist(self) -> list[object]: ...


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[TopicPartition, SourceRecord]]:
    """The rows of Arrow batches as records, each with its source partition."""
    for batch in batches:
        rows = zip(
            cast("list[str]", _column(batch, "topic")),
            cast("list[int]", _column(batch, "partition")),
            cast("list[int]", _column(batch, "offset")),
            cast("list[bytes | None]", _column(batch, "key")),
            cast("list[bytes | None]", _column(batch, "value")),
            cast("list[list[dict[str, object]] | None]", _column(batch, "headers")),
            cast("list[int | None]", _column(batch, "timestamp")),
            strict=True,
        )
        for topic, partition, offset, key, value, headers, micros in rows:
            pairs = [
                (str(header["key"]), cast("Value", header["value"])) for header in headers or ()
            ]
            time_ms = -1 if micros is None else micros // 1000
            yield TopicPartition(topic, partition), SourceRecord(key, value, pairs, time_ms, offset)


def _column(batch: pa.RecordBatch, name: str) -> list[object]:
    """A column's values, with times in microseconds; all None if there is no such column."""
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    column = cast("_Column", batch.column(name))
    return (column.cast(pa.int64()) if name == "timestamp" else column).to_pylist()


class _Pace:
    """Limits the rate of records per second."""

    def __init__(self, runner: asyncio.Runner, records_per_second: float) -> None:
        self._runner = runner
        self._rate = records_per_second
        self._begun = self.now()
        self._passed = 0

    def now(self) -> float:
        return self._runner.get_loop().time()

    def wait(self) -> None:
        """Wait until the next record may be sent."""
        self._passed += 1
        if self._rate:
            ahead = self._passed / self._rate - (self.now() - self._begun)
            if ahead > 0:
                self._runner.run(asyncio.sleep(ahead))


class _SourceWriter:
    """Writes the records of one source partition, in transactions."""

    def __init__(self, writer: TopicWriter, source: TopicPartition, pace: _Pace) -> None:
        import confluent_kafka

        self.source = source
        self._writer = writer
        self._pace = pace
        self._producer = confluent_kafka.Producer(
            {
                **writer.settings(),
                "transactional.id": f"tierlog-{writer.name}-{writer.topic}-{source}",
                "linger.ms": 5,
            }
        )
        self._consumer = confluent_kafka.Consumer(
            {**writer.settings(), "group.id": writer.group(source.topic)}
        )
        # This fences the previous writer and aborts its open transaction.
        self._producer.init_transactions(_TIMEOUT_S)
        self._next = _position(self._consumer, writer, source) or 0
        self._waiting: list[SourceRecord] = []
        self._waiting_bytes = 0
        self._began = pace.now()
        self._written = 0

    def add(self, record: SourceRecord) -> None:
        """Add a record, in offset order; skips it if it is already in the topic."""
        if record.offset < self._next:
            return
        self._next = record.offset + 1
        self._pace.wait()
        self._waiting.append(record)
        self._waiting_bytes += record.nbytes
        if (
            len(self._waiting) >= TRANSACTION_RECORDS
            or self._waiting_bytes >= TRANSACTION_BYTES
            or self._pace.now() - self._began >= TRANSACTION_S
        ):
            self._commit()

    def finish(self) -> int:
        """Commit the remaining records; returns the total number written."""
        self._commit()
        self.close()
        return self._written

    def close(self) -> None:
        """Close the writer without committing pending records."""
        self._consumer.close()

    def _commit(self) -> None:
        import confluent_kafka

        for attempt in range(1, _ATTEMPTS + 1):
            if not self._waiting:
                break
            try:
                self._transaction()
            except confluent_kafka.KafkaException as failure:
                error = cast("confluent_kafka.KafkaError", failure.args[0])
                if attempt == _ATTEMPTS or not error.txn_requires_abort():
                    raise
                self._producer.abort_transaction(_TIMEOUT_S)
            else:
                self._written += len(self._waiting)
                self._waiting, self._waiting_bytes = [], 0
        self._began = self._pace.now()

    def _transaction(self) -> None:
        import confluent_kafka

        self._producer.begin_transaction()
        for record in self._waiting:
            self._produce(record)
        topic_id = self._writer.topic_ids.get(self.source.topic)
        position = confluent_kafka.TopicPartition(
            self._writer.topic,
            self.source.partition,
            self._waiting[-1].offset + 1,
            metadata="" if topic_id is None else f"{_TOPIC_ID}={uuid_to_string(topic_id)}",
        )
        self._retry(
            lambda: self._producer.send_offsets_to_transaction(
                [position], self._consumer.consumer_group_metadata(), _TIMEOUT_S
            )
        )
        self._retry(lambda: self._producer.commit_transaction(_TIMEOUT_S))

    def _produce(self, record: SourceRecord) -> None:
        while True:
            try:
                self._producer.produce(
                    self._writer.topic,
                    value=record.value,
                    key=record.key,
                    partition=self.source.partition,
                    headers=record.headers,
                    timestamp=max(record.timestamp_ms, 0),
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _retry(self, call: Callable[[], object]) -> None:
        """Retry a call while librdkafka's errors are retriable."""
        import confluent_kafka

        for attempt in range(1, _ATTEMPTS + 1):
            try:
                call()
            except confluent_kafka.KafkaException as failure:
                error = cast("confluent_kafka.KafkaError", failure.args[0])
                if attempt == _ATTEMPTS or not error.retriable():
                    raise
            else:
                return
