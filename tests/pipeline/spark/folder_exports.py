"""Exports of the tier that a test has written into a folder."""

from pyspark.sql import SparkSession

from tierlog.pipeline.spark.jobs.export import Export, ExportSettings
from tierlog.pipeline.spark.tables.export_state import ExportTable
from tierlog.pipeline.spark.tier_source import TierSource
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.tools.terminal import Output


def export(
    spark: SparkSession, tier: Tier, goal: ExportTable, settings: ExportSettings | None = None
) -> None:
    source = source_of(tier)
    ranges = source.ranges()
    Export(spark, source, goal, Output(as_json=False)).run(ranges, settings or ExportSettings())


def source_of(tier: Tier) -> TierSource:
    return TierSource(RemoteUrl(tier.directory.as_uri()), [TOPIC], "read_committed")
