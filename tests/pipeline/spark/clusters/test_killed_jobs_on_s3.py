"""A topic of all kinds goes from S3 into Iceberg tables on S3, on a cluster that is being killed.

By a scan, by a stream, by an export and by `materialize`: executors, workers and the driver are
killed while tasks write, and each record is in the table once, field by field.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.session import set_hadoop
from tierlog.pipeline.spark.store_settings import store_settings
from tierlog.tests.pipeline.spark.clusters.driver import CONF, Driver
from tierlog.tests.pipeline.spark.clusters.judged_rows import JudgedTopic, assert_rows_are
from tierlog.tests.pipeline.spark.clusters.killed_job import KilledJob
from tierlog.tests.pipeline.spark.clusters.mixed_topic import MixedTopic
from tierlog.tests.pipeline.spark.clusters.story_size import KILLS, RECORDS, TIMEOUT_S
from tierlog.tests.pipeline.spark.spark_cluster import SparkCluster
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java"),
    pytest.mark.requires("go"),
    pytest.mark.timeout(TIMEOUT_S),
]

STEPS = 4 + 3 * KILLS
"""Commits, micro-batches; a scan has about twice as many tasks."""
LAKE = "killed-lake"
WAREHOUSE = f"s3a://{BUCKET}/{LAKE}"
CATALOG = "killed_lake"
PROGRAM = "tierlog.tests.pipeline.spark.clusters.table_driver"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), workers=2, cores=1) as running:
        yield running


def command(topic: MixedTopic, directory: Path, kind: str, master: str) -> list[str]:
    """`tierlog-spark export` or `materialize` of the topic, in about so many commits."""
    table = f"lake.{kind}.{'{topic}' if kind == 'materialize' else topic.name}"
    commit = max(500, sum(topic.ends.values()) // STEPS)
    return [
        *(kind, "--config", str(topic.place.server_properties(directory)), "--topic", topic.name),
        *("--format", "iceberg", "--table", table, "--warehouse", WAREHOUSE, "--master", master),
        # What compaction has left has gaps.
        *("--records-per-commit", str(commit), "--accept-loss", *CONF),
    ]


def program(topic: MixedTopic, directory: Path, kind: str, master: str) -> list[str]:
    """The arguments of the program that scans or streams the topic."""
    share = {"maxOffsetsPerTrigger": max(500, sum(topic.ends.values()) // STEPS)}
    if kind == "scan":
        share = {"maxPartitionBytes": max(1 << 19, topic.stored_bytes // (2 * STEPS))}
    options = topic.place.options(
        topic.name,
        isolation="read_committed",
        startingOffsets="earliest",
        failOnDataLoss="false",
        **{name: str(number) for name, number in share.items()},
    )
    (directory / "options.json").write_text(json.dumps(options))
    return [kind, master, WAREHOUSE, str(directory)]


def table_files(spark: SparkSession, s3: VersityGateway, kind: str) -> list[Path]:
    """The files of the table's newest snapshot, where the server keeps them."""
    set_hadoop(spark, store_settings(s3.location, WAREHOUSE, ()))
    prefix = f"spark.sql.catalog.{CATALOG}"
    spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{prefix}.type", "hadoop")
    spark.conf.set(f"{prefix}.warehouse", WAREHOUSE)
    rows = spark.table(f"{CATALOG}.{kind}.mixed.files").select("content", "file_path").collect()
    assert {row["content"] for row in rows} == {0}, "files of deletions"
    return [s3.folder / str(row["file_path"]).removeprefix("s3a://") for row in rows]


@pytest.mark.parametrize("kind", ["export", "stream", "materialize", "scan"])
def test_each_record_is_in_the_table_once_whatever_is_killed_on_the_way(
    spark: SparkSession,
    s3: VersityGateway,
    cluster: SparkCluster,
    topic_on_s3: JudgedTopic,
    tmp_path: Path,
    kind: str,
    chance: random.Random,
) -> None:
    topic, expected = topic_on_s3
    if kind in ("scan", "stream"):
        module, arguments = PROGRAM, program(topic, tmp_path, kind, cluster.master)
    else:
        module = "tierlog.pipeline.spark"
        arguments = command(topic, tmp_path, kind, cluster.master)
    with Driver.of_module(tmp_path, module, *arguments) as job:
        rows = s3.folder / BUCKET / LAKE / kind
        KilledJob(job, cluster, rows, chance).kill_each(KILLS)
    found = assert_rows_are(expected, table_files(spark, s3, kind))
    print(f"{kind}: {found:,} rows, each once, of {RECORDS:,} records")
    assert 0 < found <= RECORDS - topic.aborted
