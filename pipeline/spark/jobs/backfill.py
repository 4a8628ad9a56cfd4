"""`tierlog-spark backfill`: writes records from the tier or a table to a topic, through the broker.

Each record is written once, however often the job is restarted (`topic_writer.py`): with the same
`--name` it continues where it stopped, and a second run of a finished job writes nothing. Records
keep their partition number, key, value, headers, timestamp and order, and get new offsets.

The job works in steps of about `--records-per-step` records, because Spark sorts all records of a
step. The driver holds no records.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ....clients.properties import parse_properties
from ....clients.text_table import counted
from ....clients.topic_partition import TopicPartition
from ....storage.files import OsFiles
from ....tiering.tools.terminal import SOUND, Output
from ...reading.scan_bounds import OffsetRange
from ...reading.scan_options import TopicIds
from ..arguments.job_arguments import FORMATS, Jobs, add_record_arguments, positive, session_for
from ..arguments.tier_arguments import add_tier_arguments, stated_tier
from ..arguments.watching import run_watched
from ..streaming.offset_steps import Ranges, listed, records_in, steps
from ..tables.export_state import refusal
from ..tier_source import TierSource
from ..topic_writer import TopicWriter, TopicWriterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_STEP = 1_000_000

_EXAMPLES = """examples:
  tierlog-spark backfill --tier s3://bucket/prefix --topic orders \\
      --bootstrap 127.0.0.1:9092 --to orders-again --name restore
  tierlog-spark backfill --table /data/orders --format delta --topic orders \\
      --bootstrap 127.0.0.1:9092 --to replay --name replay --records-per-second 5000

exit code: 0 the topic holds all records, 2 it does not
"""


class RecordSource(Protocol):
    """A source of records: a tier or a table."""

    @property
    def topic_ids(self) -> TopicIds:
        """The ids of the topics that the last `ranges` found, as far as they are known."""
        ...

    def ranges(self) -> Ranges:
        """The offsets that the source has of each partition."""
        ...

    def rows(self, spark: "SparkSession", ranges: Ranges) -> "DataFrame":
        """The records of these offsets."""
        ...


class TableSource:
    """A table written by an export, or one with the same columns."""

    def __init__(self, spark: "SparkSession", kind: str, name: str, topics: list[str]) -> None:
        self._table = spark.table(name) if kind == "iceberg" else spark.read.format(kind).load(name)
        missing = {"topic", "partition", "offset", "value"}.difference(self._table.columns)
        if missing:
            raise TopicWriterError(f"{name} has no column {min(missing)!r}.")
        self._topics = topics
        self.topic_ids: TopicIds = {}
        """Rows do not hold the id of their topic."""

    def ranges(self) -> Ranges:
        from pyspark.sql.functions import col, max as highest, min as lowest

        bounds = (
            self._table.where(col("topic").isin(self._topics))
            .groupBy("topic", "partition")
            .agg(lowest("offset"), highest("offset"))
            .collect()
        )
        return {
            TopicPartition(str(row[0]), int(row[1])): OffsetRange(int(row[2]), int(row[3]) + 1)
            for row in bounds
        }

    def rows(self, spark: "SparkSession", ranges: Ranges) -> "DataFrame":
        from pyspark.sql.functions import col, lit

        condition = lit(False)
        for (topic, partition), offset_range in ranges.items():
            own = (col("topic") == topic) & (col("partition") == partition)
            condition = condition | (
                own & col("offset").between(offset_range.first, offset_range.end - 1)
            )
        return self._table.where(condition)


class BackfillSettings(NamedTuple):
    """The step size and flags of one run."""

    records_per_step: int = RECORDS_PER_STEP
    append: bool = False
    dry_run: bool = False


def add_parser(commands: Jobs) -> argparse.ArgumentParser:
    """Add this job and its arguments to the command line."""
    parser = commands.add_parser(
        "backfill",
        help="tier or table to a topic through the broker, each record once",
        description="Write the records that the topic lacks; run it again to continue.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_tier_arguments(parser, or_table=True)
    parser.add_argument("--format", choices=FORMATS, help="the table's format")
    add_record_arguments(parser)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--to", required=True, metavar="TOPIC", help="an existing topic")
    parser.add_argument("--name", required=True, help="name under which the job saves its progress")
    parser.add_argument(
        "--client-config", metavar="FILE", help="librdkafka settings, such as credentials"
    )
    parser.add_argument("--records-per-second", type=positive, default=0, metavar="N")
    parser.add_argument("--records-per-step", type=positive, default=RECORDS_PER_STEP, metavar="N")
    parser.add_argument(
        "--append",
        action="store_true",
        help="start even though the topic has records and this name has no saved progress",
    )
    parser.set_defaults(run=run)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the job that the arguments describe."""
    if (options.table is None) != (options.format is None):
        raise refusal("--table and --format must be used together.")
    writer = TopicWriter(
        options.bootstrap,
        options.to,
        options.name,
        options.records_per_second,
        _client_settings(options.client_config),
    )
    spark = session_for("backfill", options)
    source: RecordSource
    if options.table is None:
        source = TierSource(stated_tier(options), options.topic, options.isolation)
    else:
        source = TableSource(spark, options.format, options.table, options.topic)
    settings = BackfillSettings(options.records_per_step, options.append, options.dry_run)
    Backfill(spark, source, writer, Output(as_json=False)).run(settings)
    return SOUND


def _client_settings(file: str | None) -> dict[str, str]:
    if file is None:
        return {}
    try:
        return dict(parse_properties(OsFiles().read(file).decode()))
    except OSError as error:
        raise refusal(f"The file {file} cannot be read: {error.strerror}.") from error


class Backfill:
    """One run of a backfill."""

    def __init__(
        self, spark: "SparkSession", source: RecordSource, writer: TopicWriter, output: Output
    ) -> None:
        self._spark = spark
        self._source = source
        self._writer = writer
        self._output = output

    def run(self, settings: BackfillSettings) -> int:
        """Write the missing records; returns their number. Raises TopicWriterError."""
        ranges = self._source.ranges()
        self._writer = replace(self._writer, topic_ids=self._source.topic_ids)
        ends = self._writer.end_offsets()
        missing = self._missing(ranges, ends, may_append=settings.append)
        for line in listed(missing):
            self._output.line(line)
        if settings.dry_run:
            self._output.line(f"dry run: {counted(records_in(missing), 'offset')} would be written")
            return 0
        return self._write(missing, settings)

    def _write(self, missing: Ranges, settings: BackfillSettings) -> int:
        total, passed, written = records_in(missing), 0, 0
        for step in steps(missing, settings.records_per_step):
            passed += records_in(step)
            share = f"{passed:,} of {counted(total, 'offset')}"
            written += run_watched(
                self._spark,
                self._output,
                f"writing, to {share}",
                partial(self._write_step, step),
            )
            self._output.line(f"{share}, {counted(written, 'record')} written")
        self._output.line(f"{self._writer.topic} holds all records")
        return written

    def _write_step(self, step: Ranges) -> int:
        return self._writer.write(self._source.rows(self._spark, step))

    def _missing(
        self, ranges: Ranges, ends: Mapping[int, int], *, may_append: bool
    ) -> dict[TopicPartition, OffsetRange]:
        """The offsets still to write of each source partition, from its committed position on."""
        missing: dict[TopicPartition, OffsetRange] = {}
        goal = self._writer.topic
        for partition, held in ranges.items():
            if partition.partition not in ends:
                raise TopicWriterError(
                    f"{goal} has only {counted(len(ends), 'partition')}, but the source has "
                    f"{partition}: add partitions."
                )
            position = self._writer.position(partition)
            if position is None and ends[partition.partition] > 0 and not may_append:
                raise TopicWriterError(
                    f"{goal} has records in partition {partition.partition}, but the name "
                    f"{self._writer.name!r} has no saved progress there (it expires after the "
                    f"broker's offsets.retention.minutes): --append writes all of {partition} "
                    "after them."
                )
            begin = min(max(position or 0, held.first), held.end)
            missing[partition] = OffsetRange(begin, held.end)
        return missing
