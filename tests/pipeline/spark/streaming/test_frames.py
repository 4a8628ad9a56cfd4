"""What a query finds in a tier: all rows of its own conditions, and the columns that it names.

Half of the tier's log objects are damaged. A query that needs none of them has its rows; one that
needs one of them ends, so whatever is answered was answered without them.
"""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.tests.pipeline.spark.streaming.plan_settings import PUSHDOWN
from tierlog.tests.tiering.tools.bucket import Bucket

SEGMENT = 100
SECOND_MS = 1000


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


QUERIES = (
    "SELECT count(*) FROM orders WHERE partition = 1",
    "SELECT count(*) FROM orders",
    "SELECT offset FROM orders WHERE offset >= 150 AND offset < 153",
    "SELECT partition, count(*) FROM orders GROUP BY partition",
    "SELECT offset FROM orders WHERE timestamp = timestamp_seconds(120)",
    "SELECT count(*) FROM (SELECT * FROM orders WHERE offset < 150 UNION ALL "
    "SELECT * FROM orders WHERE offset >= 250)",
    "SELECT count(*) FROM orders a JOIN orders b ON a.offset = b.offset + 100 "
    "WHERE a.offset > 220 AND b.offset < 190",
    "SELECT (SELECT count(*) FROM orders WHERE topic = 'refunds'), "
    "(SELECT count(*) FROM orders WHERE offset = 299), (SELECT count(*) FROM orders)",
)
BOUNDS = {
    "startingOffsets": '{"orders": {"0": 100}}',
    "endingOffsets": '{"orders": {"0": 300}}',
}


def answers(spark: SparkSession, frame: DataFrame, query: str) -> list[Row]:
    """The rows of a query about the view `orders`, in the order of their values."""
    frame.createOrReplaceTempView("orders")
    found = spark.sql(query)  # pyright: ignore[reportUnknownMemberType]  # PySpark's own hints
    return sorted(found.collect())


@pytest.mark.slow
@pytest.mark.requires("java")
@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_every_query_of_one_frame_has_its_own_rows(
    spark: SparkSession, tier: Path, pushdown: str
) -> None:
    """A filter that Spark pushed down once bounded all later queries of the same frame."""
    rows = spark.range(SEGMENT, 3 * SEGMENT).selectExpr(
        "'orders' AS topic", "0 AS partition", "id AS offset", "timestamp_seconds(id) AS timestamp"
    )
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        frame = orders(spark, tier, **BOUNDS).select(*rows.columns)
        for query in (*QUERIES, *reversed(QUERIES)):
            assert answers(spark, frame, query) == answers(spark, rows, query), query
    finally:
        spark.conf.unset(PUSHDOWN)


@pytest.mark.slow
@pytest.mark.requires("java")
def test_options_bound_what_is_read_and_conditions_do_not(spark: SparkSession, tier: Path) -> None:
    with pytest.raises(PySparkException, match="CRC"):
        orders(spark, tier).where("offset = 150").collect()
    assert orders(spark, tier, **BOUNDS).where("offset = 150").count() == 1


@pytest.mark.slow
@pytest.mark.requires("java")
def test_columns_are_named_by_an_option_or_a_schema(spark: SparkSession, tier: Path) -> None:
    wanted = orders(spark, tier, columns="offset,value", **BOUNDS).where("offset = 150")
    assert wanted.columns == ["offset", "value"]
    assert [tuple(row) for row in wanted.collect()] == [(150, bytearray(b"150"))]
    reader = spark.read.format("tierlog").options(path=str(tier), topic="orders", **BOUNDS)
    by_schema = reader.schema("value binary, offset bigint").load().where("offset = 150")
    assert [tuple(row) for row in by_schema.collect()] == [(bytearray(b"150"), 150)]
    with pytest.raises(PySparkException, match="The schema has the unknown column offset string"):
        reader.schema("value binary, offset string").load().collect()
    with pytest.raises(PySparkException, match="columns='prize': 'prize' is not one of key, value"):
        orders(spark, tier, columns="prize").collect()
