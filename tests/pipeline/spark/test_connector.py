"""Spark's own Kafka connector on our broker, over topics whose old records are only in the tier."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, SparkSession

from tierlog.bench.harness.requests.admin import create_topic
from tierlog.tests.pipeline.spark.exports import (
    TieredTopic,
    assert_holds_each_once,
    tiered_topic_of_two,
    value_of,
)
from tierlog.tests.pipeline.spark.tiers import TOPIC_CONFIG, wait_until_it_has_left_the_disk

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredTopic]:
    """Its first segment has left the broker's disk."""
    with tiered_topic_of_two(tmp_path_factory.mktemp("connector"), "events") as found:
        wait_until_it_has_left_the_disk(found.node, "events")
        yield found


def read(
    spark: SparkSession, topic: TieredTopic, name: str = "events", **options: str
) -> DataFrame:
    """A batch, as a user writes it."""
    stated = connection(topic) | {"subscribe": name} | options
    return spark.read.format("kafka").options(**stated).load()


def connection(topic: TieredTopic) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": topic.node.bootstrap,
        "kafka.max.poll.records": "20000",
        "includeHeaders": "true",
    }


def sent(topic: TieredTopic) -> Mapping[int, int]:
    return {0: topic.sent, 1: topic.sent}


def test_a_batch_reads_what_is_in_the_tier_and_what_is_on_the_disk(
    spark: SparkSession, topic: TieredTopic
) -> None:
    rows = read(spark, topic)
    assert_holds_each_once(rows, sent(topic))
    (seventh,) = rows.where("partition = 1 AND offset = 7").select("headers").collect()
    assert [(each["key"], bytes(each["value"])) for each in seventh[0]] == [("n", b"7")]


def test_a_batch_begins_at_a_time_and_ends_at_an_offset(
    spark: SparkSession, topic: TieredTopic
) -> None:
    # Both bounds lie in segments that only the tier has.
    (row,) = (
        read(spark, topic, endingOffsets='{"events": {"0": 1001, "1": 0}}')
        .where("offset = 1000")
        .selectExpr("unix_millis(timestamp)")
        .collect()
    )
    begin = int(row[0])
    rows = read(
        spark,
        topic,
        startingOffsetsByTimestamp=f'{{"events": {{"0": {begin}, "1": {begin}}}}}',
        endingOffsets='{"events": {"0": 1200, "1": 1200}}',
        startingOffsetsByTimestampStrategy="latest",
    ).selectExpr("partition", "offset", "unix_millis(timestamp) AS time")
    found = rows.collect()
    assert {int(each["time"]) >= begin for each in found} == {True}
    offsets = sorted(int(each["offset"]) for each in found if each["partition"] == 0)
    assert offsets == list(range(offsets[0], 1200))
    assert offsets[0] <= 1000


def test_read_committed_leaves_out_what_was_aborted(
    spark: SparkSession, topic: TieredTopic
) -> None:
    create_topic(topic.node.bootstrap, "payments", TOPIC_CONFIG, partitions=1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": topic.node.bootstrap, "transactional.id": "payments"}
    )
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for each in range(600):
            producer.produce("payments", value_of(number, each), partition=0)
        # What has not left yet when a transaction is aborted never does.
        assert producer.flush(60) == 0
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    wait_until_it_has_left_the_disk(topic.node, "payments")
    kept = read(spark, topic, "payments", **{"kafka.isolation.level": "read_committed"})
    numbers = kept.selectExpr("substring_index(CAST(value AS STRING), ':', 1) AS number")
    counted = {row["number"]: row["count"] for row in numbers.groupBy("number").count().collect()}
    assert counted == {"0": 600, "2": 600, "4": 600}
    assert read(spark, topic, "payments").count() == 3600


def test_rows_are_written_with_keys_and_headers(spark: SparkSession, topic: TieredTopic) -> None:
    create_topic(topic.node.bootstrap, "written", {}, partitions=2)
    rows = spark.range(2000).selectExpr(
        "CAST(id AS STRING) AS key",
        "CAST(id * 2 AS STRING) AS value",
        "CAST(id % 2 AS INT) AS partition",
        "array(struct('h' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value)) AS headers",
    )
    stated = connection(topic) | {"topic": "written"}
    rows.write.format("kafka").options(**stated).save()
    back = read(spark, topic, "written").selectExpr(
        "CAST(CAST(key AS STRING) AS INT) AS key",
        "CAST(CAST(value AS STRING) AS INT) AS value",
        "partition",
        "CAST(CAST(headers[0].value AS STRING) AS INT) AS header",
    )
    assert back.distinct().count() == 2000
    assert back.where("value <> key * 2 OR partition <> key % 2 OR header <> key").count() == 0


def test_a_stream_goes_on_where_its_checkpoint_is(
    spark: SparkSession, topic: TieredTopic, tmp_path: Path
) -> None:
    def run_once() -> None:
        stated = connection(topic) | {
            "subscribe": "events",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "5000",
        }
        query = (
            spark.readStream.format("kafka")
            .options(**stated)
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "table"))
        )
        assert query.awaitTermination(240)
        assert query.exception() is None

    run_once()
    assert_holds_each_once(spark.read.parquet(str(tmp_path / "table")), sent(topic))
    topic.produce_and_wait()
    run_once()
    assert_holds_each_once(spark.read.parquet(str(tmp_path / "table")), sent(topic))


def test_a_stream_from_topic_to_topic(
    spark: SparkSession, topic: TieredTopic, tmp_path: Path
) -> None:
    create_topic(topic.node.bootstrap, "copied", {}, partitions=2)
    stated = connection(topic) | {"subscribe": "events", "startingOffsets": "earliest"}
    copied = spark.readStream.format("kafka").options(**stated).load()
    query = (
        copied.select("key", "value", "partition", "headers")
        .writeStream.format("kafka")
        .options(**connection(topic), topic="copied")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    assert query.exception() is None
    assert_holds_each_once(read(spark, topic, "copied"), sent(topic))
