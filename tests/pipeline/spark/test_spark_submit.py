"""`spark-submit` starts the JVM first: the jars come on its command line, or a sentence says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.tests.pipeline.spark.small_spark import SMALL_JVM
from tierlog.tests.pipeline.spark.spark_cluster import ENVIRONMENT

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

SUBMIT_TIMEOUT_S = 600
ICEBERG_JOB = """
from tierlog.spark import spark_session

spark = spark_session("lake", jars=("iceberg",), warehouse={warehouse!r})
spark.range(7).writeTo("lake.db.numbers").create()
print("rows:", spark.table("lake.db.numbers").count())
"""
PLAIN_JOB = """
from tierlog.spark import spark_session

spark = spark_session("plain")
partitions = spark.conf.get("spark.sql.shuffle.partitions")
ui = spark.conf.get("spark.ui.enabled")
print("rows:", spark.range(5).count(), "partitions:", partitions, "ui:", ui)
"""
UNKNOWN_JOB = """
from tierlog.clients.errors import KafkaError
from tierlog.spark import spark_session

try:
    spark_session("unknown", jars=("hudi",))
except KafkaError as error:
    print("refused:", error.message)
"""


def submit(job: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`spark-submit`, as somebody calls it; Spark's own binary is beside our Python."""
    command = Path(sys.executable).with_name("spark-submit")
    return subprocess.run(
        [str(command), "--driver-java-options", SMALL_JVM, *words, str(job)],
        env={**os.environ, **ENVIRONMENT, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
        check=False,
    )


def jars(*kinds: str) -> str:
    """What `tierlog-spark jars` prints."""
    command = [sys.executable, "-m", "tierlog.pipeline.spark", "jars", *kinds]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    return done.stdout.strip()


def test_the_printed_jars_make_an_iceberg_table_under_spark_submit(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(ICEBERG_JOB.format(warehouse=str(tmp_path / "lake")))
    done = submit(job, "--jars", jars("iceberg"))
    assert "rows: 7" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_missing_jar_is_named_with_the_command_that_brings_it(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(ICEBERG_JOB.format(warehouse=str(tmp_path / "lake")))
    done = submit(job)
    assert done.returncode != 0
    assert (
        "spark-submit was started without the jars of iceberg;"
        ' use spark-submit --jars "$(tierlog-spark jars iceberg)"' in done.stdout + done.stderr
    )


def test_a_job_without_kafka_runs_with_a_warning_and_as_the_command_line_says(
    tmp_path: Path,
) -> None:
    job = tmp_path / "job.py"
    job.write_text(PLAIN_JOB)
    done = submit(job, "--conf", "spark.sql.shuffle.partitions=5")
    # On one machine there is no web UI unless it is wanted.
    assert "rows: 5 partitions: 5 ui: false" in done.stdout, done.stdout + done.stderr
    assert "Kafka topics cannot be read: spark-submit was started without" in done.stdout


def test_jars_of_an_unknown_kind_are_refused_as_without_spark_submit(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(UNKNOWN_JOB)
    done = submit(job)
    assert "refused: no jars are known for 'hudi'" in done.stdout, done.stdout + done.stderr


def test_the_command_that_brings_a_missing_jar_brings_those_that_are_there_too(
    tmp_path: Path,
) -> None:
    job = tmp_path / "job.py"
    job.write_text(ICEBERG_JOB.format(warehouse=str(tmp_path)).replace('("ice', '("kafka", "ice'))
    done = submit(job, "--jars", jars("kafka"))
    assert (
        "started without the jars of iceberg;"
        ' use spark-submit --jars "$(tierlog-spark jars kafka iceberg)"' in done.stdout
    ), done.stdout + done.stderr
