"""An export into a folder of Parquet while executors, workers and the driver are killed."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.tests.pipeline.spark.clusters.driver import CONF, Driver
from tierlog.tests.pipeline.spark.clusters.judged_rows import assert_rows_are, consumed_file
from tierlog.tests.pipeline.spark.clusters.killed_job import KilledJob
from tierlog.tests.pipeline.spark.clusters.mixed_topic import MixedTopic, mixed_topic
from tierlog.tests.pipeline.spark.clusters.story_size import KILLS, RECORDS, SEED, TIMEOUT_S
from tierlog.tests.pipeline.spark.exports_on_disk import row_files
from tierlog.tests.pipeline.spark.spark_cluster import SparkCluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java"),
    pytest.mark.timeout(TIMEOUT_S),
]

COMMITS = 4 + 3 * KILLS


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[MixedTopic]:
    with mixed_topic(tmp_path, "mixed", RECORDS, SEED) as made:
        made.trim()
        yield made


def test_each_record_is_in_the_folder_once_whatever_is_killed_on_the_way(
    topic: MixedTopic, tmp_path: Path, chance: random.Random
) -> None:
    folder = tmp_path / "table"
    commit = max(500, sum(topic.ends.values()) // COMMITS)
    with SparkCluster(tmp_path, workers=2, cores=1) as cluster:
        arguments = (
            *("export", *topic.place.arguments, "--topic", topic.name, "--format", "parquet"),
            *("--table", str(folder), "--master", cluster.master),
            *("--records-per-commit", str(commit), *CONF),
        )
        with Driver.of_module(tmp_path, "tierlog.pipeline.spark", *arguments) as job:
            KilledJob(job, cluster, folder, chance).kill_each(KILLS)
    expected = consumed_file(topic, tmp_path / "expected.parquet")
    rows = [folder / each for each in row_files(folder) if not each.startswith("_")]
    found = assert_rows_are(expected, rows)
    assert 0 < found <= RECORDS - topic.aborted
    shutil.rmtree(folder)
