"""A program: a topic of a tier goes into an Iceberg table, by one scan or as a stream, and ends.

A stream that is begun again after a kill goes on where its checkpoint is; a scan begins again.
"""

import json
import sys
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from tierlog.pipeline.reading.scan_options import scan_options
from tierlog.pipeline.spark.session import set_hadoop, spark_session
from tierlog.pipeline.spark.source import TierlogDataSource
from tierlog.pipeline.spark.store_settings import store_settings
from tierlog.pipeline.spark.streaming.run_available import run_available
from tierlog.pipeline.spark.tables.statements import execute
from tierlog.tests.pipeline.spark.clusters.driver import SETTINGS

COLUMNS = """
    key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>
"""
"""In the order of the source's, which Iceberg requires of a stream."""


def scan(spark: SparkSession, table: str, options: dict[str, str]) -> None:
    """One query, whose rows are there at its end or not at all."""
    rows = spark.read.format("tierlog").options(**options).load().drop("timestampType")
    rows.writeTo(table).using("iceberg").createOrReplace()


def stream(spark: SparkSession, table: str, options: dict[str, str], checkpoint: Path) -> None:
    """Bounded micro-batches, until it has all that the tier holds."""
    execute(spark, f"CREATE TABLE IF NOT EXISTS {table} ({COLUMNS}) USING iceberg")
    rows = spark.readStream.format("tierlog").options(**options).load().drop("timestampType")
    writer = rows.writeStream.format("iceberg").option("checkpointLocation", str(checkpoint))
    run_available(writer.option("path", table))


def main(kind: str, master: str, warehouse: str, directory: Path) -> None:
    """Fill the table `lake.<kind>.mixed`; the options of the source are in a file."""
    options = cast("dict[str, str]", json.loads((directory / "options.json").read_text()))
    spark = spark_session(
        kind, master=master, jars=("iceberg", "s3"), warehouse=warehouse, settings=SETTINGS
    )
    # What the bucket of the tier is reached with goes for the table, too.
    set_hadoop(spark, store_settings(scan_options(options).location, warehouse, ()))
    spark.dataSource.register(TierlogDataSource)
    table = f"lake.{kind}.mixed"
    if kind == "scan":
        scan(spark, table, options)
    else:
        stream(spark, table, options, directory / "checkpoint")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
