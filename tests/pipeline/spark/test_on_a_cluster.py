"""`--master` sends the work to a cluster's executors, which are processes of their own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest

from tierlog.tests.pipeline.spark.exports import TieredTopic, tiered_topic_of_two
from tierlog.tests.pipeline.spark.small_spark import SMALL_JVM
from tierlog.tests.pipeline.spark.spark_cluster import ENVIRONMENT, SparkCluster

pytestmark = [pytest.mark.long, pytest.mark.requires("java")]

JOB_TIMEOUT_S = 240


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[TieredTopic]:
    with tiered_topic_of_two(tmp_path, "orders") as found:
        yield found


def run_job(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`tierlog-spark`, as somebody calls it."""
    return subprocess.run(
        [sys.executable, "-m", "tierlog.pipeline.spark", *arguments],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
        check=False,
    )


def test_executors_of_a_cluster_read_the_tier_and_write_the_table(
    topic: TieredTopic, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    with SparkCluster(tmp_path) as cluster:
        done = run_job(
            *("export", *topic.place.arguments, "--topic", topic.name),
            *("--format", "parquet", "--table", str(table), "--master", cluster.master),
            *("--conf", f"spark.executor.extraJavaOptions={SMALL_JVM}"),
            *("--conf", f"spark.driver.extraJavaOptions={SMALL_JVM}"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said = cluster.said_by_executors()
    assert any("Finished task" in each for each in said), "no executor has had a task"
    ends = topic.place.end_offsets(topic.name)
    rows = pyarrow.dataset.dataset(str(table), partitioning="hive").to_table(
        columns=["partition", "offset"]
    )
    found = sorted(zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True))
    assert found == [(each, offset) for each in sorted(ends) for offset in range(ends[each])]


def test_a_master_that_is_none_is_refused_in_a_sentence() -> None:
    refused = run_job("audit", "--tier", "file:///nowhere", "--master", "sparc://here")
    assert refused.returncode == 2
    assert "argument --master: 'sparc://here' is not a Spark master" in refused.stderr
