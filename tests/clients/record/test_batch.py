"""A batch is read as Kafka wrote it, stamped without touching its CRC, and never trusted."""

from struct import pack, pack_into

import pytest
from hypothesis import example, given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.batch import (
    Record,
    RecordBatch,
    TimestampType,
    batches,
    increment_sequence,
    stamp_crc,
    stamp_log_append_time,
)
from tierlog.clients.record.builder import RecordBatchBuilder, build_batch, build_control_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.record.control import ControlRecordType, EndTransactionMarker
from tierlog.clients.record.layout import BATCH_OVERHEAD
from tierlog.tests.clients.record.golden import CODEC_NAMES, captured_records, golden_segment

RECORDS = [
    Record(number, 1000 + number, b"key", b"value %d" % number, (("header", None),))
    for number in range(5)
]


def one_batch(data: bytes | bytearray) -> RecordBatch:
    (batch,) = batches(data)
    return batch


def fixed(batch: bytearray) -> bytearray:
    """The batch again with a CRC that fits what a test changed in it."""
    stamp_crc(memoryview(batch), 0, len(batch))
    return batch


def decode_everything(data: bytes | bytearray) -> list[Record]:
    found: list[Record] = []
    for batch in batches(data):
        batch.ensure_valid()
        found += batch.records(max_bytes=1 << 20)
        if batch.is_control:
            batch.control_type()
    return found


def refusal_of(data: bytes | bytearray) -> ErrorCode | None:
    """The code with which decoding refuses these bytes; anything but a KafkaError escapes."""
    try:
        decode_everything(data)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_what_librdkafka_wrote_is_read_record_by_record(codec: str) -> None:
    batch = one_batch(golden_segment(f"librdkafka-{codec}"))
    batch.ensure_valid()
    assert batch.compression_type is CompressionType.from_name(codec)
    assert [tuple(record[1:]) for record in batch.records()] == captured_records(None)
    assert [record.offset for record in batch.records()] == list(range(10))


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_what_kafka_python_wrote_is_read_record_by_record(codec: str) -> None:
    found = decode_everything(golden_segment(f"kafkapython-{codec}"))
    assert [tuple(record[1:]) for record in found] == captured_records(b"")


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_what_the_java_client_wrote_is_read_record_by_record(codec: str) -> None:
    batch = one_batch(golden_segment(f"java-{codec}"))
    assert batch.crc_is_valid()
    assert batch.has_producer_id
    assert (batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (0, 0, 9)
    assert [(record.key, record.value) for record in batch.records()] == [
        (b"key-%d" % number, b" ".join([b"value-%d" % number] * 3)) for number in range(10)
    ]


def test_transaction_markers_follow_the_transactions_they_end() -> None:
    found = list(batches(golden_segment("txn")))
    assert all(batch.crc_is_valid() and batch.is_transactional for batch in found)
    assert [batch.is_control for batch in found] == [False, True, False, True]
    assert [found[1].control_type(), found[3].control_type()] == [
        ControlRecordType.ABORT,
        ControlRecordType.COMMIT,
    ]
    (record,) = found[3].records()
    marker = EndTransactionMarker.parse(record.key, record.value)
    assert marker == EndTransactionMarker(ControlRecordType.COMMIT, 0)


def test_the_batch_we_build_for_a_marker_is_the_one_kafka_built() -> None:
    kafkas = list(batches(golden_segment("txn")))[1]
    ours = build_control_batch(
        EndTransactionMarker(ControlRecordType.ABORT, 0),
        kafkas.base_timestamp,
        base_offset=1,
        leader_epoch=0,
        producer_id=kafkas.producer_id,
        producer_epoch=kafkas.producer_epoch,
    )
    assert bytes(ours) == bytes(kafkas.view)


def test_stamping_offset_and_epoch_leaves_the_crc_valid() -> None:
    data = bytearray(b"head") + build_batch(RECORDS)
    assigned = RecordBatch(memoryview(data), 4)
    assigned.assign(1 << 40, 7)
    assert (assigned.base_offset, assigned.partition_leader_epoch) == (1 << 40, 7)
    assert (assigned.last_offset, assigned.next_offset) == ((1 << 40) + 4, (1 << 40) + 5)
    batch = RecordBatch(memoryview(data), 4)
    assert data[:4] == b"head"
    assert (batch.base_offset, batch.partition_leader_epoch) == (1 << 40, 7)
    assert (batch.last_offset, batch.next_offset) == ((1 << 40) + 4, (1 << 40) + 5)
    assert batch.crc_is_valid()
    assert [record.offset - (1 << 40) for record in batch.records()] == [0, 1, 2, 3, 4]


def test_log_append_time_replaces_every_records_timestamp() -> None:
    data = build_batch(RECORDS)
    stamp_log_append_time(memoryview(data), 0, 99_000)
    batch = one_batch(data)
    assert batch.crc_is_valid()
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.max_timestamp == 99_000
    assert {record.timestamp for record in batch.records()} == {99_000}


def test_a_batch_is_a_view_and_not_a_copy() -> None:
    data = build_batch(RECORDS)
    batch = one_batch(data)
    assert batch.view.obj is data
    data[-1] ^= 1
    assert not batch.crc_is_valid()
    with pytest.raises(KafkaError) as refusal:
        batch.ensure_valid()
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_partial_batch_at_the_end_is_left_out() -> None:
    whole = build_batch(RECORDS)
    for cut in range(1, len(whole)):
        assert len(list(batches(whole + whole[:cut]))) == 1
    assert len(list(batches(whole + whole))) == 2


@pytest.mark.parametrize("length", [-1, 0, 13, 48, -(2**31)])
def test_an_impossible_length_is_a_corrupt_message(length: int) -> None:
    data = build_batch(RECORDS)
    pack_into(">i", data, 8, length)
    with pytest.raises(KafkaError) as refusal:
        list(batches(data))
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (-1, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_other_magics_are_refused(magic: int, code: ErrorCode) -> None:
    data = build_batch(RECORDS)
    pack_into(">b", data, 16, magic)
    with pytest.raises(KafkaError) as refusal:
        list(batches(data))
    assert refusal.value.code is code
    with pytest.raises(KafkaError) as refusal:
        RecordBatch(memoryview(data))
    assert refusal.value.code is code


@pytest.mark.parametrize(
    ("count", "complaint"), [(-1, "record count"), (4, "still remaining"), (6, "premature end")]
)
def test_a_count_that_is_not_the_records_is_an_invalid_record(count: int, complaint: str) -> None:
    data = build_batch(RECORDS)
    pack_into(">i", data, 57, count)
    with pytest.raises(KafkaError, match=complaint) as refusal:
        list(one_batch(fixed(data)).records())
    assert refusal.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("01", "is longer than the rest of its batch"),
        ("7e00", "is longer than the rest of its batch"),
        ("0e00000001010000", "fill its announced length"),
        ("0c000002010100", "outside its batch"),
        ("0c000001010100", "outside its batch"),
        ("0c0000007e0100", "premature end|announced length"),
        ("0c000000010101", "number of record headers"),
        ("0c000000010102", "premature end|number of record headers"),
        ("0e00000001010201", "header has no key|number of record headers"),
        ("0effffffffffff", "longer than the rest|premature"),
    ],
)
def test_records_that_break_the_format_are_invalid(body: str, complaint: str) -> None:
    data = build_batch([])
    data += bytes.fromhex(body)
    pack_into(">i", data, 8, len(data) - 12)
    pack_into(">i", data, 23, 0)
    pack_into(">i", data, 57, 1)
    with pytest.raises(KafkaError, match=complaint) as refusal:
        list(one_batch(fixed(data)).records())
    assert refusal.value.code is ErrorCode.INVALID_RECORD


def test_an_unknown_codec_is_an_invalid_record() -> None:
    data = build_batch(RECORDS)
    pack_into(">h", data, 21, 5)
    with pytest.raises(KafkaError) as refusal:
        list(one_batch(data).records())
    assert refusal.value.code is ErrorCode.INVALID_RECORD


def test_sequence_numbers_wrap_to_zero() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 2, 1) == 2**31 - 1
    batch = one_batch(
        build_batch(RECORDS, producer_id=9, producer_epoch=0, base_sequence=2**31 - 2)
    )
    assert batch.last_sequence == 2
    assert one_batch(build_batch(RECORDS)).last_sequence == -1


def test_a_header_key_that_is_not_utf_8_is_read_as_java_reads_it() -> None:
    data = build_batch([Record(0, 0, None, None, (("?", b"x"),))])
    data[data.rindex(b"?")] = 0xFF
    (record,) = one_batch(fixed(data)).records()
    assert record.headers == (("\N{REPLACEMENT CHARACTER}", b"x"),)


def test_the_delete_horizon_lies_in_the_base_timestamp() -> None:
    assert one_batch(build_batch(RECORDS)).delete_horizon_ms is None
    batch = one_batch(build_batch(RECORDS, delete_horizon_ms=5000))
    assert batch.delete_horizon_ms == 5000
    assert [record.timestamp for record in batch.records()] == [1000, 1001, 1002, 1003, 1004]


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", pack(">hh", -1, 0)])
def test_a_control_key_that_is_none_is_an_invalid_record(key: bytes | None) -> None:
    with pytest.raises(KafkaError) as refusal:
        ControlRecordType.parse(key)
    assert refusal.value.code is ErrorCode.INVALID_RECORD


def test_control_types_of_the_future_are_unknown_but_no_error() -> None:
    assert ControlRecordType.parse(pack(">hh", 3, 99) + b"more") is ControlRecordType.UNKNOWN


@pytest.mark.parametrize("value", [None, b"\x00\x00", pack(">hi", -1, 0)])
def test_a_marker_without_a_sound_value_is_an_invalid_record(value: bytes | None) -> None:
    with pytest.raises(KafkaError):
        EndTransactionMarker.parse(ControlRecordType.COMMIT.key(), value)
    with pytest.raises(KafkaError, match="does not end a transaction"):
        EndTransactionMarker.parse(ControlRecordType.LEADER_CHANGE.key(), value)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_raise_only_kafka_errors(data: bytes) -> None:
    assert refusal_of(data) in (None, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@given(
    name=st.sampled_from([f"librdkafka-{codec}" for codec in CODEC_NAMES] + ["txn"]),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4),
    valid_crc=st.booleans(),
)
@example(name="librdkafka-none", changes=[], valid_crc=True)
@settings(max_examples=400, deadline=None)
def test_mutated_batches_raise_only_kafka_errors(
    name: str, changes: list[tuple[int, int]], valid_crc: bool
) -> None:
    data = bytearray(golden_segment(name))
    for position, byte in changes:
        # The length stays, so that the CRC below covers the batch that is read.
        if not 8 <= position % len(data) < 12:
            data[position % len(data)] = byte
    if valid_crc:
        stamp_crc(memoryview(data), 0, 12 + int.from_bytes(data[8:12], "big"))
    assert refusal_of(data) in (None, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_a_header_alone_is_an_empty_batch() -> None:
    batch = one_batch(RecordBatchBuilder().build())
    assert batch.size_in_bytes == BATCH_OVERHEAD
    assert list(batch.records()) == []
    with pytest.raises(KafkaError, match="needs 61 bytes"):
        RecordBatch(batch.view[:-1])
