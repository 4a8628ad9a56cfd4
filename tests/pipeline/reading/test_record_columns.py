"""Columns hold just what the records hold, and what is no record is refused, as one by one."""

import sys
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import KafkaError
from tierlog.clients.record.batch import Record, RecordBatch, TimestampType
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.record.layout import BATCH_OVERHEAD
from tierlog.pipeline.reading.arrow_columns import SCHEMA
from tierlog.pipeline.reading.record_columns import RecordColumns

COLUMNS = RecordColumns("orders", 3)

TIMES = st.integers(-1, 2**45)
BYTES = st.none() | st.binary(max_size=200)
RECORDS = st.builds(
    Record,
    st.just(0),
    TIMES,
    BYTES,
    BYTES,
    st.lists(st.tuples(st.text(max_size=20), BYTES), max_size=4).map(tuple),
)
ALIKE = st.lists(st.tuples(RECORDS, st.integers(1, 90)), min_size=1, max_size=4).map(
    lambda found: [record for record, count in found for _ in range(count)]
)
"""Records that are passed in one step, in rows that end anywhere."""
BATCHES = st.tuples(
    st.lists(RECORDS, min_size=1, max_size=20) | ALIKE,
    st.sampled_from(CompressionType),
    st.sampled_from(TimestampType),
)


def rows_of(batch: RecordBatch) -> list[dict[str, object]]:
    """What the batch's own decoder says, as Spark's Kafka source would show it."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "timestampType": int(batch.timestamp_type),
            "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        }
        for record in batch.records()
    ]


def decoded(batches: list[RecordBatch], columns: RecordColumns = COLUMNS) -> list[dict[str, Any]]:
    found = cast("Any", columns.decode(batches))
    found.validate(full=True)
    place = found.schema.get_field_index("timestamp")
    found = found.set_column(place, "timestamp", found.column("timestamp").cast("int64"))
    return cast("list[dict[str, Any]]", found.to_pylist())


@given(st.lists(BATCHES, min_size=1, max_size=4))
def test_columns_are_the_records(made: list[tuple[list[Record], CompressionType, Any]]) -> None:
    batches: list[RecordBatch] = []
    offset = 1_000_000
    for records, compression, timestamp_type in made:
        batch = build_batch(
            records, base_offset=offset, compression=compression, timestamp_type=timestamp_type
        )
        batches.append(RecordBatch(memoryview(batch)))
        offset += len(records) + 5
    assert decoded(batches) == [row for batch in batches for row in rows_of(batch)]


@given(BATCHES, st.data())
def test_whatever_is_broken_is_refused_as_one_by_one(
    made: tuple[list[Record], CompressionType, Any], data: st.DataObject
) -> None:
    """A byte of the records is another: rows as the batch's decoder has them, or no rows."""
    content = build_batch(made[0], base_offset=7)
    place = data.draw(st.integers(BATCH_OVERHEAD, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    batch = RecordBatch(memoryview(content))
    try:
        expected = rows_of(batch)
    except KafkaError:
        with pytest.raises(KafkaError):
            COLUMNS.decode([batch])
        return
    assert decoded([batch]) == expected


def test_a_length_with_the_sign_of_a_negative_one_is_refused() -> None:
    content = build_batch([Record(0, 5, b"k", b"v", (("h", b"1"),))])
    content[BATCH_OVERHEAD] |= 1
    batch = RecordBatch(memoryview(content))
    with pytest.raises(KafkaError, match="of negative length"):
        COLUMNS.decode([batch])


WIDE = b"\x81\x80\x80\x80\x10"
"""-1, and a bit above the 32 that a length may have."""
WIDER = b"\x81" + 8 * b"\x80" + b"\x02"


@pytest.mark.parametrize(
    "fields",
    [
        (b"\0", WIDER, b"\0", b"\1", b"\1", b"\0"),
        (b"\0", b"\0", b"\0", WIDE, b"\1", b"\0"),
        (b"\0", b"\0", b"\0", b"\1", WIDE, b"\0"),
        (b"\0", b"\0", b"\0", b"\1", b"\1", b"\2", b"\2h", WIDE),
    ],
    ids=["timestamp", "key", "value", "header"],
)
def test_an_integer_that_is_too_wide_is_refused(fields: tuple[bytes, ...]) -> None:
    record = b"".join(fields)
    content = build_batch([Record(0, 5, None, None, ())])[:BATCH_OVERHEAD]
    content += bytes([2 * len(record)]) + record
    content[8:12] = (len(content) - 12).to_bytes(4)
    batch = RecordBatch(memoryview(content))
    with pytest.raises(KafkaError, match="variable-length integer exceeds"):
        rows_of(batch)
    with pytest.raises(KafkaError, match="variable-length integer exceeds"):
        COLUMNS.decode([batch])


def test_a_record_of_very_many_headers_takes_no_steps_of_numpy_for_each() -> None:
    """Two bytes make a header, and compressed they are next to nothing: a scan stood still."""
    headers = tuple(("", None) for _ in range(5_000))
    records = [Record(0, 5, b"k", b"v", headers), Record(0, 6, None, b"w", (("h", b"1"),) * 3)]
    batch = RecordBatch(memoryview(build_batch(records)))
    calls = 0

    def count(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        COLUMNS.decode([batch])
    finally:
        sys.setprofile(None)
    assert calls < len(headers)
    assert decoded([batch]) == rows_of(batch)


@given(st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
def test_columns_are_those_that_are_wanted_in_their_order(names: list[str]) -> None:
    records = [Record(0, 5, b"k", b"v", (("h", b"1"),)), Record(0, 6, None, b"w", ())]
    batch = RecordBatch(memoryview(build_batch(records)))
    found = RecordColumns("orders", 3, names).decode([batch])
    whole = cast("Any", COLUMNS.decode([batch]))
    assert found.schema.names == names
    assert cast("Any", found).equals(whole.select(names))


def test_a_header_key_that_is_no_text_gets_replacement_characters() -> None:
    content = build_batch([Record(0, 5, b"k", b"v", (("ab", b"1"),))])
    content[content.index(b"ab")] = 0xFF
    (row,) = decoded([RecordBatch(memoryview(content))])
    assert row["headers"] == [{"key": "\ufffdb", "value": b"1"}]


def test_times_beyond_a_column_are_the_last_that_it_holds() -> None:
    batch = RecordBatch(memoryview(build_batch([Record(0, 2**62, None, b"v", ())])))
    (row,) = decoded([batch])
    assert 2**62 < row["timestamp"] < 2**63


def test_nothing_makes_no_rows() -> None:
    assert cast("Any", COLUMNS.decode([])).to_pylist() == []
    assert COLUMNS.decode([]).schema == SCHEMA
