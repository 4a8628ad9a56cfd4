"""A Delta table is where its path says, whatever the form of the path."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierlog.pipeline.spark.tables.delta_table import DeltaTable
from tierlog.tests.pipeline.spark.folder_exports import export
from tierlog.tests.pipeline.spark.folder_tier import Tier

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.requires("java")]


def test_a_relative_path_is_below_the_folder_where_spark_started(
    spark: SparkSession, tier: Tier, tmp_path: Path
) -> None:
    folder = tmp_path / "my lake" / "orders"
    name = os.path.relpath(folder)
    for first, last in ((0, 9), (10, 19)):
        tier.bucket.put(first + 1, (first, last))
        tier.write()
        export(spark, tier, DeltaTable(spark, name))
    rows = spark.read.format("delta").load(str(folder))
    assert sorted(row["offset"] for row in rows.select("offset").collect()) == list(range(20))
