"""The one sentence of a job that fails in the JVM says what is behind the failure."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.failures import failure_sentence


def test_a_library_that_wraps_an_error_does_not_hide_its_cause(spark: SparkSession) -> None:
    """Iceberg says only that a path has no file system, and not why."""
    catalog = "spark.sql.catalog.nowhere"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{catalog}.type", "hadoop")
    spark.conf.set(f"{catalog}.warehouse", "nowhere://bucket/lake")
    with pytest.raises((PySparkException, Py4JJavaError)) as failure:
        spark.table("nowhere.shop.orders")
    sentence = failure_sentence(failure.value)
    assert 'No FileSystem for scheme "nowhere"' in sentence
    assert "\n" not in sentence


def test_what_the_first_line_says_already_is_not_said_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)) as failure:
        spark.read.text(str(tmp_path / "absent"))
    sentence = failure_sentence(failure.value)
    assert sentence.count("absent") == 1
