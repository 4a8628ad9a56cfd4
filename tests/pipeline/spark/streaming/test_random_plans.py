"""Plans by chance over a tier have the rows that a consumer of the broker finds.

The consumer is librdkafka, and DuckDB answers the same questions over what it has read: neither
knows anything of our readers. The plans run under combinations of Spark's settings.
"""

import os
import time
from collections.abc import Iterator
from hashlib import sha512
from random import Random

import confluent_kafka
import duckdb
import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.spark import topic_views
from tierlog.pipeline.spark.source import TierlogDataSource
from tierlog.tests.pipeline.spark.streaming.leaking_source import LeakingDataSource
from tierlog.tests.pipeline.spark.streaming.plan_settings import (
    BESIDE,
    PUSHDOWN,
    SWITCHES,
    Settings,
    every_combination,
    few_combinations,
)
from tierlog.tests.pipeline.spark.streaming.random_plans import TOPIC, RandomPlans, Row, Topic
from tierlog.tests.pipeline.spark.streaming.random_queries import Range
from tierlog.tests.pipeline.spark.tiers import (
    TierPlace,
    broker_on,
    produce,
    tiered_topic,
    wait_until_all_is_tiered,
)

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

SEED = os.environ.get("TIERLOG_PLANS_SEED", "plans")
PLANS = int(os.environ.get("TIERLOG_PLANS", "64"))
"""How many the long test runs: one for each combination. The first ones are the same however many
there are."""

PARTITIONS = 3
RECORDS = 6_000
CODECS = ("none", "lz4", "zstd")


def value_of(partition: int, number: int) -> bytes:
    """Some hundred bytes that no codec makes much smaller."""
    seed = b"%d %d" % (partition, number)
    return b"".join(sha512(b"%d %s" % (each, seed)).digest() for each in range(5 + number % 4))


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topic]:
    directory = tmp_path_factory.mktemp("plans")
    place = TierPlace((directory / "remote").as_uri())
    with duckdb.connect() as read:
        with broker_on(directory, place) as node:
            tiered_topic(node, TOPIC, partitions=PARTITIONS)
            first_ms = int(time.time() * 1_000) - RECORDS
            for number, codec in enumerate(CODECS):
                counts = {number: RECORDS}
                produce(node, TOPIC, counts, value_of, first_ms, compression_type=codec)
            wait_until_all_is_tiered(node, place, TOPIC)
            # Segments that are still open stay with the broker.
            fill(read, node.bootstrap, place.end_offsets(TOPIC))
        # What was written, not what is in the tier: the plans are the same in each run.
        yield Topic(place, read, Range(PARTITIONS, RECORDS, first_ms, first_ms + RECORDS - 1))


def fill(read: duckdb.DuckDBPyConnection, bootstrap: str, ends: dict[int, int]) -> None:
    """Let a table have what a consumer reads below these offsets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, each, 0) for each in ends])
    rows: list[Row] = []
    while len(rows) < sum(ends.values()):
        for each in consumer.consume(5_000, timeout=30):
            partition, offset, stamp = each.partition(), each.offset(), each.timestamp()[1]
            assert partition is not None
            assert offset is not None
            if offset < ends[partition]:
                key, size = (each.key() or b"").decode(), len(each.value() or b"")
                rows.append((TOPIC, partition, offset, key, stamp, size))
    consumer.close()
    read.execute(
        "CREATE TABLE arrived (topic TEXT, partition INT, number BIGINT, key TEXT, "
        "ms BIGINT, size BIGINT)"
    )
    read.executemany("INSERT INTO arrived VALUES (?, ?, ?, ?, ?, ?)", rows)
    read.execute("CREATE MACRO timestamp_millis(ms) AS epoch_ms(ms)")
    read.execute("CREATE VIEW records AS SELECT *, timestamp_millis(ms) AS timestamp FROM arrived")


def test_every_setting_is_one_of_spark_and_each_two_switches_meet(spark: SparkSession) -> None:
    unknown = [each.name for each in SWITCHES + BESIDE if not spark.conf.isModifiable(each.name)]
    assert unknown == []
    assert len(every_combination()) == 2 ** len(SWITCHES)
    few = few_combinations()
    for one in SWITCHES:
        for other in SWITCHES:
            met = {(each[one.name], each[other.name]) for each in few}
            assert len(met) == (2 if one == other else 4), (one, other)


@pytest.mark.parametrize(
    ("plans", "combinations"),
    [
        pytest.param(len(few_combinations()), few_combinations(), id="few"),
        pytest.param(
            *(PLANS, every_combination()),
            id="every-combination",
            marks=[pytest.mark.long, pytest.mark.timeout(3600)],
        ),
    ],
)
def test_plans_by_chance_have_the_rows_that_a_consumer_finds(
    spark: SparkSession, topic: Topic, plans: int, combinations: list[Settings]
) -> None:
    """TIERLOG_PLANS_SEED makes other plans."""
    under = Random(SEED).sample(combinations, len(combinations))
    made = RandomPlans(spark, topic, SEED)
    nonempty = ran = 0
    try:
        for number in range(plans):
            nonempty += made.run(number, under[number % len(under)])
            ran += 1
    finally:
        made.close()
        print(
            f"{ran} plans of seed {SEED} under {min(ran, len(under))} combinations of settings: "
            f"{nonempty} have rows, {made.answers} answers compared, {made.streams} streams, "
            f"{made.cached} on cached records"
        )
    assert nonempty > plans * 2 // 3, "many of these plans ask for nothing"


def test_the_plans_notice_a_reader_whose_filters_leak(
    spark: SparkSession, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, the plans might be right because they would not see what is wrong."""
    monkeypatch.setattr(topic_views, "TierlogDataSource", LeakingDataSource)
    spark.dataSource.register(LeakingDataSource)
    combinations = [each for each in every_combination() if each[PUSHDOWN] == "true"]
    made = RandomPlans(spark, topic, SEED)
    try:
        with pytest.raises(AssertionError, match=r"are missing|too many"):
            for number, under in enumerate(combinations):
                made.run(number, under)
    finally:
        made.close()
        spark.dataSource.register(TierlogDataSource)
