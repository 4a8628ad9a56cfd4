"""A stream from a tier into tables, by Spark itself: each record once, whatever is begun again."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tierlog.clients.kafka_uuid import Uuid
from tierlog.pipeline.spark.tables.statements import execute
from tierlog.tests.pipeline.spark.folder_tier import Tier
from tierlog.tests.tiering.remote_partition import PARTITION
from tierlog.tiering.store.object_keys import object_key

pytestmark = [pytest.mark.long, pytest.mark.requires("java"), pytest.mark.timeout(600)]

COLUMNS = (
    "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
)
ICEBERG = "lake.streamed.orders"


class Stream:
    """A query that takes what there is, each time it is run, and ends."""

    def __init__(self, spark: SparkSession, tier: Tier, kind: str, place: Path) -> None:
        self._spark = spark
        self._tier = tier
        self._kind = kind
        self._table = ICEBERG if kind == "iceberg" else str(place / "table")
        self._checkpoint = place / "checkpoint"
        if kind == "iceberg":
            execute(spark, f"CREATE TABLE {ICEBERG} ({COLUMNS}) USING iceberg")

    def run(self) -> None:
        options = self._tier.options(startingOffsets="earliest")
        rows = self._spark.readStream.format("tierlog").options(**options).load()
        columns = [column.split()[0] for column in COLUMNS.split(", ")]
        writer = (
            rows.select(*columns)
            .writeStream.format(self._kind)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
        )
        if self._kind == "iceberg":
            query = writer.toTable(self._table)
        else:
            query = writer.start(self._table)
        query.awaitTermination()

    def forget_last_commit(self) -> Path:
        """As if the job had died after the table's commit, before it could note that there."""
        noted = [each for each in (self._checkpoint / "commits").iterdir() if each.name.isdigit()]
        last = max(noted, key=lambda each: int(each.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        return last

    def forget_ids(self) -> None:
        """As if an earlier version had written the checkpoint, which knew offsets alone."""
        for note in (self._checkpoint / "offsets").glob("[0-9]*"):
            text = re.sub(r', "topicId": "[^"]*"', "", note.read_text())
            assert "topicId" not in text
            note.write_text(text)
            (note.parent / f".{note.name}.crc").unlink(missing_ok=True)

    def micro_batches(self) -> int:
        return len(list((self._checkpoint / "commits").glob("[0-9]*")))

    def offsets(self) -> list[int]:
        """Those in the table, as anybody reads it."""
        if self._kind == "iceberg":
            self._spark.catalog.refreshTable(self._table)
            rows: DataFrame = self._spark.table(self._table)
        else:
            rows = self._spark.read.format(self._kind).load(self._table)
        return sorted(cast("int", row.offset) for row in rows.select("offset").collect())


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_each_record_comes_to_the_table_once(
    spark: SparkSession, tier: Tier, tmp_path: Path, kind: str
) -> None:
    stream = Stream(spark, tier, kind, tmp_path)
    stream.run()
    assert stream.offsets() == [*range(100)]

    tier.bucket.put(2, (100, 149))
    tier.write()
    stream.run()
    assert stream.offsets() == [*range(150)]

    # The micro-batch that the checkpoint does not know as done is written again, and left out.
    note = stream.forget_last_commit()
    stream.run()
    assert note.exists()
    assert stream.offsets() == [*range(150)]

    # Nothing is new.
    stream.run()
    assert stream.offsets() == [*range(150)]


def test_what_ends_a_stream_is_one_line_that_names_it(
    spark: SparkSession, tier: Tier, tmp_path: Path
) -> None:
    stream = Stream(spark, tier, "parquet", tmp_path)
    damaged = tier.bucket.put(2, (100, 149))
    tier.bucket.damage(damaged, "log", 100)
    tier.write()
    with pytest.raises(StreamingQueryException) as ended:
        stream.run()
    key = object_key(damaged, "log")
    said = [line for line in str(ended.value).splitlines() if key in line]
    assert any("the CRC of the batch at offset 100 is wrong" in line for line in said)
    assert "Traceback" not in str(ended.value)


def test_a_checkpoint_takes_on_the_topic_s_id_and_then_wants_no_other_topic(
    spark: SparkSession, tier: Tier, tmp_path: Path
) -> None:
    stream = Stream(spark, tier, "parquet", tmp_path)
    stream.run()
    stream.forget_ids()
    tier.bucket.put(2, (100, 149))
    tier.write()
    stream.run()
    stream.run()
    assert stream.micro_batches() == 2
    assert stream.offsets() == [*range(150)]

    # Without new records it takes on the id too, in a micro-batch of its own.
    stream.forget_ids()
    stream.run()
    stream.run()
    assert stream.micro_batches() == 3

    again = PARTITION._replace(topic_id=Uuid(b"the second topic"))
    tier.bucket.put(3, (0, 199), partition=again)
    tier.write()
    for _ in range(2):
        with pytest.raises(StreamingQueryException) as ended:
            stream.run()
        assert "begin a new stream, with another checkpoint" in str(ended.value)
        assert "Traceback" not in str(ended.value)
    assert stream.offsets() == [*range(150)]


def by_time(spark: SparkSession, tier: Tier) -> Callable[[], list[int]]:
    """Offsets of a running query in memory, when it has taken what there is."""
    options = tier.options(startingTimestamp="500")
    rows = spark.readStream.format("tierlog").options(**options).load()
    query = rows.select("offset").writeStream.format("memory").queryName("by_time").start()

    def offsets() -> list[int]:
        query.processAllAvailable()
        return sorted(cast("int", row.offset) for row in spark.table("by_time").collect())

    return offsets


def test_a_query_that_goes_on_takes_what_comes(spark: SparkSession, tier: Tier) -> None:
    offsets = by_time(spark, tier)
    try:
        assert offsets() == [*range(50, 100)]
        for number in range(3):
            first = 100 + 10 * number
            tier.bucket.put(2 + number, (first, first + 9))
            tier.write()
            assert offsets() == [*range(50, first + 10)]
    finally:
        for query in spark.streams.active:
            query.stop()
