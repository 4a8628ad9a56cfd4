"""A program: a topic of a tier goes into a table as a stream, in bounded micro-batches, and ends.

Begun again after a kill, it goes on where its checkpoint is.
"""

import json
import sys
from pathlib import Path

from tierlog.pipeline.spark.session import spark_session
from tierlog.pipeline.spark.source import TierlogDataSource
from tierlog.pipeline.spark.streaming.run_available import run_available
from tierlog.pipeline.spark.tables.statements import execute
from tierlog.tests.pipeline.spark.clusters.driver import SETTINGS

COLUMNS = """
    key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>
"""
"""In the order of the source's, which Iceberg requires of a stream."""


def main(kind: str, master: str, directory: Path, options: dict[str, str]) -> None:
    """Stream what the tier holds into the table `lake.db.mixed`, or a Delta table of that path."""
    warehouse = directory / "warehouse"
    spark = spark_session(
        "stream",
        master=master,
        jars=(kind,),
        warehouse=str(warehouse) if kind == "iceberg" else None,
        settings=SETTINGS,
    )
    spark.dataSource.register(TierlogDataSource)
    place = str(warehouse / "db" / "mixed")
    name = "lake.db.mixed" if kind == "iceberg" else f"delta.`{place}`"
    execute(spark, f"CREATE TABLE IF NOT EXISTS {name} ({COLUMNS}) USING {kind}")
    rows = spark.readStream.format("tierlog").options(**options).load().drop("timestampType")
    writer = rows.writeStream.format(kind).option(
        "checkpointLocation", str(directory / "checkpoint")
    )
    # What `start` writes to is the option `path`, by both formats.
    run_available(writer.option("path", name if kind == "iceberg" else place))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4]))
