"""The whole command with tier and table in S3: the tier's credentials, and no secret shown."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from tierlog.tests.pipeline.spark.exports import (
    BUCKET_CATALOG,
    TieredTopic,
    assert_holds_each_once,
    bucket_for_tables,
    tiered_topic_of_two,
)
from tierlog.tests.pipeline.spark.small_spark import SMALL_SPARK
from tierlog.tests.pipeline.spark.tiers import TierPlace
from tierlog.tests.tiering.servers.s3 import BUCKET, KEY, SECRET, VersityGateway

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("java"),
    pytest.mark.requires("go"),
    pytest.mark.timeout(900),
]
JOB_TIMEOUT_S = 400


@pytest.fixture(scope="module")
def topic(s3: VersityGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TieredTopic]:
    options = cast("dict[str, str]", dict(s3.location.options))
    place = TierPlace(f"s3://{BUCKET}/{uuid4().hex}", options)
    with tiered_topic_of_two(tmp_path_factory.mktemp("bucket"), "orders", place) as found:
        yield found


def words_of_all_processes() -> str:
    """The command lines that every user of this machine sees now."""
    words: list[str] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words.append(each.read_text(errors="replace"))
        except OSError:
            continue
    return "\n".join(words)


def export(*words: str) -> str:
    """Run the command; what it prints. While it runs, no command line has a secret."""
    command = [sys.executable, "-m", "tierlog.pipeline.spark", "export", *words]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
    ) as job:
        assert job.stdout is not None
        output: list[str] = []
        for line in job.stdout:
            output.append(line)
            if line.startswith("commit "):
                assert SECRET not in words_of_all_processes()
        assert job.wait(JOB_TIMEOUT_S) == 0, "".join(output)
    return "".join(output)


@pytest.mark.parametrize(
    "kind",
    [
        "parquet",
        pytest.param("delta", marks=pytest.mark.long),
        pytest.param("iceberg", marks=pytest.mark.long),
    ],
)
def test_one_command_fills_a_table_in_the_bucket_of_the_tier_and_shows_no_secret(
    spark: SparkSession, s3: VersityGateway, topic: TieredTopic, tmp_path: Path, kind: str
) -> None:
    where = bucket_for_tables(spark, s3)
    is_iceberg = kind == "iceberg"
    # By the name that fsspec and Amazon have for it, and by Hadoop's.
    table = "lake.exports.commanded" if is_iceberg else f"{where}/table".replace("s3a", "s3")
    words = [
        *("--config", str(topic.place.server_properties(tmp_path)), "--topic", topic.name),
        *("--format", kind, "--table", table, "--master", "local[2]"),
        *(("--warehouse", f"s3a://{BUCKET}/lake") if is_iceberg else ()),
        *("--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir={tmp_path}"),
        *("--conf", "spark.eventLog.compress=false"),
        *(word for each in SMALL_SPARK.items() for word in ("--conf", "=".join(each))),
    ]
    first, second = export(*words), export(*words)
    assert "commit 1: " in first
    assert "it holds all that" in second
    if is_iceberg:
        rows = spark.table(f"{BUCKET_CATALOG}.exports.commanded")
    else:
        rows = spark.read.format(kind).load(f"{where}/table")
    assert_holds_each_once(rows, topic.place.end_offsets(topic.name))
    events = [path for path in tmp_path.rglob("*") if path.is_file() and "local-" in str(path)]
    written = b"".join(path.read_bytes() for path in events)
    assert b"SparkListenerEnvironmentUpdate" in written
    for secret in (KEY, SECRET):
        assert secret not in first + second
        assert secret.encode() not in written
