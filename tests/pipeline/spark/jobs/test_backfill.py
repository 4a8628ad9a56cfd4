"""Backfills: a topic gets each record of a tier or a table once, however often they are begun."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, SparkSession

from tierlog.bench.harness.requests.admin import create_topic
from tierlog.clients.kafka_uuid import Uuid
from tierlog.pipeline.reading.scan_bounds import OffsetRange
from tierlog.pipeline.spark.jobs.backfill import Backfill, BackfillSettings, TableSource
from tierlog.pipeline.spark.jobs.export import with_date
from tierlog.pipeline.spark.tier_source import TierSource
from tierlog.pipeline.spark.topic_writer import TopicWriter, TopicWriterError
from tierlog.tests.pipeline.spark.exports import (
    TieredTopic,
    assert_holds_each_once,
    tiered_topic_of_two,
    value_of,
)
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.tools.terminal import Output

pytestmark = [pytest.mark.long, pytest.mark.requires("java")]


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredTopic]:
    with tiered_topic_of_two(tmp_path_factory.mktemp("backfills"), "orders") as found:
        yield found


def read(spark: SparkSession, topic: TieredTopic, name: str) -> DataFrame:
    """The topic as a reader of committed records sees it, offsets counted without gaps.

    Transactions take an offset each for their marker.
    """
    stated = {
        "kafka.bootstrap.servers": topic.node.bootstrap,
        "kafka.isolation.level": "read_committed",
        "subscribe": name,
    }
    rows = spark.read.format("kafka").options(**stated).load()
    number = "CAST(split(CAST(value AS STRING), ':')[1] AS BIGINT) AS offset"
    return rows.selectExpr("key", "value", "partition", number, "offset AS place")


def backfill(spark: SparkSession, topic: TieredTopic, writer: TopicWriter) -> int:
    settings = BackfillSettings(records_per_step=3000)
    return Backfill(spark, topic.source(), writer, Output(as_json=False)).run(settings)


def test_a_backfill_goes_on_where_another_ended_and_then_does_nothing(
    spark: SparkSession, topic: TieredTopic
) -> None:
    create_topic(topic.node.bootstrap, "again", {}, partitions=2)
    writer = TopicWriter(topic.node.bootstrap, "again", "restore")
    source = topic.source()
    begun = source.rows(spark, source.ranges()).where("offset < 1000 + partition * 500")
    assert writer.write(begun) == 2500
    # One that was thought dead has more on its way.
    late = confluent_kafka.Producer(
        {
            "bootstrap.servers": topic.node.bootstrap,
            "transactional.id": "tierlog-restore-again-orders-0",
        }
    )
    late.init_transactions(60)
    late.begin_transaction()
    late.produce("again", value_of(0, 1000), partition=0)
    late.flush(60)

    ends = topic.place.end_offsets("orders")
    assert backfill(spark, topic, writer) == sum(ends.values()) - 2500
    with pytest.raises(confluent_kafka.KafkaException):
        late.commit_transaction(60)
    rows = read(spark, topic, "again")
    assert_holds_each_once(rows, ends)
    assert backfill(spark, topic, writer) == 0
    disordered = rows.selectExpr(
        "offset > lag(offset) OVER (PARTITION BY partition ORDER BY place) AS is_later"
    ).where("NOT is_later")
    assert disordered.count() == 0


def test_a_table_goes_into_a_topic_and_a_stranger_s_topic_is_left_alone(
    spark: SparkSession, topic: TieredTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(topic.node.bootstrap, "replayed", {}, partitions=2)
    source = topic.source()
    few = {partition: OffsetRange(0, 700) for partition in source.ranges()}
    with_date(source.rows(spark, few)).write.parquet(str(tmp_path / "table"))
    table = TableSource(spark, "parquet", str(tmp_path / "table"), ["orders"])
    output = Output(as_json=False)
    writer = TopicWriter(topic.node.bootstrap, "replayed", "replay", records_per_second=5000)
    assert Backfill(spark, table, writer, output).run(BackfillSettings(dry_run=True)) == 0
    assert "dry run: 1,400 offsets" in capsys.readouterr().out
    assert Backfill(spark, table, writer, output).run(BackfillSettings()) == 1400
    assert_holds_each_once(read(spark, topic, "replayed"), {0: 700, 1: 700})

    other = TopicWriter(topic.node.bootstrap, "replayed", "another")
    with pytest.raises(TopicWriterError, match="'another' has no saved progress"):
        Backfill(spark, table, other, output).run(BackfillSettings())
    create_topic(topic.node.bootstrap, "narrow", {}, partitions=1)
    narrow = TopicWriter(topic.node.bootstrap, "narrow", "replay")
    with pytest.raises(TopicWriterError, match="the source has orders-1"):
        Backfill(spark, table, narrow, output).run(BackfillSettings())
    with pytest.raises(TopicWriterError, match="no column 'offset'"):
        writer.write(spark.range(1).selectExpr("CAST('v' AS BINARY) AS value"))


def test_a_source_that_was_created_again_is_not_written_behind_the_old_one(
    spark: SparkSession, topic: TieredTopic, tier: Tier
) -> None:
    create_topic(topic.node.bootstrap, "restored", {}, partitions=1)
    writer = TopicWriter(topic.node.bootstrap, "restored", "restore")
    source = TierSource(RemoteUrl(tier.directory.as_uri()), [TOPIC], "read_committed")

    def backfill_all() -> int:
        return Backfill(spark, source, writer, Output(as_json=False)).run(BackfillSettings())

    # What an earlier version has written is saved without the topic's id.
    assert writer.write(source.rows(spark, source.ranges()).where("offset < 40")) == 40
    assert backfill_all() == 60
    tier.bucket.put(2, (0, 199), partition=PARTITION._replace(topic_id=Uuid(b"the second topic")))
    tier.write()
    with pytest.raises(TopicWriterError, match="topic 'orders' was deleted and created again"):
        backfill_all()
    assert writer.end_offsets()[0] == 102, "a hundred records and the markers of two transactions"
