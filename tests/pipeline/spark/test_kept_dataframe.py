"""A DataFrame that is kept: Spark plans its reading once, so it goes on showing the same rows."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from tierlog.pipeline.spark.tables.statements import execute
from tierlog.tests.pipeline.spark.folder_tier import Tier

pytestmark = [pytest.mark.slow, pytest.mark.requires("java")]


def test_a_dataframe_shows_the_tier_of_its_first_query_and_a_new_one_that_of_now(
    spark: SparkSession, tier: Tier
) -> None:
    def load() -> DataFrame:
        return spark.read.format("tierlog").options(**tier.options()).load()

    kept, unused = load(), load()
    assert kept.count() == 100
    tier.bucket.put(2, (100, 149))
    tier.write()
    assert kept.count() == 100
    # Whatever is asked of it, and so for a view of it.
    assert kept.where("offset >= 40").count() == 60
    kept.createOrReplaceTempView("kept")
    (row,) = execute(spark, "SELECT max(offset) FROM kept")
    assert row[0] == 99
    assert load().count() == 150
    assert unused.count() == 150
