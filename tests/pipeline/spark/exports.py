"""What the stories of exports share: a topic in a tier, and what a table of it must hold."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4
from zlib import crc32

from pyspark.sql import DataFrame, SparkSession

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.pipeline.spark.jobs.export import Export, ExportSettings, export_table
from tierlog.pipeline.spark.session import set_hadoop
from tierlog.pipeline.spark.store_settings import store_settings
from tierlog.pipeline.spark.tables.export_state import ExportTable
from tierlog.pipeline.spark.tier_source import TierSource
from tierlog.tests.pipeline.spark.tiers import (
    TierPlace,
    broker_on,
    produce,
    tiered_topic,
    wait_until_all_is_tiered,
)
from tierlog.tests.tiering.servers.s3 import BUCKET, VersityGateway
from tierlog.tiering.store.remote_url import RemoteUrl
from tierlog.tiering.tools.terminal import Output

FORMATS = ("iceberg", "delta", "parquet")
BUCKET_CATALOG = "bucket_lake"
RECORD_BYTES = 700
AT_ONCE = 4000
"""Records of a partition that are sent in one go: they fill two segments and open a third one."""


def value_of(partition: int, number: int) -> bytes:
    """Which value record number so-and-so of a partition has."""
    return f"{partition}:{number}:".encode().ljust(RECORD_BYTES, b".")


@dataclass
class TieredTopic:
    """A topic of two partitions whose closed segments are in a tier."""

    node: TierlogNode
    place: TierPlace
    name: str
    sent: int = 0

    def produce_and_wait(self) -> None:
        """Send some more, and wait for the segments that are full then."""
        first = self.sent
        counts = {0: AT_ONCE, 1: AT_ONCE}
        produce(self.node, self.name, counts, lambda p, n: value_of(p, first + n))
        self.sent += AT_ONCE
        wait_until_all_is_tiered(self.node, self.place, self.name)

    def source(self) -> TierSource:
        location = RemoteUrl(self.place.url, dict(self.place.storage_options))
        return TierSource(location, [self.name], "read_committed")


@contextmanager
def tiered_topic_of_two(
    directory: Path, name: str, place: TierPlace | None = None
) -> Generator[TieredTopic]:
    """The topic, and a broker that lives as long as the context; the tier is here or there."""
    place = place or TierPlace((directory / "remote").as_uri())
    with broker_on(directory, place) as node:
        tiered_topic(node, name, partitions=2)
        topic = TieredTopic(node, place, name)
        topic.produce_and_wait()
        yield topic


def run_export(
    spark: SparkSession,
    topic: TieredTopic,
    goal: ExportTable,
    settings: ExportSettings | None = None,
) -> Mapping[int, int]:
    """Run the job in this process; the end offsets that it has reached."""
    source = topic.source()
    ranges = source.ranges()
    Export(spark, source, goal, Output(as_json=False)).run(ranges, settings or ExportSettings())
    return {partition.partition: each.end for partition, each in ranges.items()}


def table_name(kind: str, where: Path | str, name: str) -> str:
    """Where a table of a format goes: below the folder or URL, or into a catalog of the session."""
    if kind == "iceberg":
        return f"{'lake' if isinstance(where, Path) else BUCKET_CATALOG}.exports.{name}"
    return f"{where}/{name}"


def bucket_for_tables(spark: SparkSession, server: VersityGateway) -> str:
    """A URL below which a session may write tables, and a catalog of Iceberg's there."""
    url = f"s3a://{BUCKET}/{uuid4().hex}"
    set_hadoop(spark, store_settings(server.location, url, ()))
    prefix = f"spark.sql.catalog.{BUCKET_CATALOG}"
    spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{prefix}.type", "hadoop")
    spark.conf.set(f"{prefix}.warehouse", f"s3a://{BUCKET}/lake")
    return url


def goal_of(spark: SparkSession, kind: str, directory: Path | str, name: str) -> ExportTable:
    return export_table(spark, kind, table_name(kind, directory, name))


def rows_of(spark: SparkSession, kind: str, goal: ExportTable) -> DataFrame:
    """The table as anybody reads it."""
    if kind != "iceberg":
        return spark.read.format(kind).load(goal.name)
    spark.catalog.refreshTable(goal.name)
    return spark.table(goal.name)


def assert_holds_each_once(rows: DataFrame, ends: Mapping[int, int]) -> None:
    """Every record below these offsets is there, once, with its own value."""
    found = rows.selectExpr(
        "partition", "offset", "crc32(value) AS sum", "CAST(key AS STRING) AS key"
    )
    summary = found.groupBy("partition").agg({"offset": "count", "sum": "sum"}).collect()
    distinct = {
        int(row[0]): int(row[1]) for row in found.distinct().groupBy("partition").count().collect()
    }
    assert distinct == dict(ends)
    counted = {int(row["partition"]): int(row["count(offset)"]) for row in summary}
    assert counted == dict(ends)
    sums = {int(row["partition"]): int(row["sum(sum)"]) for row in summary}
    assert sums == {p: sum(crc32(value_of(p, n)) for n in range(end)) for p, end in ends.items()}
