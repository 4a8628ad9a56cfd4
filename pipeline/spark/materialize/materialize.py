"""`tierlog-spark materialize`: keeps topics of a tier as tables, one table a topic.

Each round exports what the tables lack (`topic_tables.py`), each record exactly once. With
`--every` rounds repeat until SIGTERM or Ctrl-C, which end the job after the current commit.
"""

import argparse
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence

from ....clients.errors import KafkaError
from ....clients.runtime.environment import SystemEnvironment
from ....clients.text_table import counted, table
from ....tiering.store.remote_url import RemoteUrl
from ....tiering.tools.terminal import CANNOT_RUN, SOUND, Output, cannot_run
from ...reading.option_values import ScanError, duration_ms
from ..arguments.job_arguments import FORMATS, Jobs, add_record_arguments, positive, session_for
from ..arguments.tier_arguments import add_tier_arguments, stated_tier
from ..jobs.export import ExportSettings, add_commit_arguments, check_can_delete
from ..page.report_arguments import check_place, save_page
from ..tables.export_state import refusal
from ..tier_source import matching_topics
from .stop_request import StopRequest
from .table_names import TableNames
from .topic_tables import HEAD, QuietOutput, Target, TopicProgress, TopicTables, round_line
from .value_format import add_value_arguments, value_columns, value_jars

_EXAMPLES = """examples:
  tierlog-spark materialize --tier s3://bucket/prefix --topic orders --topic refunds \\
      --format delta --table 's3a://bucket/lake/{topic}'
  tierlog-spark materialize --config server.properties --pattern 'shop\\..*' --every 5m \\
      --format iceberg --warehouse /data/lake --table 'lake.shop.{topic}'

exit code: 0 the tables hold all that the tier had, or the job was stopped; 2 a topic failed
"""


def add_parser(commands: Jobs) -> ArgumentParser:
    """Add this job and its arguments to the command line."""
    parser = commands.add_parser(
        "materialize",
        help="keep topics of a tier as Iceberg, Delta or Parquet tables, one table a topic",
        description="Copy what the table of each topic lacks from the tier, once or in rounds.",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    add_tier_arguments(parser)
    add_record_arguments(parser, or_pattern=True)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument(
        "--table",
        required=True,
        metavar="NAME",
        help="the table of a topic: a path or URL, or for Iceberg catalog.namespace.table, with "
        "{topic} in the place of the topic's name",
    )
    parser.add_argument(
        "--every",
        type=_interval_ms,
        metavar="TIME",
        help="begin a round so often, such as 5m or 30s, until the job is stopped (default: once)",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="write a page there, with a row a topic, after each round"
    )
    _add_table_arguments(parser)
    add_value_arguments(parser)
    parser.set_defaults(run=run)
    return parser


def _add_table_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that say what a table holds."""
    add_commit_arguments(parser)
    parser.add_argument(
        "--upsert",
        action="store_true",
        help="a table holds the newest record of each key, and none of a key that was deleted",
    )
    parser.add_argument(
        "--compact",
        type=positive,
        metavar="N",
        help="rewrite the small files of a table after each N rounds that have added to it",
    )
    parser.add_argument(
        "--on-deleted",
        choices=("keep", "delete"),
        default="keep",
        help="delete: rows below the offset where the tier begins are deleted from the table "
        "(default: keep)",
    )
    parser.add_argument(
        "--on-divergence",
        action="append",
        choices=("stop", "new-table", "delete"),
        help="new-table: a topic that was deleted and created again goes to a table of its own; "
        "delete: rows that an unclean leader election has removed from the topic are deleted from "
        "the table too; both may be given (default: stop, the topic fails)",
    )


def _interval_ms(text: str) -> int:
    try:
        if text.strip().isdigit():  # Spark's options would take milliseconds: a job without rest.
            raise ScanError("the time has no unit")
        return duration_ms("every", text)
    except ScanError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 5m or 30s") from error


def run(options: Namespace) -> int:
    """Run the job that the arguments describe; returns the exit code."""
    location = stated_tier(options)
    names = TableNames(options.table, options.format)
    answers = _answers(options)
    if options.report is not None:
        check_place(options.report, "--report")
    topics = _topics(options.topic, options.pattern, location)
    if options.every is None:
        topics()  # Detects a wrong tier before Spark starts.
    columns = value_columns(options)
    stop = StopRequest()
    with stop.by_signals():
        spark = session_for("materialize", options, location, jars=value_jars(options))
        stop.handle()
        settings = ExportSettings(
            options.records_per_commit,
            options.accept_loss,
            options.dry_run,
            deletes_diverged="delete" in answers,
            deletes_deleted=options.on_deleted == "delete",
            is_upsert=options.upsert,
        )
        target = Target(
            location,
            options.format,
            options.isolation,
            settings,
            None if columns is None else columns.of,
            new_tables="new-table" in answers,
            compact_every=options.compact,
        )
        output = Output(as_json=False)
        tables = TopicTables(spark, target, names, stop, output)
        return Rounds(tables, topics, stop, output, options.report).run(options.every)


def _answers(options: Namespace) -> frozenset[str]:
    """What to do on a divergence. Raises KafkaError(INVALID_CONFIG)."""
    answers = frozenset[str](options.on_divergence or ("stop",))
    if "stop" in answers and len(answers) > 1:
        raise refusal("--on-divergence stop goes with no other --on-divergence.")
    for option, stated in (("--on-divergence", answers), ("--on-deleted", {options.on_deleted})):
        if "delete" in stated:
            check_can_delete(options.format, option, "delete")
    if options.upsert and options.format == "parquet":
        raise refusal("--upsert is not for Parquet, which is append only: use Iceberg or Delta.")
    if options.upsert and "delete" in answers:
        raise refusal(
            "--on-divergence delete does not go with --upsert: the table no longer has the records "
            "of those keys from before."
        )
    return answers


def _topics(
    stated: Sequence[str] | None, pattern: str | None, location: RemoteUrl
) -> Callable[[], Sequence[str]]:
    """What names the topics of a round. Raises ScanError if the pattern is invalid."""
    if pattern is not None:
        return matching_topics(location, pattern)
    names = tuple(dict.fromkeys(stated or ()))
    return lambda: names


class Rounds:
    """The rounds of one job."""

    def __init__(
        self,
        tables: TopicTables,
        topics: Callable[[], Sequence[str]],
        stop: StopRequest,
        output: Output,
        report: str | None,
    ) -> None:
        """`topics` names those of a round; `report` is the path of the page, if there is one."""
        self._tables = tables
        self._topics = topics
        self._stop = stop
        self._output = output
        self._report = report
        self._number = 0

    def run(self, every_ms: int | None) -> int:
        """Run a round, or one so often until the job is to stop; returns the exit code."""
        clock, failed = SystemEnvironment(), 0
        while not self._stop.is_made:
            self._number += 1
            began_ms = clock.wall_clock_ms()
            failed = self._round(is_only=every_ms is None)
            if self._report is not None:
                self._save_page(self._report, clock.wall_clock_ms())
            if every_ms is None:
                break
            took_ms = max(0, clock.wall_clock_ms() - began_ms)
            self._stop.wait(max(0, every_ms - took_ms) / 1000)
        rows = [progress.row() for progress in self._progress()]
        for line in table(list(HEAD), rows) if rows else ():
            self._output.line(line)
        return CANNOT_RUN if failed and every_ms is None else SOUND

    def _progress(self) -> list[TopicProgress]:
        return [progress for _, progress in sorted(self._tables.progress.items())]

    def _round(self, *, is_only: bool) -> int:
        """One round; the number of failures. Raises ScanError if no other round will come."""
        try:
            names = self._topics()
        except ScanError as error:
            if is_only:
                raise
            cannot_run(f"{error}; the next round looks again.")
            return 1
        if not names:
            self._output.line("no topic of the tier matches the pattern")
        failed = self._tables.round(names)
        if self._tables.missed:
            topics = counted(len(names), "topic")
            self._output.line(
                f"round {self._number} was stopped before {self._tables.missed} of its {topics}"
            )
            return failed
        behind = sum(progress.lag or 0 for progress in self._progress())
        self._output.line(round_line(self._number, len(names), failed, behind))
        return failed

    def _save_page(self, path: str, now_ms: int) -> None:
        from .materialize_page import materialize_page

        html = materialize_page(self._tables.tier, self._number, self._progress(), now_ms)
        # The first page is announced; a job with a thousand rounds has no more to say of it.
        output = self._output if self._number == 1 else QuietOutput(as_json=False)
        try:
            save_page(path, html, output, "--report")
        except KafkaError as error:
            cannot_run(f"{error.message} The next round tries again.")
