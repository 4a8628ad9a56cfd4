"""`tierlog-spark export`: copies records from the tier to a table, exactly once.

A run compares the offsets in the table with those in the tier, and copies the missing ones in
commits of about `--records-per-commit` records. Records that reach the tier during the run are left
to the next one. A run may be killed at any moment: see `export_state.py`.

A run fails if the tier deleted offsets before they were exported, unless `--accept-loss` allows the
table to lack those records. A topic that was deleted and created again is another topic: the table
of the old one does not take its records. And an unclean leader election may remove records that a
table holds already: see `exported_epochs.py`.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ....clients.text_table import counted
from ....clients.topic_partition import TopicPartition
from ....tiering.tools.terminal import SOUND, Output, human_bytes
from ...reading.scan_bounds import OffsetRange
from ...reading.scan_options import TopicIds
from ...reading.topic_ids import recreated_topic
from ..arguments.job_arguments import FORMATS, Jobs, add_record_arguments, positive, session_for
from ..arguments.tier_arguments import add_tier_arguments, stated_tier
from ..arguments.watching import run_watched
from ..streaming.offset_steps import Ranges, listed, records_in, steps
from ..tables.export_state import NOTHING, Exported, ExportError, ExportTable, refusal
from ..tier_source import TierSource
from .divergence import divergence_error, divergences, epochs_after, rows_of, state_without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_COMMIT = 5_000_000
SMALL_BYTES = 32 * 1024 * 1024

_EXAMPLES = """examples:
  tierlog-spark export --tier s3://bucket/prefix --topic orders --format delta --table /data/orders
  tierlog-spark export --config server.properties --topic orders --topic refunds \\
      --format iceberg --warehouse /data/lake --table lake.db.events --compact

exit code: 0 the table holds all that the tier had, 2 it does not
"""


class RowMapping(Protocol):
    """Maps the rows of a topic before they are written, such as to columns of decoded values.

    It may add columns, and leaves the rows and the columns that are there. The table gets the
    columns that it lacks (`ExportTable.add_columns`).
    """

    def __call__(self, rows: "DataFrame", /) -> "DataFrame": ...


class ExportSettings(NamedTuple):
    """The commit size and flags of one run."""

    records_per_commit: int = RECORDS_PER_COMMIT
    accept_loss: bool = False
    dry_run: bool = False
    compact: bool = False
    small_bytes: int = SMALL_BYTES
    deletes_diverged: bool = False
    """Whether rows that an unclean election has removed from the topic are deleted."""
    deletes_deleted: bool = False
    """Whether rows below where the tier begins are deleted; then no loss stops the export."""
    is_upsert: bool = False
    """Whether the table holds the newest record of each key, and not all records."""


def add_commit_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every job that exports."""
    parser.add_argument(
        "--records-per-commit", type=positive, default=RECORDS_PER_COMMIT, metavar="N"
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="continue even if the tier deleted records before they were copied",
    )


def add_parser(commands: Jobs) -> argparse.ArgumentParser:
    """Add this job and its arguments to the command line."""
    parser = commands.add_parser(
        "export",
        help="copy a tier to an Iceberg, Delta or Parquet table, incrementally and exactly once",
        description="Copy the records that a table lacks from the tier; run it again for new ones.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_tier_arguments(parser)
    add_record_arguments(parser)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument(
        "--table",
        required=True,
        help="a path or URL; for Iceberg catalog.namespace.table",
    )
    add_commit_arguments(parser)
    parser.add_argument(
        "--on-divergence",
        choices=("stop", "delete"),
        default="stop",
        help="delete: rows that an unclean leader election has removed from the topic are deleted "
        "from the table too (default: stop, with a message)",
    )
    parser.add_argument(
        "--compact", action="store_true", help="afterwards, rewrite small files into larger ones"
    )
    parser.add_argument(
        "--small-bytes",
        type=positive,
        default=SMALL_BYTES,
        metavar="N",
        help="files below this size are rewritten by --compact (default: 32 MiB)",
    )
    parser.set_defaults(run=run)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the job that the arguments describe."""
    location = stated_tier(options)
    if options.format == "iceberg" and "." not in options.table:
        raise refusal(f"An Iceberg table is catalog.namespace.table: {options.table!r} is not.")
    check_can_delete(options.format, "--on-divergence", options.on_divergence)
    source = TierSource(location, options.topic, options.isolation)
    ranges = source.ranges()  # Detects a wrong topic before Spark starts.
    spark = session_for("export", options, location)
    goal = export_table(spark, options.format, options.table)
    settings = ExportSettings(
        options.records_per_commit,
        options.accept_loss,
        options.dry_run,
        options.compact,
        options.small_bytes,
        options.on_divergence == "delete",
    )
    Export(spark, source, goal, Output(as_json=False)).run(ranges, settings)
    return SOUND


def check_can_delete(table_format: str, option: str, stated: str) -> None:
    """Raise KafkaError(INVALID_CONFIG) if an option wants to delete rows of Parquet files."""
    if table_format == "parquet" and stated == "delete":
        raise refusal(
            f"{option} delete is not for Parquet, which is append only: use Iceberg or Delta."
        )


def export_table(spark: "SparkSession", kind: str, name: str) -> ExportTable:
    """The target table in the given format."""
    if kind == "iceberg":
        from ..tables.iceberg_table import IcebergTable

        return IcebergTable(spark, name)
    if kind == "delta":
        from ..tables.delta_table import DeltaTable

        return DeltaTable(spark, name)
    from ..tables.parquet_table import ParquetTable

    return ParquetTable(spark, name)


class Export:
    """One run of an export."""

    def __init__(
        self,
        spark: "SparkSession",
        source: TierSource,
        goal: ExportTable,
        output: Output,
        *,
        mapping: RowMapping | None = None,
        must_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """`must_stop` is asked before each commit: the run ends there, and the next continues."""
        self._spark = spark
        self._source = source
        self._goal = goal
        self._output = output
        self._mapping = mapping
        self._must_stop = must_stop
        self.state = NOTHING
        """What the table holds by the last commit that this run saw or made."""
        self.brought: Ranges = {}
        """The offsets that this run has committed."""

    def run(self, ranges: Ranges, settings: ExportSettings) -> None:
        """Export up to the end of these ranges, which are the ones that the tier holds.

        Raises:
            ExportError: offsets are lost, the table is ahead of the tier or holds another topic of
                that name, or another job commits at the same time.
        """
        state = self._goal.state()
        self.state = state or NOTHING
        check_topics(self._source.topic_ids, state or NOTHING, self._goal.name)
        if state is not None:
            check_kind(state, self._goal.name, is_upsert=settings.is_upsert)
            state = self._without_diverged(state, settings)
        accept_loss = settings.accept_loss or settings.deletes_deleted
        missing = missing_ranges(
            ranges,
            state or NOTHING,
            self._goal.name,
            {each: of.log_end_offset for each, of in self._source.lineages.items()},
            accept_loss=accept_loss,
        )
        self._print_missing(missing, state)
        if settings.dry_run:
            self._print_dry_run(missing, settings, has_table=state is not None)
            return
        if state is None:
            self._goal.create(is_upsert=settings.is_upsert)
        self._bring(missing, state or NOTHING, settings)
        if settings.deletes_deleted:
            self._delete_deleted(ranges)
        if settings.compact and not self._must_stop():
            self._output.line(self.compact(settings.small_bytes))

    def compact(self, small_bytes: int = SMALL_BYTES) -> str:
        """Rewrite the files of the table below this size into larger ones; what was done."""
        done = run_watched(
            self._spark,
            self._output,
            f"compacting {self._goal.name}",
            lambda: self._goal.compact(small_bytes, dry_run=False),
        )
        return f"compacted {counted(done.files_before, 'file')} into {done.files_after}"

    def _without_diverged(self, state: Exported, settings: ExportSettings) -> Exported:
        """The state once the table no longer has rows that the topic has lost."""
        diverged = divergences(self._source.lineages, state)
        if not diverged:
            return state
        if settings.is_upsert or not settings.deletes_diverged:
            raise divergence_error(self._goal.name, diverged, is_upsert=settings.is_upsert)
        after = state_without(state, diverged)
        what = "dry run: would delete" if settings.dry_run else "deleted"
        if not settings.dry_run:
            self._goal.delete(rows_of(diverged), after)
            self.state = after
        for each in diverged:
            self._output.line(f"{what} from {self._goal.name} {each}")
        return after

    def _delete_deleted(self, ranges: Ranges) -> None:
        """Delete the rows below where the tier begins, if there can be any."""
        state = self.state
        starts = {
            partition: held.first
            for partition, held in ranges.items()
            if held.first > state.starts.get(partition, 0) and partition in state.offsets
        }
        if not starts or self._must_stop():
            return
        after = state.after({}, {}, {})._replace(starts={**state.starts, **starts})
        deleted = {partition: OffsetRange(0, first) for partition, first in starts.items()}
        self._goal.delete(deleted, after)
        self.state = after
        for partition, first in sorted(starts.items()):
            self._output.line(f"deleted the rows below offset {first} of {partition}")

    def _bring(self, missing: Ranges, state: Exported, settings: ExportSettings) -> None:
        total, brought = records_in(missing), 0
        for step in steps(missing, settings.records_per_commit):
            if self._must_stop():
                return
            ends = {partition: offset_range.end for partition, offset_range in step.items()}
            epochs = epochs_after(self._source.lineages, state, step)
            begins = {each: step[each].first for each in step if each not in state.offsets}
            after = state.after(ends, self._source.topic_ids, epochs)
            after = after._replace(starts={**state.starts, **begins}, is_upsert=settings.is_upsert)
            write = self._goal.upsert if settings.is_upsert else self._goal.append
            rows = self._rows(step, settings)
            brought += records_in(step)
            share = f"{brought:,} of {counted(total, 'offset')}"
            run_watched(
                self._spark,
                self._output,
                f"commit {after.sequence}, to {share}",
                partial(write, rows, after),
            )
            self._output.line(f"commit {after.sequence}: {share}")
            state = self.state = after
            self.brought = {
                partition: OffsetRange(missing[partition].first, end)
                for partition, end in ends.items()
            }

    def _rows(self, step: Ranges, settings: ExportSettings) -> "DataFrame":
        accept_loss, is_upsert = settings.accept_loss, settings.is_upsert
        rows = self._source.rows(
            self._spark, step, fail_on_data_loss=not accept_loss, may_be_compacted=is_upsert
        )
        if self._mapping is None:
            return with_date(rows)
        return self._goal.add_columns(with_date(self._mapping(rows)))

    def _print_missing(self, missing: Ranges, state: Exported | None) -> None:
        what = "does not exist yet" if state is None else f"is at commit {state.sequence}"
        self._output.line(f"{self._goal.name} {what}")
        for line in listed(missing) or [f"it holds all that {self._source} has"]:
            self._output.line(line)

    def _print_dry_run(self, missing: Ranges, settings: ExportSettings, *, has_table: bool) -> None:
        commits = sum(1 for _ in steps(missing, settings.records_per_commit))
        self._output.line(
            f"dry run: {counted(records_in(missing), 'offset')} would be exported in"
            f" {counted(commits, 'commit')}"
        )
        if settings.compact and has_table:
            file_count = self._goal.compact(settings.small_bytes, dry_run=True).files_before
            size = human_bytes(settings.small_bytes)
            self._output.line(
                f"dry run: of {counted(file_count, 'file')} those below {size} would be compacted"
            )


def with_date(rows: "DataFrame") -> "DataFrame":
    """The rows with a column for their UTC date, whatever the time zone of the session is."""
    from pyspark.sql.functions import expr

    day = "date_from_unix_date(CAST(floor(unix_millis(timestamp) / 86400000) AS INT))"
    return rows.withColumn("date", expr(day))


def check_topics(topic_ids: TopicIds, state: Exported, table_name: str) -> None:
    """Raise ExportError if the table holds another topic of the same name."""
    other = recreated_topic(state.topic_ids, topic_ids)
    if other is not None:
        raise ExportError(
            f"{table_name} holds records of the old topic, but {other}; export it to another table."
        )


def check_kind(state: Exported, table_name: str, *, is_upsert: bool) -> None:
    """Raise ExportError if the table was written with, and is now without --upsert, or reversed."""
    if state.sequence == 0 or state.is_upsert == is_upsert:
        return
    holds, option = (
        ("the newest record of each key", "with materialize --upsert")
        if state.is_upsert
        else ("all records of its topics", "without --upsert")
    )
    raise ExportError(f"{table_name} holds {holds}: go on {option}, or name another table.")


def missing_ranges(
    ranges: Ranges,
    state: Exported,
    table_name: str,
    log_ends: Mapping[TopicPartition, int],
    *,
    accept_loss: bool,
) -> Mapping[TopicPartition, OffsetRange]:
    """The parts of these ranges that the table lacks.

    `log_ends` is where the tier ends. A range may end before that, at an open transaction, and a
    table that was exported with `read_uncommitted` before may have what follows.
    Raises ExportError if offsets are lost, or if the table is ahead of the tier.
    """
    missing: dict[TopicPartition, OffsetRange] = {}
    for partition, held in ranges.items():
        begin = state.offsets.get(partition, held.first)
        log_end = max(held.end, log_ends.get(partition, 0))
        if begin > log_end:
            raise ExportError(
                f"{table_name} holds {partition} up to offset {begin} and the tier ends at "
                f"{log_end}: is it another topic of that name, or another tier?"
            )
        if begin < held.first and not accept_loss:
            raise ExportError(
                f"The tier deleted offsets {begin} to {held.first - 1} of {partition} before they "
                f"were exported to {table_name}; --accept-loss goes on without them."
            )
        begin = max(begin, held.first)
        missing[partition] = OffsetRange(begin, max(begin, held.end))
    return missing
