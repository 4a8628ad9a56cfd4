"""Options that Spark's Kafka source has too: what it refuses is refused, and in its words."""

from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tierlog.clients.topic_partition import TopicPartition
from tierlog.pipeline.reading.range_division import divided
from tierlog.pipeline.reading.scan_bounds import OffsetRange
from tierlog.tests.pipeline.spark.folder_tier import Tier

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

WRONG: list[tuple[dict[str, str], str]] = [
    ({}, "One of the following options must be specified for"),
    (
        {"subscribe": "orders", "subscribePattern": "orders"},
        "Only one of the following options can be specified for",
    ),
    (
        {"assign": '{"orders":[0]}', "subscribePattern": "orders"},
        "Only one of the following options can be specified for",
    ),
    ({"subscribe": " ,"}, "No topics to subscribe to as specified value for option 'subscribe' is"),
    ({"subscribePattern": " "}, "Pattern to subscribe is empty as specified value for option"),
    ({"subscribe": "orders", "minPartitions": "0"}, "minPartitions"),
    ({"subscribe": "orders", "maxRecordsPerPartition": "0"}, "maxrecordsperpartition"),
    ({"subscribe": "orders", "startingOffsets": "latest"}, "latest"),
    ({"subscribe": "orders", "startingOffsets": '{"orders":{"0":-1}}'}, "latest"),
    ({"subscribe": "orders", "endingOffsets": "earliest"}, "earliest"),
    ({"subscribe": "orders", "endingOffsets": '{"orders":{"0":-2}}'}, "earliest"),
    (
        {
            "subscribe": "orders",
            "startingOffsets": '{"orders":{"0":20}}',
            "endingOffsets": '{"orders":{"0":10}}',
        },
        "",
    ),
    (
        {"subscribe": "orders", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        "is higher than",
    ),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_what_sparks_kafka_source_refuses_is_refused_in_its_words(
    spark: SparkSession, tier: Tier, options: dict[str, str], words: str
) -> None:
    """Spark checks options before it looks for a broker, of which none is at this address."""
    theirs = {"kafka.bootstrap.servers": "127.0.0.1:1", **options}
    ours = {"path": str(tier.directory), **options}
    for name, stated in (("kafka", theirs), ("tierlog", ours)):
        with pytest.raises(PySparkException) as refused:
            spark.read.format(name).options(**stated).load().collect()
        assert words.lower() in str(refused.value).lower(), name


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "orders"},
        {"SUBSCRIBE": "orders,"},
        {"subscribePattern": "ord.*"},
        {"assign": '{"orders":[0]}'},
        {"assign": '{"orders":[0]}', "minPartitions": "3"},
        {"subscribe": "orders", "maxRecordsPerPartition": "7"},
    ],
)
def test_each_way_to_name_topics_reads_them(
    spark: SparkSession, tier: Tier, options: dict[str, str]
) -> None:
    rows = spark.read.format("tierlog").option("path", str(tier.directory)).options(**options)
    assert sorted(row.offset for row in rows.load().select("offset").collect()) == [*range(100)]


Ranges = dict[TopicPartition, OffsetRange]


def by_spark(spark: SparkSession, ranges: Ranges, options: dict[str, str]) -> list[OffsetRange]:
    """What Spark's own calculator makes of the ranges."""
    jvm = cast("Any", spark)._jvm
    kafka = jvm.org.apache.spark.sql.kafka010
    stated = jvm.java.util.HashMap()
    for name, text in options.items():
        stated.put(name, text)
    none = jvm.scala.Option.empty()
    given = jvm.java.util.ArrayList()
    for (topic, number), (first, end) in sorted(ranges.items()):
        partition = jvm.org.apache.kafka.common.TopicPartition(topic, number)
        given.add(kafka.KafkaOffsetRange(partition, first, end, none))
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    calculator = kafka.KafkaOffsetRangeCalculator.apply(
        jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(stated)
    )
    nowhere = convert.asScala(jvm.java.util.ArrayList()).toSeq()
    parts = convert.asJava(calculator.getRanges(convert.asScala(given).toSeq(), nowhere))
    return [OffsetRange(part.fromOffset(), part.untilOffset()) for part in parts]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5)), min_size=1, max_size=5),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(3_000, 10**5),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_offsets_are_divided_as_spark_divides_them(
    spark: SparkSession, sizes: list[tuple[int, int]], least: int | None, largest: int | None
) -> None:
    ranges = {
        TopicPartition("t", number): OffsetRange(first, first + size)
        for number, (first, size) in enumerate(sizes)
    }
    options = {
        name: str(number)
        for name, number in (("minPartitions", least), ("maxRecordsPerPartition", largest))
        if number is not None
    }
    ours = [part for parts in divided(ranges, least, largest).values() for part in parts]
    assert ours == by_spark(spark, ranges, options)
