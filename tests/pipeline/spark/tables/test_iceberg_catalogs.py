"""Exports to Iceberg through catalogs that others share: a REST server, and a database."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.tests.pipeline.spark.exports import (
    TieredTopic,
    assert_holds_each_once,
    bucket_for_tables,
    tiered_topic_of_two,
)
from tierlog.tests.pipeline.spark.small_spark import SMALL_SPARK
from tierlog.tests.pipeline.spark.tables.rest_catalog import RestCatalog, sqlite_driver
from tierlog.tests.tiering.servers.s3 import BUCKET, KEY, SECRET, VersityGateway

pytestmark = [
    pytest.mark.long,
    pytest.mark.requires("java"),
    pytest.mark.requires("mvn"),
    pytest.mark.requires("go"),
    pytest.mark.timeout(1200),
]
JOB_TIMEOUT_S = 400


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredTopic]:
    with tiered_topic_of_two(tmp_path_factory.mktemp("catalogs"), "orders") as found:
        yield found


def tierlog_spark(
    *words: str, settings: Mapping[str, str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    stated = {**SMALL_SPARK, **settings}
    return subprocess.run(
        [
            *(sys.executable, "-m", "tierlog.pipeline.spark", *words, "--master", "local[2]"),
            *(word for each in stated.items() for word in ("--conf", "=".join(each))),
        ],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
        check=False,
    )


def test_a_rest_server_has_the_catalog_and_s3_the_tables(
    s3: VersityGateway, topic: TieredTopic, tmp_path: Path
) -> None:
    credentials = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with RestCatalog(tmp_path, s3) as catalog:
        words = [
            *("export", *topic.place.arguments, "--topic", topic.name, "--format", "iceberg"),
            *("--table", "lake.exports.by_rest", "--catalog", "rest", "--catalog-uri", catalog.uri),
            "--compact",
        ]
        settings = {f"spark.sql.catalog.lake.{n}": v for n, v in catalog.reader_settings.items()}
        first, second = (
            tierlog_spark(*words, settings=settings, environment=credentials) for _ in range(2)
        )
    assert first.returncode == 0, first.stdout + first.stderr
    assert "commit 1: " in first.stdout
    assert second.returncode == 0, second.stdout + second.stderr
    assert "it holds all that" in second.stdout
    stored = list((s3.directory / "buckets" / BUCKET / "rest").rglob("*.parquet"))
    assert stored


def test_a_database_has_the_catalog_and_the_drivers_jar_is_added_to_icebergs(
    spark: SparkSession, s3: VersityGateway, topic: TieredTopic, tmp_path: Path
) -> None:
    bucket_for_tables(spark, s3)
    warehouse = f"s3a://{BUCKET}/jdbc"
    words = [
        *("export", *topic.place.arguments, "--topic", topic.name, "--format", "iceberg"),
        *("--table", "lake.exports.by_jdbc", "--warehouse", warehouse),
        *("--catalog", "jdbc", "--catalog-uri", f"jdbc:sqlite:{tmp_path / 'catalog.db'}"),
    ]
    bucket = f"spark.hadoop.fs.s3a.bucket.{BUCKET}"
    settings = {
        "spark.jars": str(sqlite_driver()),
        f"{bucket}.endpoint": f"http://127.0.0.1:{s3.port}",
        f"{bucket}.endpoint.region": "us-east-1",
        f"{bucket}.path.style.access": "true",
    }
    credentials = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    first, second = (
        tierlog_spark(*words, settings=settings, environment=credentials) for _ in range(2)
    )
    assert first.returncode == 0, first.stdout + first.stderr
    assert second.returncode == 0, second.stdout + second.stderr
    assert "it holds all that" in second.stdout
    # SQLite's driver is no part of this session: the rows are read as the files that they are.
    rows = spark.read.parquet(f"{warehouse}/exports/by_jdbc/data")
    assert_holds_each_once(rows, topic.place.end_offsets(topic.name))
