"""`maxOffsetsPerTrigger` in queries of Spark's engine: it bounds every micro-batch of every run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tierlog.pipeline.spark.streaming.run_available import run_available
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tests.tiering.remote_partition import PARTITION

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
RECORDS, BOUND = 2_400, 300


class Sink:
    """The micro-batches of a query, by number: a repeated one takes the place of the first."""

    def __init__(self, directory: Path, spark: SparkSession, tier: Tier) -> None:
        self.checkpoint = directory / "checkpoint"
        self.batches: dict[int, list[tuple[int, int]]] = {}
        self.fails_at = -1
        self._spark = spark
        self._tier = tier

    def take(self, rows: DataFrame, number: int) -> None:
        found = rows.select("partition", "offset").collect()
        self.batches[number] = [(row.partition, row.offset) for row in found]
        if number == self.fails_at:
            raise RuntimeError("the job is broken off")

    def writer(self, **options: str) -> DataStreamWriter:
        stated = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(BOUND), **options}
        rows = self._spark.readStream.format("tierlog").options(**self._tier.options(**stated))
        writer = rows.load().writeStream.foreachBatch(self.take)
        return writer.option("checkpointLocation", str(self.checkpoint))

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for _, batch in sorted(self.batches.items())]

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted(row for batch in self.batches.values() for row in batch)


@pytest.fixture
def large(tmp_path: Path) -> Tier:
    """A tier of two partitions, one twice as large as the other."""
    tier = Tier(tmp_path / "large")
    tier.bucket.put(1, (0, RECORDS * 2 // 3 - 1))
    tier.bucket.put(2, (0, RECORDS // 3 - 1), partition=PARTITION._replace(partition=1))
    tier.write()
    return tier


@pytest.fixture
def sink(tmp_path: Path, spark: SparkSession, large: Tier) -> Sink:
    return Sink(tmp_path, spark, large)


EVERYTHING = sorted(
    [(0, offset) for offset in range(RECORDS * 2 // 3)]
    + [(1, offset) for offset in range(RECORDS // 3)]
)


def test_a_first_run_and_one_after_a_failure_read_all_in_bounded_micro_batches(sink: Sink) -> None:
    sink.fails_at = 3
    with pytest.raises(PySparkException, match="the job is broken off"):
        run_available(sink.writer())
    assert len(sink.batches) == 4
    sink.fails_at = -1
    query = run_available(sink.writer())
    assert not query.isActive
    assert sink.sizes == [BOUND] * (RECORDS // BOUND)
    assert sink.rows == EVERYTHING


def test_a_run_after_one_that_was_stopped_goes_on_with_bounded_micro_batches(
    sink: Sink, large: Tier
) -> None:
    run_available(sink.writer())
    large.bucket.put(3, (RECORDS * 2 // 3, RECORDS * 2 // 3 + 699))
    large.write()
    run_available(sink.writer())
    assert sink.sizes == [BOUND] * (RECORDS // BOUND) + [300, 300, 100]
    assert len(set(sink.rows)) == len(sink.rows) == RECORDS + 700


def test_available_now_is_one_bounded_micro_batch_a_run(sink: Sink) -> None:
    for runs in (1, 2, 3):
        sink.writer().trigger(availableNow=True).start().awaitTermination()
        assert sink.sizes == [BOUND] * runs
    run_available(sink.writer())
    assert sink.rows == EVERYTHING


@pytest.fixture
def wrapper(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(WRAPPER, "true")
    yield
    spark.conf.unset(WRAPPER)


@pytest.mark.usefixtures("wrapper")
def test_with_sparks_wrapper_a_run_ends_before_it_would_go_back(
    sink: Sink, spark: SparkSession
) -> None:
    """Spark asks for the end before it passes the position; nothing is written or read twice."""
    run_available(sink.writer())
    with pytest.raises(PySparkException, match=r"triggerAvailableNowWrapper.enabled at false"):
        sink.writer().trigger(availableNow=True).start().awaitTermination()
    spark.conf.unset(WRAPPER)
    sink.writer().trigger(availableNow=True).start().awaitTermination()
    assert sink.rows == EVERYTHING


def test_available_now_without_a_bound_reads_everything_at_once(sink: Sink) -> None:
    stated = sink.writer(maxOffsetsPerTrigger=str(10**9))
    stated.trigger(availableNow=True).start().awaitTermination()
    assert sink.sizes == [RECORDS]
