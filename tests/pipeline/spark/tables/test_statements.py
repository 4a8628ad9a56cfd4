"""Settings for one statement leave a session as it was."""

import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.tables.statements import session_settings

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]

PARTITIONS = "spark.sql.shuffle.partitions"
UNKNOWN = "spark.tierlog.unknown"


def test_what_the_user_has_set_comes_back(spark: SparkSession) -> None:
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "3")
    try:
        with session_settings(spark, {PARTITIONS: "7", UNKNOWN: "here"}):
            assert spark.conf.get(PARTITIONS) == "7"
            assert spark.conf.get(UNKNOWN) == "here"
        assert spark.conf.get(PARTITIONS) == "3"
        assert spark.conf.get(UNKNOWN, None) is None
    finally:
        spark.conf.set(PARTITIONS, before or "")


def test_it_comes_back_after_an_error(spark: SparkSession) -> None:
    before = spark.conf.get(PARTITIONS)
    with pytest.raises(ZeroDivisionError), session_settings(spark, {PARTITIONS: "7"}):
        raise ZeroDivisionError
    assert spark.conf.get(PARTITIONS) == before
