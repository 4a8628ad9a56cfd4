"""Topics as temporary views: SQL over them has the rows of the tier, however it combines them."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.pipeline.reading.scan_options import ScanError
from tierlog.pipeline.spark.tables.statements import execute
from tierlog.spark import register_topics
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tests.tiering.remote_partition import PARTITION

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]


@pytest.fixture
def place(tier: Tier) -> Tier:
    """Two topics: `orders` of two partitions, and one whose name SQL has to quote."""
    tier.bucket.put(2, (0, 49), partition=PARTITION._replace(partition=1))
    other = TopicIdPartition(Uuid(b"orders of europe"), "orders-eu.v1", 0)
    tier.bucket.put(3, (0, 29), partition=other)
    tier.write()
    return tier


def counted(spark: SparkSession, query: str) -> list[int]:
    (row,) = execute(spark, query)
    return list(row)


def test_topics_are_views_by_name_and_sql_combines_them_rightly(
    spark: SparkSession, place: Tier
) -> None:
    views = register_topics(spark, str(place.directory))
    assert views.names == ("orders", "orders-eu.v1")

    def count(query: str) -> list[int]:
        return counted(spark, query)

    assert count("SELECT count(*) FROM orders") == [150]
    assert count("SELECT count(*) FROM `orders-eu.v1`") == [30]
    # One view twice in a query, with conditions that exclude each other.
    p0, p1 = (f"SELECT * FROM orders WHERE partition = {each}" for each in (0, 1))
    assert count(f"SELECT count(*) FROM ({p0} UNION ALL {p1})") == [150]
    assert count(
        f"SELECT (SELECT count(*) FROM ({p0})), (SELECT count(*) FROM ({p1})), "
        "(SELECT count(*) FROM orders)"
    ) == [100, 50, 150]
    assert count(
        "SELECT count(*) FROM orders a JOIN orders b "
        "ON a.offset = b.offset AND a.partition = 0 AND b.partition = 1"
    ) == [50]
    assert count("SELECT count(*) FROM orders JOIN `orders-eu.v1` e USING (offset)") == [60]
    assert count(f"SELECT count(*) FROM ({p0}) WHERE offset >= 90") == [10]
    assert count("SELECT count(*) FROM orders") == [150]
    groups = execute(spark, "SELECT partition, count(*) FROM orders GROUP BY partition ORDER BY 1")
    assert [tuple(row) for row in groups] == [(0, 100), (1, 50)]


def test_views_show_what_has_come_when_they_are_refreshed(spark: SparkSession, place: Tier) -> None:
    views = register_topics(spark, str(place.directory), ["orders"], columns="offset,partition")
    assert counted(spark, "SELECT count(*) FROM orders") == [150]
    place.bucket.put(4, (100, 119))
    place.write()
    assert counted(spark, "SELECT count(*) FROM orders") == [150]
    views.refresh()
    assert counted(spark, "SELECT count(*), max(offset) FROM orders") == [170, 119]
    assert spark.table("orders").columns == ["offset", "partition"]


def test_global_views_are_seen_by_all_sessions(spark: SparkSession, place: Tier) -> None:
    register_topics(spark, str(place.directory), is_global=True)
    other = spark.newSession()
    # The database is that of the setting `spark.sql.globalTempDatabase`.
    assert counted(other, "SELECT count(*) FROM tier.`orders-eu.v1`") == [30]


def test_one_name_is_one_topic(spark: SparkSession, place: Tier) -> None:
    views = register_topics(spark, str(place.directory), "orders-eu.v1")
    assert views.names == ("orders-eu.v1",)
    assert counted(spark, "SELECT count(*) FROM `orders-eu.v1`") == [30]


def test_options_stay_within_the_session(spark: SparkSession, place: Tier) -> None:
    options: dict[str, Any] = {"storage.auto_mkdir": "x7"}
    views = register_topics(spark, str(place.directory), ["orders"], **options)
    assert "x7" not in repr(views)
    said = execute(spark, "DESCRIBE EXTENDED orders") + execute(
        spark, "EXPLAIN EXTENDED FROM orders"
    )
    assert "x7" not in str(said)


def test_what_cannot_be_a_view_is_refused(spark: SparkSession, place: Tier, tmp_path: Path) -> None:
    here = str(place.directory)
    for topics, mention in (
        (["orders", "Orders"], "would be one view"),
        (["a`b"], "is not the name of a topic"),
    ):
        with pytest.raises(ScanError, match=mention):
            register_topics(spark, here, topics)
    with pytest.raises(ScanError, match="There is no tier at"):
        register_topics(spark, str(tmp_path / "none"))
    with pytest.raises(ScanError, match="Only one of the following options"):
        register_topics(spark, here, assign="{}")
