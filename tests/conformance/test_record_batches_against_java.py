"""Our record batches beside Kafka's own record classes: both read the same, and write the same.

Kafka reads what we built and builds it again. Uncompressed, that gives our bytes; compressed, we
read Kafka's bytes. What is damaged, both refuse.
"""

import json
import random
from typing import TypedDict, cast

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import (
    RecordBatch,
    TimestampType,
    batches,
    stamp_crc,
)
from tierlog.clients.record.builder import BatchFields, RecordBatchBuilder, build_control_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.tests.clients.record.golden import golden_segment

from .java_programs import run_java

pytestmark = pytest.mark.requires("java", "mvn")

PROGRAM = "RecordBatches.java"
BATCHES = 150
DAMAGED = 1500


class TheirRecord(TypedDict):
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[tuple[str, str | None]]


class Understood(TypedDict):
    """One batch as Kafka's classes see it, and as they write it."""

    records: list[TheirRecord]
    rebuilt: str


class Answer(TypedDict, total=False):
    batches: list[Understood]
    refused: str


def ask_java(data: list[bytes]) -> list[Answer]:
    lines = run_java(PROGRAM, [one.hex() for one in data])
    return [cast("Answer", json.loads(line)) for line in lines]


def some_bytes(chance: random.Random) -> bytes | None:
    return None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 1, 7, 70, 700)))


def random_batch(chance: random.Random) -> bytes:
    """Any batch that a producer, a broker or the cleaner might write."""
    fields: BatchFields = {
        "base_offset": chance.choice((0, 5, 1 << 40)),
        "leader_epoch": chance.choice((-1, 0, 1 << 20)),
        "compression": chance.choice(list(CompressionType)),
        "timestamp_type": chance.choice(list(TimestampType)),
    }
    if chance.random() < 0.5:
        fields["producer_id"] = chance.randrange(1 << 62)
        fields["producer_epoch"] = chance.randrange(1 << 15)
        fields["base_sequence"] = chance.choice((0, 1, (1 << 31) - 2))
        fields["is_transactional"] = chance.random() < 0.5
    builder = RecordBatchBuilder(**fields)
    offset = fields["base_offset"]
    for _ in range(chance.randint(1, 40)):
        headers = [
            (f"h{chance.random()}é", some_bytes(chance)) for _ in range(chance.choice((0, 0, 2)))
        ]
        timestamp = chance.randrange(1 << chance.choice((3, 20, 45)))
        builder.append(timestamp, some_bytes(chance), some_bytes(chance), headers, offset)
        offset += chance.choice((1, 1, 1, 1000))
    return bytes(builder.build())


def in_their_words(batch: RecordBatch) -> dict[str, object]:
    names = (
        "base_offset last_offset partition_leader_epoch timestamp_type max_timestamp producer_id "
        "producer_epoch base_sequence last_sequence is_transactional is_control"
    )
    fields = {name: getattr(batch, name) for name in names.split()}
    fields["compression"] = int(batch.compression_type)
    fields["records"] = [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
            "headers": [
                [key, None if value is None else value.hex()] for key, value in record.headers
            ],
        }
        for record in batch.records()
    ]
    return fields


def assert_understood(data: bytes, answer: Answer) -> None:
    """Kafka sees in every batch what we see."""
    assert "batches" in answer, answer
    for batch, understood in zip(batches(data), answer["batches"], strict=True):
        described = {name: value for name, value in understood.items() if name != "rebuilt"}
        assert described == in_their_words(batch)


def assert_same(data: bytes, answer: Answer) -> None:
    """Kafka sees in every batch what we see, and writes it as we do."""
    assert_understood(data, answer)
    assert "batches" in answer, answer
    for batch, understood in zip(batches(data), answer["batches"], strict=True):
        rebuilt = bytes.fromhex(understood["rebuilt"])
        # Under LogAppendTime the records' own times are anything: Kafka's builder writes zeros.
        if batch.is_compressed or batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            (again,) = batches(rebuilt)
            again.ensure_valid()
            assert list(again.records()) == list(batch.records())
        else:
            assert rebuilt == bytes(batch.view)


def test_kafka_reads_and_writes_our_batches_as_we_do() -> None:
    chance = random.Random(20)
    data = [random_batch(chance) for _ in range(BATCHES)]
    for one, answer in zip(data, ask_java(data), strict=True):
        assert_same(one, answer)


def test_kafka_reads_our_transaction_markers() -> None:
    data = [
        bytes(
            build_control_batch(
                EndTransactionMarker(kind, 7), 1000, base_offset=9, producer_id=5, producer_epoch=1
            )
        )
        for kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT)
    ]
    for one, answer in zip(data, ask_java(data), strict=True):
        assert_same(one, answer)


def refusal_of(data: bytes) -> KafkaError | None:
    """The error with which we refuse these bytes."""
    try:
        for batch in batches(data):
            batch.ensure_valid()
            list(batch.records())
    except KafkaError as error:
        return error
    return None


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The batch with a few of its record bytes changed, and a CRC that hides it."""
    spoilt = bytearray(data)
    for _ in range(chance.randint(1, 2)):
        # The record count and the records; what the header says of itself is in no doubt.
        spoilt[chance.randrange(57, len(spoilt))] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
    stamp_crc(memoryview(spoilt), 0, len(spoilt))
    return bytes(spoilt)


def test_what_kafka_refuses_we_refuse_and_what_it_reads_we_read_alike() -> None:
    """We are stricter in two places, where Kafka's broker refuses a produced batch later on: an
    offset outside the batch's own range, and bytes behind the last of no records.
    """
    chance = random.Random(21)
    sources = [golden_segment("librdkafka-none"), golden_segment("java-none")]
    data = [damaged(chance.choice(sources), chance) for _ in range(DAMAGED)]
    both_read = 0
    for one, answer in zip(data, ask_java(data), strict=True):
        refusal = refusal_of(one)
        if "refused" in answer:
            assert refusal is not None, answer
            assert refusal.code is ErrorCode.INVALID_RECORD
        elif refusal is None:
            assert_understood(one, answer)
            both_read += 1
        else:
            (batch,) = batches(one)
            assert "outside its batch" in refusal.message or batch.record_count == 0
    assert both_read > DAMAGED // 10
