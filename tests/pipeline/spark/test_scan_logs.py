"""What a scan reads is in the logs that Spark collects of its Python workers."""

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.reading.scan_size import LOGGER
from tierlog.tests.pipeline.spark.folder_tier import Tier

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

SETTING = "spark.sql.pyspark.worker.logging.enabled"


@pytest.fixture
def collecting(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.unset(SETTING)


def test_plans_and_tasks_log_rows_segments_bytes_and_requests(
    collecting: SparkSession, tier: Tier
) -> None:
    options = tier.options(maxRecordsPerPartition="50")
    rows = collecting.read.format("tierlog").options(**options).load()
    assert rows.where("offset >= 0").collect()
    logs = collecting.tvf.python_worker_logs()
    lines = [row.msg for row in logs.where(logs.logger == LOGGER).select("msg").collect()]
    (plan,) = [line for line in lines if line.startswith("planned")]
    size = r"planned orders: 2 tasks, 1 segments, 100 offsets, [\d,]+ bytes; read [\d,]+ bytes in "
    assert re.fullmatch(size + r"[1-9]\d* requests", plan), plan
    tasks = sorted(line for line in lines if line.startswith("read"))
    assert len(tasks) == 2
    for task, offsets in zip(tasks, ("0 to 49", "50 to 99"), strict=True):
        expected = rf"read orders-0, offsets {offsets}: 50 rows, [\d,]+ bytes in 1 requests in "
        assert re.fullmatch(expected + r"\d+\.\d\d s", task), task
