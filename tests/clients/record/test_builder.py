"""Our batches are, byte for byte, those that other implementations build."""

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.record.batch import Record, RecordBatch, TimestampType, batches
from tierlog.clients.record.builder import (
    BatchFields,
    RecordBatchBuilder,
    build_batch,
    rebuild_batch,
)
from tierlog.clients.record.compression import CompressionType
from tierlog.tests.clients.record.golden import CODEC_NAMES, golden_segment
from tierlog.tests.clients.record.kafka_python import their_batch, their_builder

NULLABLE = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), NULLABLE), max_size=4).map(tuple)
TIMESTAMPS = st.integers(0, 2**48)
RECORDS = st.lists(
    st.builds(Record, st.just(0), TIMESTAMPS, NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=20
)


def one_batch(data: bytes | bytearray) -> RecordBatch:
    (batch,) = batches(data)
    assert batch.crc_is_valid()
    return batch


def numbered(records: list[Record], base_offset: int) -> list[Record]:
    return [record._replace(offset=base_offset + n) for n, record in enumerate(records)]


@given(records=RECORDS, base_offset=st.integers(0, 2**62), codec=st.sampled_from(CompressionType))
@settings(deadline=None)
def test_what_is_built_is_read_back(
    records: list[Record], base_offset: int, codec: CompressionType
) -> None:
    batch = one_batch(build_batch(records, base_offset=base_offset, compression=codec))
    assert list(batch.records()) == numbered(records, base_offset)
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert batch.base_timestamp == records[0].timestamp
    assert batch.last_offset_delta == len(records) - 1


@given(records=RECORDS, producer=st.booleans(), transactional=st.booleans())
@settings(deadline=None)
def test_our_batch_is_kafka_pythons_batch(
    records: list[Record], producer: bool, transactional: bool
) -> None:
    producer_id, epoch, sequence = (77, 3, 12) if producer else (-1, -1, -1)
    theirs = their_builder(
        transactional=transactional, producer_id=producer_id, epoch=epoch, sequence=sequence
    )
    for offset, record in enumerate(records):
        theirs.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    ours = build_batch(
        records,
        leader_epoch=0,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    assert bytes(ours) == bytes(theirs.build())


@given(records=RECORDS, gzipped=st.booleans())
@settings(deadline=None)
def test_kafka_python_reads_our_batch(records: list[Record], gzipped: bool) -> None:
    codec = CompressionType.GZIP if gzipped else CompressionType.NONE
    theirs = their_batch(bytes(build_batch(records, compression=codec)))
    assert theirs.validate_crc()
    assert [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in theirs
    ] == numbered(records, 0)


@pytest.mark.parametrize("name", ["librdkafka-none", "kafkapython-none", "java-none"])
def test_rebuilding_an_uncompressed_batch_gives_the_same_bytes(name: str) -> None:
    batch = one_batch(golden_segment(name))
    assert bytes(rebuild_batch(batch, batch.records())) == bytes(batch.view)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_batch_can_change_its_codec_and_nothing_else(codec: str) -> None:
    batch = one_batch(golden_segment(f"java-{codec}"))
    for other in CompressionType:
        changed = one_batch(rebuild_batch(batch, batch.records(), compression=other))
        assert changed.compression_type is other
        assert list(changed.records()) == list(batch.records())
        assert changed.producer_id == batch.producer_id


def test_compaction_keeps_offsets_and_sequence_of_a_batch_and_the_time_of_its_records() -> None:
    batch = one_batch(golden_segment("java-lz4"))
    kept = [record for record in batch.records() if record.offset in (3, 7)]
    smaller = one_batch(rebuild_batch(batch, kept))
    assert list(smaller.records()) == kept
    for field in ("base_offset", "last_offset", "base_sequence", "last_sequence"):
        assert getattr(smaller, field) == getattr(batch, field)
    assert smaller.max_timestamp == max(record.timestamp for record in kept)


def test_a_batch_that_loses_its_youngest_record_has_the_time_of_the_next() -> None:
    young, old = Record(0, 30, b"a", b""), Record(0, 10, b"b", b"")
    batch = one_batch(build_batch([young, old]))
    smaller = one_batch(rebuild_batch(batch, list(batch.records())[1:]))
    assert (batch.max_timestamp, smaller.max_timestamp) == (30, 10)


def test_a_batch_may_lose_every_record_and_still_answer_for_its_producer() -> None:
    batch = one_batch(golden_segment("java-zstd"))
    empty = one_batch(rebuild_batch(batch, []))
    assert (empty.size_in_bytes, empty.record_count, list(empty.records())) == (61, 0, [])
    assert (empty.producer_id, empty.last_sequence) == (batch.producer_id, 9)
    assert (empty.last_offset, empty.max_timestamp) == (batch.last_offset, batch.max_timestamp)


def test_the_leader_can_build_with_its_own_time() -> None:
    builder = RecordBatchBuilder(timestamp_type=TimestampType.LOG_APPEND_TIME)
    builder.append(5, None, b"x")
    batch = one_batch(builder.build(max_timestamp=9000))
    assert [record.timestamp for record in batch.records()] == [9000]


def test_fields_left_out_are_kafkas_none() -> None:
    batch = one_batch(build_batch([Record(0, 0, None, None)]))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert batch.partition_leader_epoch == -1
    assert batch.attributes == 0
    assert not batch.has_producer_id
    assert BatchFields.__optional_keys__ >= {"base_offset", "compression"}
