"""Records as a real client (librdkafka) sends them, and where the broker said that they are."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import NamedTuple, cast

from confluent_kafka import (
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition as ClientPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tierlog.clients.runtime.environment import SystemEnvironment

from .dump_log import Dump, DumpedBatch, DumpedRecord

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = SystemEnvironment().wall_clock_ms() - 60_000
"""Of today, for a broker forgets idempotent producers that were last heard of yesterday."""


class Sent(NamedTuple):
    """A record that was acknowledged, and how it was sent."""

    producer: str
    codec: str
    is_idempotent: bool
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Consumed(NamedTuple):
    """A record as a client was given it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Sending(NamedTuple):
    """Who sends: the name tells its records from those of others."""

    name: str
    codec: str = "none"
    is_idempotent: bool = False
    transactional_id: str | None = None


def record(sending: Sending, number: int) -> Sent:
    """Keys, values and headers are there or not; one timestamp in nine goes back in time."""
    # What compresses to about half: numbers in hexadecimal that do not repeat.
    noise = b"".join(b"%08x" % (number * 2654435761 * step % (1 << 32)) for step in range(1, 120))
    return Sent(
        sending.name,
        sending.codec,
        sending.is_idempotent or sending.transactional_id is not None,
        FIRST_MS + number - (50_000 if number % 9 == 0 else 0),
        None if number % 5 == 0 else f"key {number}: Grüße".encode(),
        None if number % 7 == 0 else f"{sending.name}, {number}, ".encode() + noise,
        (("first", b"1"), ("second", None), ("first", b"")) if number % 3 == 0 else (),
    )


def client(sending: Sending, bootstrap: str) -> Producer:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "compression.type": sending.codec,
        "enable.idempotence": sending.is_idempotent,
        "linger.ms": 100,
        "batch.size": 8_000,
        "log_level": 0,
    }
    if sending.transactional_id is not None:
        settings |= {"transactional.id": sending.transactional_id, "enable.idempotence": True}
    return Producer(settings)


def produce(bootstrap: str, topic: str, sending: Sending, count: int) -> dict[int, Sent]:
    """Send to partition 0; the records by the offsets that the broker acknowledged.

    With a transactional id two transactions: the first half of the records is aborted, the second
    committed.
    """
    producer = client(sending, bootstrap)
    acknowledged: dict[int, Sent] = {}
    if sending.transactional_id is None:
        _send(producer, topic, [record(sending, number) for number in range(count)], acknowledged)
        return acknowledged
    producer.init_transactions(60)
    for numbers, end in (
        (range(count // 2), producer.abort_transaction),
        (range(count // 2, count), producer.commit_transaction),
    ):
        producer.begin_transaction()
        _send(producer, topic, [record(sending, number) for number in numbers], acknowledged)
        end(60)
    return acknowledged


def _send(
    producer: Producer, topic: str, records: list[Sent], acknowledged: dict[int, Sent]
) -> None:
    def delivery_of(sent: Sent) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            assert error is None, error
            assert offset is not None
            acknowledged[offset] = sent

        return delivered

    before = len(acknowledged)
    for sent in records:
        producer.produce(
            topic,
            sent.value,
            sent.key,
            0,
            on_delivery=delivery_of(sent),
            timestamp=sent.timestamp,
            headers=list(sent.headers),
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert len(acknowledged) == before + len(records)


def as_consumed(sent: Mapping[int, Sent]) -> list[Consumed]:
    """What a client must be given of what was sent."""
    return [
        Consumed(offset, each.key, each.value, each.headers)
        for offset, each in sorted(sent.items())
    ]


def consume(bootstrap: str, topic: str, count: int) -> list[Consumed]:
    """The first `count` records of partition 0."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "check.crcs": True, "log_level": 0}
    )
    consumer.assign([ClientPartition(topic, 0, 0)])
    found: list[Consumed] = []
    while len(found) < count:
        messages = consumer.consume(min(count - len(found), 500), 30)
        assert messages, f"{topic} ends after {len(found)} records"
        for each in messages:
            assert not each.error()
            offset, key, value = each.offset(), each.key(), each.value()
            assert offset is not None
            assert not isinstance(key, str)
            assert not isinstance(value, str)
            # Its stubs allow what only a caller may hand in.
            headers = cast("list[tuple[str, bytes | None]]", each.headers() or [])
            found.append(Consumed(offset, key, value, tuple(headers)))
    consumer.close()
    return found


def committed_offset(bootstrap: str, topic: str, group: str) -> int:
    """What a group has committed for partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    (found,) = consumer.committed([ClientPartition(topic, 0)], 30)
    consumer.close()
    return found.offset


def consume_and_commit(bootstrap: str, topic: str, group: str, count: int) -> None:
    """Read `count` records as a member of a group, commit, and leave."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    consumer.subscribe([topic])
    read = 0
    while read < count:
        messages = consumer.consume(min(100, count - read), 20)
        assert messages, "nothing came"
        assert not any(message.error() for message in messages)
        read += len(messages)
    consumer.commit(asynchronous=False)
    consumer.close()


def create(bootstrap: str, topic: str, config: Mapping[str, str]) -> None:
    """A topic of one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new_topic = NewTopic(topic, 1, 1, config=dict(config))
    # The client publishes its futures without the type of what they hold.
    created = cast("dict[str, Future[None]]", admin.create_topics([new_topic]))  # pyright: ignore[reportUnknownMemberType]
    created[topic].result(30)


def check_against(logs: list[Dump], sent: Mapping[int, Sent]) -> None:
    """Assert that the dumped logs hold exactly what was acknowledged, as it was sent."""
    found = {each.offset: (batch, each) for log in logs for batch, each in _with_batches(log)}
    data = {offset: pair for offset, pair in found.items() if not pair[0].is_control}
    assert sorted(data) == sorted(sent)
    producer_ids: dict[str, set[int]] = {}
    sequences: dict[int, int] = {}
    for offset, expected in sorted(sent.items()):
        batch, each = data[offset]
        assert _text(each) == (
            expected.timestamp,
            -1 if expected.key is None else len(expected.key),
            -1 if expected.value is None else len(expected.value),
            None if expected.key is None else expected.key.decode(),
            None if expected.value is None else expected.value.decode(),
            tuple(name for name, _ in expected.headers),
        )
        # librdkafka sends a small batch as it is where compression makes it larger.
        assert batch.codec == expected.codec or (batch.codec == "none" and batch.record_count <= 2)
        producer_ids.setdefault(expected.producer, set()).add(batch.producer_id)
        if expected.is_idempotent:
            assert each.sequence == sequences.get(batch.producer_id, 0)
            sequences[batch.producer_id] = each.sequence + 1
        else:
            assert (batch.producer_id, each.sequence) == (-1, -1)
    ids = [one for ids in producer_ids.values() for one in ids if one != -1]
    assert all(len(ids) == 1 for ids in producer_ids.values())
    assert len(set(ids)) == len(ids), "two producers of one id"


def _with_batches(log: Dump) -> list[tuple[DumpedBatch, DumpedRecord]]:
    batches = [batch for batch in log.batches for _ in range(batch.record_count)]
    return list(zip(batches, log.records, strict=True))


def _text(record: DumpedRecord) -> tuple[object, ...]:
    sizes = (record.timestamp, record.key_size, record.value_size)
    return (*sizes, record.key, record.payload, record.header_keys)
