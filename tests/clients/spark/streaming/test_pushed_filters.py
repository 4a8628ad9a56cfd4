"""What a query wants is all that is read of the tier: its conditions and its columns.

Half of the tier's log objects are damaged. A query that needs none of them has its rows; one that
needs one of them ends, so whatever is answered was answered without them.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.spark.row_filter import RowFilter
from tierlog.clients.spark.streaming.pushed_filters import row_filter
from tierlog.tests.tiering.tools.bucket import Bucket

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SEGMENT = 100
SECOND_MS = 1000
EPOCH = datetime.fromtimestamp(0, UTC)


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four segments of a hundred records, a second from one to the next; two are damaged."""
    place = tmp_path_factory.mktemp("filtered")
    bucket = Bucket()
    for number in range(4):
        first = number * SEGMENT
        records = [
            Record(0, offset * SECOND_MS, None, b"%d" % offset)
            for offset in range(first, first + SEGMENT)
        ]
        batch = bytearray(build_batch(records, base_offset=first, leader_epoch=0))
        # The first and the last.
        if number in (0, 3):
            batch[-1] ^= 1
        bucket.put_log(number + 1, bytes(batch))
    bucket.write_to(place)
    return place


def orders(spark: SparkSession, tier: Path, **options: str) -> DataFrame:
    stated = {"path": str(tier), "topic": "orders", **options}
    return spark.read.format("tierlog").options(**stated).load()


SOUND = (
    "offset >= 150 AND offset < 220",
    "offset > 99 AND offset <= 299 AND partition = 0",
    "offset IN (120, 250, 130)",
    "offset = 100",
    "topic = 'refunds'",
    "partition IN (1, 2)",
    "timestamp >= timestamp_seconds(100.5) AND offset < 300",
    "timestamp = timestamp_seconds(150) AND offset < 300 AND key IS NULL",
    "offset < 300 AND offset >= 100 AND NOT (offset = 150)",
)


@pytest.mark.slow
@pytest.mark.requires("java")
def test_a_query_reads_what_its_conditions_can_be_true_of(spark: SparkSession, tier: Path) -> None:
    rows = spark.range(4 * SEGMENT).selectExpr(
        "CAST(NULL AS BINARY) AS key",
        "CAST(CAST(id AS STRING) AS BINARY) AS value",
        "'orders' AS topic",
        "0 AS partition",
        "id AS offset",
        "timestamp_seconds(id) AS timestamp",
    )
    for condition in SOUND:
        expected = rows.where(condition).select("offset", "value").orderBy("offset").collect()
        found = orders(spark, tier).where(condition).select("offset", "value").orderBy("offset")
        assert found.collect() == expected, condition
    for condition in ("offset < 101", "timestamp > timestamp_seconds(150)", "length(value) = 3"):
        with pytest.raises(PySparkException, match="CRC"):
            orders(spark, tier).where(condition).collect()


@pytest.mark.slow
@pytest.mark.requires("java")
def test_a_session_that_pushes_no_filters_down_reads_all(spark: SparkSession, tier: Path) -> None:
    bounds = {
        "startingOffsets": '{"orders": {"0": 100}}',
        "endingOffsets": '{"orders": {"0": 300}}',
    }
    spark.conf.set(PUSHDOWN, "false")
    try:
        with pytest.raises(PySparkException, match="CRC"):
            orders(spark, tier).where("offset = 150").collect()
        assert orders(spark, tier, **bounds).where("offset = 150").count() == 1
    finally:
        spark.conf.set(PUSHDOWN, "true")


@pytest.mark.slow
@pytest.mark.requires("java")
def test_columns_are_named_by_an_option_or_a_schema(spark: SparkSession, tier: Path) -> None:
    wanted = orders(spark, tier, columns="offset,value").where("offset = 150")
    assert wanted.columns == ["offset", "value"]
    assert [tuple(row) for row in wanted.collect()] == [(150, bytearray(b"150"))]
    reader = spark.read.format("tierlog").options(path=str(tier), topic="orders")
    by_schema = reader.schema("value binary, offset bigint").load().where("offset = 150")
    assert [tuple(row) for row in by_schema.collect()] == [(bytearray(b"150"), 150)]
    with pytest.raises(PySparkException, match="The schema has the unknown column offset string"):
        reader.schema("value binary, offset string").load().collect()
    with pytest.raises(PySparkException, match="columns='prize': 'prize' is not one of key, value"):
        orders(spark, tier, columns="prize").collect()


NUMBERS = st.integers(-2, 12)
OFFSET_FILTERS = st.one_of(
    *(
        st.builds(kind, st.just(("offset",)), NUMBERS)
        for kind in (
            *(EqualTo, EqualNullSafe, LessThan, LessThanOrEqual),
            *(GreaterThan, GreaterThanOrEqual),
        )
    ),
    st.builds(In, st.just(("offset",)), st.lists(NUMBERS, min_size=1).map(tuple)),
    st.just(IsNotNull(("offset",))),
    st.builds(Not, st.builds(EqualTo, st.just(("offset",)), NUMBERS)),
)


def passes(condition: Filter, offset: int) -> bool:
    """What the condition says of a row with this offset, as SQL has it."""
    match condition:
        case EqualTo(_, value) | EqualNullSafe(_, value):
            return bool(offset == value)
        case In(_, values):
            return bool(offset in values)
        case LessThan(_, value):
            return bool(offset < value)
        case LessThanOrEqual(_, value):
            return bool(offset <= value)
        case GreaterThan(_, value):
            return bool(offset > value)
        case GreaterThanOrEqual(_, value):
            return bool(offset >= value)
        case Not(child):
            return not passes(child, offset)
        case _:
            return True


@given(st.lists(OFFSET_FILTERS, max_size=4))
def test_no_row_that_passes_is_left_out(filters: list[Filter]) -> None:
    found = row_filter(filters)
    for offset in range(-3, 14):
        if all(passes(each, offset) for each in filters):
            assert found.first_offset <= offset < found.end_offset


def test_conditions_on_other_columns_and_of_other_kinds_bound_nothing() -> None:
    naive = datetime(2026, 1, 1)
    assert (
        row_filter(
            [
                EqualTo(("key",), b"k"),
                EqualTo(("offset",), None),
                LessThan(("timestamp",), EPOCH),
                GreaterThan(("timestamp",), naive),
                Not(EqualTo(("partition",), 1)),
                IsNotNull(("topic",)),
            ]
        )
        == RowFilter()
    )


def test_names_and_times_bound_what_is_read() -> None:
    late = datetime(2026, 1, 1, 0, 0, 0, 1, UTC)
    found = row_filter(
        [
            In(("partition",), (1, 2, 3)),
            In(("partition",), (2, 3, 4)),
            EqualTo(("topic",), "orders"),
            GreaterThan(("timestamp",), late),
            GreaterThanOrEqual(("timestamp",), EPOCH),
        ]
    )
    assert found == RowFilter(
        topics=frozenset(("orders",)),
        partitions=frozenset((2, 3)),
        first_timestamp_ms=int(late.timestamp()) * 1000,
    )
