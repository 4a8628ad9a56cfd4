"""A program: a topic goes into a Delta table and the table into a second topic, as two streams.

It is written as docs/spark.md tells users to. It runs until it is killed or finds a file `finish`
in its directory; then it takes what is still on its way and ends. Begun again, it goes on where its
checkpoints are.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tierlog.pipeline.spark.session import spark_session
from tierlog.pipeline.spark.tables.statements import execute
from tierlog.pipeline.spark.topic_writer import TopicWriter
from tierlog.tests.pipeline.spark.small_spark import SMALL_SPARK

SOURCE, TARGET = "incoming", "outgoing"
TABLE, FINISH = "table", "finish"

COLUMNS = """
    key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>,
    topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP
"""


def topic_into_table(spark: SparkSession, bootstrap: str, directory: Path) -> StreamingQuery:
    """Delta takes each micro-batch once: its number is in the commit."""
    table = str(directory / TABLE)
    # A table that is there can be streamed from, though it is empty.
    execute(spark, f"CREATE TABLE IF NOT EXISTS delta.`{table}` ({COLUMNS}) USING delta")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", "20000")
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "20000")
        .option("includeHeaders", "true")
        .load()
    )
    return (
        records.drop("timestampType")
        .writeStream.format("delta")
        .option("checkpointLocation", str(directory / "into-table"))
        .trigger(processingTime="1 second")
        .start(table)
    )


def table_into_topic(spark: SparkSession, bootstrap: str, directory: Path) -> StreamingQuery:
    """A micro-batch may come twice; the writer knows what the topic holds."""
    writer = TopicWriter(bootstrap, TARGET, "pipeline")

    def write(rows: DataFrame, _: int) -> None:
        writer.write(rows)

    rows = (
        spark.readStream.format("delta")
        # Whole commits, and so the records of a partition in their order.
        .option("maxFilesPerTrigger", str(2**31 - 1))
        .load(str(directory / TABLE))
    )
    return (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(directory / "into-topic"))
        .trigger(processingTime="1 second")
        .start()
    )


def main(bootstrap: str, directory: Path) -> None:
    """Run both until told to finish; raises what ends one of them."""
    spark = spark_session(
        "pipeline", master="local[2]", jars=("kafka", "delta"), settings=SMALL_SPARK
    )
    queries = (
        topic_into_table(spark, bootstrap, directory),
        table_into_topic(spark, bootstrap, directory),
    )
    while not (directory / FINISH).exists():
        spark.streams.awaitAnyTermination(1)
    for query in queries:
        query.processAllAvailable()
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
