"""Queries by chance over one frame of a tier have the rows that a consumer of the broker finds.

The consumer is librdkafka, and DuckDB answers the same queries over what it has read.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple, cast

import confluent_kafka
import duckdb
import pytest
from pyspark.sql import SparkSession

from tierlog.tests.pipeline.spark.streaming.random_plans import RandomPlans, Range
from tierlog.tests.pipeline.spark.tiers import (
    TierPlace,
    broker_on,
    produce,
    tiered_topic,
    wait_until_tiered,
)

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

PARTITIONS = 3
RECORDS = 6_000
CODECS = ("none", "lz4", "zstd")
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

Row = tuple[object, ...]


class Topic(NamedTuple):
    """A topic in the tier, and what a consumer has read of it."""

    place: TierPlace
    read: duckdb.DuckDBPyConnection
    spans: Range


def value_of(partition: int, number: int) -> bytes:
    return b"%d %d" % (partition, number) * (20 + number % 40)


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topic]:
    directory = tmp_path_factory.mktemp("plans")
    place = TierPlace((directory / "remote").as_uri())
    with broker_on(directory, place) as node, duckdb.connect() as read:
        tiered_topic(node, "orders", partitions=PARTITIONS)
        first_ms = int(time.time() * 1_000) - RECORDS
        for number, codec in enumerate(CODECS):
            counts = {number: RECORDS}
            produce(node, "orders", counts, value_of, first_ms, compression_type=codec)
        # Segments that are still open stay with the broker: those compressed well are one.
        ends = wait_until_tiered(place, "orders", {0: RECORDS // 3})
        fill(read, node.bootstrap, ends)
        # What was written, not what is in the tier by now: the queries are the same in each run.
        yield Topic(place, read, Range(PARTITIONS, RECORDS, first_ms, first_ms + RECORDS - 1))


def fill(read: duckdb.DuckDBPyConnection, bootstrap: str, ends: dict[int, int]) -> None:
    """Let a table have what a consumer reads below these offsets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition("orders", each, 0) for each in ends])
    rows: list[Row] = []
    while len(rows) < sum(ends.values()):
        for each in consumer.consume(5_000, timeout=30):
            partition, offset, stamp = each.partition(), each.offset(), each.timestamp()[1]
            assert partition is not None
            assert offset is not None
            if offset < ends[partition]:
                key, size = (each.key() or b"").decode(), len(each.value() or b"")
                rows.append(("orders", partition, offset, key, stamp, size))
    consumer.close()
    read.execute(
        "CREATE TABLE arrived (topic TEXT, partition INT, number BIGINT, key TEXT, "
        "ms BIGINT, size BIGINT)"
    )
    read.executemany("INSERT INTO arrived VALUES (?, ?, ?, ?, ?, ?)", rows)
    read.execute("CREATE MACRO timestamp_millis(ms) AS epoch_ms(ms)")
    read.execute(
        "CREATE VIEW orders AS SELECT * EXCLUDE (ms), epoch_ms(ms) AS timestamp FROM arrived"
    )


@pytest.mark.parametrize("pushdown", ["true", "false"])
@pytest.mark.parametrize(
    "plans",
    [
        pytest.param(6, id="6"),
        pytest.param(50, id="50", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
def test_queries_by_chance_have_the_rows_that_a_consumer_finds(
    spark: SparkSession, topic: Topic, plans: int, pushdown: str
) -> None:
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        frame = spark.read.format("tierlog").options(**topic.place.options("orders")).load()
        frame.selectExpr(
            *("topic", "partition", "offset AS number", "decode(key, 'utf-8') AS key"),
            *("timestamp", "CAST(octet_length(value) AS BIGINT) AS size"),
        ).createOrReplaceTempView("orders")
        made = RandomPlans(plans, topic.spans)
        nonempty = 0
        for _ in range(plans):
            query = made.query()
            found = cast("list[Row]", spark.sql(query).collect())  # pyright: ignore[reportUnknownMemberType]  # PySpark's own hints
            expected = cast("list[Row]", topic.read.execute(query).fetchall())
            assert sorted(map(tuple, found), key=repr) == sorted(expected, key=repr), query
            nonempty += any(any(row) for row in expected)
        assert nonempty > plans // 3, "most of these queries ask for nothing"
    finally:
        spark.conf.unset(PUSHDOWN)
