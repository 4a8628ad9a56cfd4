"""An export on a cluster of two workers while executors, workers and the driver are killed."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tierlog.tests.pipeline.spark.clusters.driver import CONF, TIMEOUT_S as END_S, Driver
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

COMMITS = 4 + 3 * KILLS


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedTopic]:
    with mixed_topic(tmp_path_factory.mktemp("mixed"), "mixed", RECORDS, SEED) as made:
        made.trim()
        yield made


class KilledExport:
    """A job, the cluster that it runs on, and who kills their processes."""

    def __init__(
        self, job: Driver, cluster: SparkCluster, folder: Path, chance: random.Random
    ) -> None:
        self.job = job
        self.cluster = cluster
        self.kills: list[str] = []
        self._folder = folder
        self._chance = chance

    def wait_for_rows(self) -> None:
        """Until a task writes, or the job has ended."""
        before = row_files(self._folder)
        wait_until(
            lambda: self.job.has_ended() or bool(row_files(self._folder) - before),
            END_S,
            lambda: self.job.output[-3000:],
        )

    def kill_an_executor(self) -> None:
        worker = self._chance.choice([each for each in self.cluster.workers if each.executors()])
        if worker.kill_executors():
            self.kills.append("executor")

    def replace_a_worker(self) -> None:
        worker = self._chance.choice([each for each in self.cluster.workers if each.executors()])
        if self.cluster.kill_worker(worker):
            self.kills.append("worker")
        self.cluster.start_worker()

    def kill_the_driver(self) -> None:
        if self.job.kill():
            self.kills.append("driver")
        self.job.start()


def table_rows(
    spark: SparkSession, kind: str, warehouse: Path, folder: Path
) -> list[Path] | pa.Table:
    """The table as another engine reads it; Iceberg's Java reads its metadata."""
    if kind == "parquet":
        return [folder / each for each in row_files(folder) if not each.startswith("_")]
    # The catalog of the tests' session is another folder.
    spark.conf.set("spark.sql.catalog.killed", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.killed.type", "hadoop")
    spark.conf.set("spark.sql.catalog.killed.warehouse", str(warehouse))
    return spark.table("killed.db.mixed").toArrow()


@pytest.mark.parametrize("kind", ["iceberg", "parquet"])
def test_each_record_is_in_the_table_once_whatever_is_killed_on_the_way(
    spark: SparkSession, topic: MixedTopic, tmp_path: Path, kind: str, chance: random.Random
) -> None:
    warehouse = tmp_path / "warehouse"
    folder = warehouse / "db" / "mixed"
    table = "lake.db.mixed" if kind == "iceberg" else str(folder)
    commit = max(500, sum(topic.ends.values()) // COMMITS)
    with SparkCluster(tmp_path, workers=2, cores=1) as cluster:
        arguments = (
            *("export", *topic.place.arguments, "--topic", topic.name, "--format", kind),
            *("--table", table, "--warehouse", str(warehouse), "--master", cluster.master),
            *("--records-per-commit", str(commit), *CONF),
        )
        with Driver.of_module(tmp_path, "tierlog.pipeline.spark", *arguments) as job:
            story = KilledExport(job, cluster, folder, chance)
            acts = [story.kill_an_executor, story.replace_a_worker, story.kill_the_driver]
            for act in acts * KILLS:
                story.wait_for_rows()
                act()
            job.finish()
    print(f"{kind}: killed {', '.join(story.kills)}")
    assert set(story.kills) == {"executor", "worker", "driver"}, "the job ended too early"
    expected = consumed_file(topic, tmp_path / "expected.parquet")
    found = assert_rows_are(expected, table_rows(spark, kind, warehouse, folder))
    assert 0 < found <= RECORDS - topic.aborted
    shutil.rmtree(warehouse)
