"""A listener that shows the bytes and the lag of each micro-batch."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.streaming.run_available import run_available
from tierlog.pipeline.spark.streaming.stream_progress import TierBatch, TierProgress
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]


def test_each_micro_batch_is_reported_with_its_size_and_the_lag_behind_the_tier(
    spark: SparkSession, tier: Tier, tmp_path: Path
) -> None:
    options = tier.options(startingOffsets="earliest", maxOffsetsPerTrigger="40")
    batches: list[TierBatch] = []
    listener = TierProgress(options, batches.append, query="watched")
    spark.streams.addListener(listener)
    try:
        for name in ("watched", "other"):
            rows = spark.readStream.format("tierlog").options(**options).load()
            writer = rows.writeStream.format("noop").queryName(name)
            run_available(writer.option("checkpointLocation", str(tmp_path / name)))
        wait_until(lambda: len(batches) >= 3, 60, lambda: str(batches))
    finally:
        spark.streams.removeListener(listener)
    assert [(each.query, each.number, each.rows) for each in batches] == [
        ("watched", 0, 40),
        ("watched", 1, 40),
        ("watched", 2, 20),
    ]
    assert [each.lag for each in batches] == [60, 20, 0]
    assert [each.size.offsets for each in batches] == [40, 40, 20]
    (log_path,) = tier.directory.rglob("*.log")
    log_bytes = log_path.stat().st_size
    assert all(each.size.segments == 1 and 0 < each.size.nbytes <= log_bytes for each in batches)
    assert sum(each.size.nbytes for each in batches) >= log_bytes
    assert str(batches[1]).startswith("micro-batch 1 of watched: 40 rows, 1 tasks, 1 segments, 40 ")
    assert str(batches[1]).endswith("; 20 offsets behind the tier")
