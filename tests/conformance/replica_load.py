"""Writers that go on while leaders of partitions come and go, and what a reader must find of them.

Every value says who wrote it and its number, so that a record that is lost, that is there twice or
that is out of order shows up whatever its offset.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SIZES = (20, 200, 3_000, 20_000, 300_000)
"""Bytes of a value, in turn; the last is rarer than the others."""

UNKNOWN = -1
"""The offset of what is acknowledged only by the acknowledgement of what came after it: librdkafka
gets no answer about a batch whose request timed out, and infers the rest."""

_PAUSE_S = 0.15
_IN_FLIGHT_MAX = 20
_FLUSH_S = 240
_CONSUME_S = 0.5
_SILENT_MAX = 120
_ABORTED_EVERY = 3

Place = tuple[int, str]
"""A partition, and the name of who wrote there."""


def value_of(name: str, number: int) -> bytes:
    """A value of one of many sizes, which compresses to about a half."""
    size = SIZES[4] if number % 97 == 96 else SIZES[number % 4]
    head = f"{name} {number} "
    return (head + Random(head).randbytes(size // 2).hex()).encode()


def name_and_number(value: bytes) -> tuple[str, int]:
    name, number, _ = value.split(b" ", 2)
    return name.decode(), int(number)


@dataclass
class Acknowledged:
    """The numbers that were acknowledged, with their offsets, by partition and writer."""

    offsets: dict[Place, dict[int, int]] = field(default_factory=dict[Place, dict[int, int]])

    def count(self, partition: int) -> int:
        """How many records of a partition were acknowledged."""
        here = list(self.offsets.items())
        return sum(len(offsets) for (number, _), offsets in here if number == partition)


class _Worker(AbstractContextManager["_Worker"]):
    """A thread that does the same again and again; what ends it is raised at the end."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def once(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            while not self._is_over.wait(_PAUSE_S):
                self.once()
            self.finish()
        except BaseException as failure:
            self.failure = failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        if self.failure is not None and error is None:
            raise self.failure


class Writers(_Worker):
    """An idempotent producer for each codec, each writing to all partitions with acks=all."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__()
        self.acknowledged = Acknowledged()
        self._topic = topic
        self._partitions = partitions
        self._sent = 0
        self._producers = {
            f"of-{codec}": Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "compression.type": codec,
                    "enable.idempotence": True,
                    "linger.ms": 5,
                    "retry.backoff.ms": 50,
                    "log_level": 0,
                }
            )
            for codec in CODECS
        }

    def once(self) -> None:
        for name, producer in self._producers.items():
            producer.poll(0)
            if len(producer) > _IN_FLIGHT_MAX * self._partitions:
                continue
            for partition in range(self._partitions):
                producer.produce(
                    self._topic,
                    value_of(name, self._sent),
                    partition=partition,
                    on_delivery=self._delivery(partition, name, self._sent),
                )
        self._sent += 1

    def finish(self) -> None:
        for name, producer in self._producers.items():
            left = producer.flush(_FLUSH_S)
            assert left == 0, f"{left} records {name} were not acknowledged"

    def _delivery(
        self, partition: int, name: str, number: int
    ) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            assert error is None, error
            place = self.acknowledged.offsets.setdefault((partition, name), {})
            assert number not in place
            place[number] = UNKNOWN if offset is None else offset

        return delivered


class Transactions(_Worker):
    """Transactions over all partitions, some of them aborted; the coordinators may be anywhere."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, name: str) -> None:
        super().__init__()
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.name = name
        self._topic = topic
        self._partitions = partitions
        self._begun = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": 300_000,
                "retry.backoff.ms": 50,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(_FLUSH_S)

    def once(self) -> None:
        number, producer = self._begun, self._producer
        self._begun += 1
        producer.begin_transaction()
        for partition in range(self._partitions):
            producer.produce(self._topic, value_of(self.name, number), partition=partition)
        if number % _ABORTED_EVERY == _ABORTED_EVERY - 1:
            producer.flush(_FLUSH_S)
            self._abort(number)
            return
        try:
            until_done(lambda: producer.commit_transaction(_FLUSH_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._abort(number)
            return
        self.committed.append(number)

    def _abort(self, number: int) -> None:
        until_done(lambda: self._producer.abort_transaction(_FLUSH_S))
        self.aborted.append(number)

    def finish(self) -> None:
        """No transaction is open between two rounds."""


class Groups:
    """Groups that commit positions, alone and in transactions, between one change and the next.

    No client of them lives through a change: librdkafka waits for a coordinator that was killed,
    with three nodes of Kafka, too.
    """

    def __init__(self, bootstrap: str, topic: str, names: Sequence[str]) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._names = names
        self._position = 0

    def move_on(self) -> None:
        """Assert that all are where they have committed to, and commit twice more."""
        for name in self._names:
            settings = {"bootstrap.servers": self._bootstrap, "log_level": 0}
            consumer = Consumer({**settings, "group.id": name})
            if self._position:
                assert self._committed(consumer) == self._position
            consumer.commit(offsets=self._at(self._position + 1), asynchronous=False)
            producer = Producer({**settings, "transactional.id": f"offsets-{name}"})
            producer.init_transactions(_FLUSH_S)
            for end in (producer.abort_transaction, producer.commit_transaction):
                producer.begin_transaction()
                group = consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(self._at(self._position + 2), group, _FLUSH_S)
                end(_FLUSH_S)
                if end == producer.abort_transaction:
                    assert self._committed(consumer) == self._position + 1
            assert self._committed(consumer) == self._position + 2
            consumer.close()
        self._position += 2

    def _at(self, position: int) -> list[TopicPartition]:
        return [TopicPartition(self._topic, 0, position)]

    def _committed(self, consumer: Consumer) -> int:
        (position,) = consumer.committed(self._at(0), _FLUSH_S)
        assert position.error is None
        return position.offset


def until_done(attempt: Callable[[], object]) -> None:
    """Repeat what may be repeated, as librdkafka says of its errors."""
    for _ in range(_IN_FLIGHT_MAX):
        try:
            attempt()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return
    raise AssertionError("It was tried often enough.")


class Read(NamedTuple):
    """A record as an independent consumer gets it."""

    offset: int
    name: str
    number: int


def read_all(
    bootstrap: str, topic: str, ends: Mapping[int, int], isolation: str
) -> dict[int, list[Read]]:
    """All records of the partitions up to below their ends, in the order in which they come."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "check.crcs": True,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    read: dict[int, list[Read]] = {partition: [] for partition in ends}
    open_: set[int] = {partition for partition, end in ends.items() if end > 0}
    silent = 0
    while open_:
        # It would wait for the thousandth.
        messages = consumer.consume(1_000, _CONSUME_S)
        silent = 0 if messages else silent + 1
        assert silent < _SILENT_MAX, f"{topic}-{open_} ends in the middle"
        for each in messages:
            _take(each, read, open_, ends)
    consumer.close()
    return read


def _take(
    message: Message, read: dict[int, list[Read]], open_: set[int], ends: Mapping[int, int]
) -> None:
    partition, offset, error = message.partition(), message.offset(), message.error()
    assert partition is not None
    assert offset is not None
    if error is not None:
        assert error.code() == KafkaError._PARTITION_EOF, error
        if offset >= ends[partition]:
            open_.discard(partition)
        return
    value = message.value()
    assert isinstance(value, bytes)
    name, number = name_and_number(value)
    assert value == value_of(name, number)
    read[partition].append(Read(offset, name, number))


def check_acknowledged(read: Mapping[int, Sequence[Read]], acknowledged: Acknowledged) -> None:
    """Assert that all that was acknowledged was read once, in order and at its offset."""
    for (partition, name), offsets in acknowledged.offsets.items():
        here = [each for each in read[partition] if each.name == name]
        assert [each.number for each in here] == sorted(offsets), (partition, name)
        assert all(offsets[each.number] in (UNKNOWN, each.offset) for each in here)


def check_committed(read: Mapping[int, Sequence[Read]], writer: Transactions) -> None:
    """Assert that the committed transactions, and no others, were read in order."""
    for partition, records in read.items():
        here = [each.number for each in records if each.name == writer.name]
        assert here == writer.committed, (partition, writer.name)
