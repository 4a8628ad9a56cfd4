"""A huge segment divided among tasks, and a topic whose records were compacted before the tier."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tierlog.bench.harness.requests.admin import alter_topic, create_topic
from tierlog.tests.pipeline.spark.clusters.judged_rows import assert_rows_are, consumed_file
from tierlog.tests.pipeline.spark.clusters.mixed_topic import MixedTopic, mixed_topic
from tierlog.tests.pipeline.spark.clusters.story_size import RECORDS, SEED, TIMEOUT_S
from tierlog.tests.pipeline.spark.tiers import (
    TierPlace,
    broker_on,
    produce,
    wait_until_all_is_tiered,
)
from tierlog.tests.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java"),
    pytest.mark.timeout(TIMEOUT_S),
]

HUGE = RECORDS * 200
"""Bytes of a segment: partition 0 has two, and the others none but the open one."""
PART = HUGE // 10


@pytest.fixture
def huge(tmp_path: Path) -> Iterator[MixedTopic]:
    with mixed_topic(tmp_path, "huge", RECORDS, SEED, segment_bytes=HUGE) as made:
        yield made


def scan(spark: SparkSession, place: TierPlace, topic: str, **options: str) -> DataFrame:
    return spark.read.format("tierlog").options(**place.options(topic, **options)).load()


def test_a_huge_segment_is_divided_among_tasks_and_each_record_is_read_once(
    spark: SparkSession, huge: MixedTopic, tmp_path: Path
) -> None:
    rows = scan(
        spark,
        huge.place,
        huge.name,
        isolation="read_committed",
        maxPartitionBytes=str(PART),
    )
    segments = len(list((tmp_path / "remote").glob("huge-0-*/*.log")))
    assert segments >= 1
    assert rows.rdd.getNumPartitions() >= 7 * segments
    expected = consumed_file(huge, tmp_path / "expected.parquet")
    assert assert_rows_are(expected, rows.toArrow()) > 0


def _value(half: str, _partition: int, number: int) -> bytes:
    return f"{half} {number}".encode() * 60


def test_what_compaction_has_left_is_read_where_gaps_are_allowed(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = TierPlace((tmp_path / "remote").as_uri())
    compacted = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
    }
    with broker_on(tmp_path, place, {"log.cleaner.backoff.ms": "100"}) as node:
        create_topic(node.bootstrap, "compacted", compacted, partitions=1)
        # `produce` numbers the keys: the second half has those of the first.
        for half in ("first", "second"):
            produce(node, "compacted", {0: 4000}, partial(_value, half))
        topic = MixedTopic(node, place, "compacted", 0, {0: []})
        logs = node.directory / "logs" / "compacted-0"

        def is_compacted() -> bool:
            return (logs / "00000000000000000000.log").stat().st_size < 200_000

        wait_until(is_compacted, 120, "the cleaner has not come by")
        changed = {
            "cleanup.policy": "delete",
            "remote.storage.enable": "true",
            "local.retention.bytes": "1",
            "retention.ms": "-1",
        }
        alter_topic(node.bootstrap, "compacted", changed)
        wait_until_all_is_tiered(node, place, "compacted")
        with pytest.raises(PySparkException, match="failOnDataLoss=false"):
            scan(spark, place, "compacted").count()
        expected = consumed_file(topic, tmp_path / "expected.parquet")
        rows = scan(spark, place, "compacted", failOnDataLoss="false").toArrow()
        assert 0 < assert_rows_are(expected, rows) < 8000
