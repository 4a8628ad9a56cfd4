"""A stream on a cluster whose driver is killed in the midst of a micro-batch, and begun again."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.tests.pipeline.spark.clusters.driver import TIMEOUT_S as END_S, Driver
from tierlog.tests.pipeline.spark.clusters.judged_rows import assert_rows_are, consumed_file
from tierlog.tests.pipeline.spark.clusters.mixed_topic import MixedTopic, mixed_topic
from tierlog.tests.pipeline.spark.clusters.story_size import KILLS, RECORDS, SEED, TIMEOUT_S
from tierlog.tests.pipeline.spark.exports_on_disk import row_files
from tierlog.tests.pipeline.spark.spark_cluster import SparkCluster
from tierlog.tests.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java"),
    pytest.mark.timeout(TIMEOUT_S),
]

MODULE = "tierlog.tests.pipeline.spark.clusters.stream_driver"


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedTopic]:
    with mixed_topic(tmp_path_factory.mktemp("streamed"), "mixed", RECORDS, SEED) as made:
        yield made


def wait_for_rows(job: Driver, folder: Path) -> None:
    """Until a task writes, or the job has ended."""
    before = row_files(folder)
    wait_until(
        lambda: job.has_ended() or bool(row_files(folder) - before),
        END_S,
        lambda: job.output[-3000:],
    )


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_each_record_is_in_the_table_once_though_the_driver_is_killed_in_a_micro_batch(
    spark: SparkSession, topic: MixedTopic, tmp_path: Path, kind: str, chance: random.Random
) -> None:
    folder = tmp_path / "warehouse" / "db" / "mixed"
    batch = max(500, sum(topic.ends.values()) // (3 + 3 * KILLS))
    options = topic.place.options(
        topic.name,
        isolation="read_committed",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(batch),
    )
    kills: list[str] = []
    with SparkCluster(tmp_path, workers=2, cores=1) as cluster:
        arguments = (kind, cluster.master, str(tmp_path), json.dumps(options))
        with Driver.of_module(tmp_path, MODULE, *arguments) as job:
            for _ in range(KILLS):
                for victim in ("driver", "executor"):
                    wait_for_rows(job, folder)
                    if victim == "executor":
                        running = [each for each in cluster.workers if each.executors()]
                        kills += ["executor"] * bool(chance.choice(running).kill_executors())
                    elif job.kill():
                        kills.append("driver")
                        job.start()
            job.finish()
    batches = len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))
    print(f"{kind}: killed {', '.join(kills)}; {batches} micro-batches")
    assert set(kills) == {"driver", "executor"}, "the stream ended too early"
    assert batches >= 3
    expected = consumed_file(topic, tmp_path / "expected.parquet")
    spark.conf.set("spark.sql.catalog.streamed", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.streamed.type", "hadoop")
    spark.conf.set("spark.sql.catalog.streamed.warehouse", str(tmp_path / "warehouse"))
    name = "streamed.db.mixed" if kind == "iceberg" else f"delta.`{folder}`"
    assert assert_rows_are(expected, spark.table(name).toArrow()) > 0
