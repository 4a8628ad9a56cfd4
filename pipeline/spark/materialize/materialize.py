"""`tierlog-spark materialize`: keeps topics of a tier as tables, one table a topic.

Each round exports what the tables lack (`topic_tables.py`), each record exactly once. With
`--every` rounds repeat until SIGTERM or Ctrl-C, which end the job after the current commit.
"""

import argparse
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence

from ....clients.runtime.environment import SystemEnvironment
from ....clients.text_table import table
from ....tiering.store.remote_url import RemoteUrl
from ....tiering.tools.terminal import CANNOT_RUN, SOUND, Output, cannot_run
from ...reading.option_values import ScanError, duration_ms
from ..arguments.job_arguments import FORMATS, Jobs, add_record_arguments, positive, session_for
from ..arguments.tier_arguments import add_tier_arguments, stated_tier
from ..jobs.export import RECORDS_PER_COMMIT, ExportSettings
from ..tier_source import MatchingTopics
from .stop_request import StopRequest
from .table_names import TableNames
from .topic_tables import HEAD, Target, TopicTables, round_line

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
        "--records-per-commit", type=positive, default=RECORDS_PER_COMMIT, metavar="N"
    )
    parser.add_argument(
        "--accept-loss",
        action="store_true",
        help="continue even if the tier deleted records before they were copied",
    )
    parser.set_defaults(run=run)
    return parser


def _interval_ms(text: str) -> int:
    try:
        return duration_ms("every", text)
    except ScanError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 5m or 30s") from error


def run(options: Namespace) -> int:
    """Run the job that the arguments describe; returns the exit code."""
    location = stated_tier(options)
    names = TableNames(options.table, options.format)
    topics = _topics(options.topic, options.pattern, location)
    if options.every is None:
        topics()  # Detects a wrong tier before Spark starts.
    stop = StopRequest()
    with stop.by_signals():
        spark = session_for("materialize", options, location)
        stop.handle()
        settings = ExportSettings(options.records_per_commit, options.accept_loss, options.dry_run)
        target = Target(location, options.format, options.isolation, settings)
        output = Output(as_json=False)
        tables = TopicTables(spark, target, names, stop, output)
        return _rounds(tables, topics, options.every, stop, output)


def _topics(
    stated: Sequence[str] | None, pattern: str | None, location: RemoteUrl
) -> Callable[[], Sequence[str]]:
    """What names the topics of a round. Raises ScanError if the pattern is invalid."""
    if pattern is not None:
        return MatchingTopics(location, pattern).names
    names = tuple(dict.fromkeys(stated or ()))
    return lambda: names


def _rounds(
    tables: TopicTables,
    topics: Callable[[], Sequence[str]],
    every_ms: int | None,
    stop: StopRequest,
    output: Output,
) -> int:
    clock, number, failed = SystemEnvironment(), 0, 0
    while not stop.is_made:
        number += 1
        began_ms = clock.wall_clock_ms()
        failed = _round(number, tables, topics, output, is_only=every_ms is None)
        if every_ms is None:
            break
        took_ms = max(0, clock.wall_clock_ms() - began_ms)
        stop.wait(max(0, every_ms - took_ms) / 1000)
    rows = [progress.row() for _, progress in sorted(tables.progress.items())]
    for line in table(list(HEAD), rows) if rows else ():
        output.line(line)
    return CANNOT_RUN if failed and every_ms is None else SOUND


def _round(
    number: int,
    tables: TopicTables,
    topics: Callable[[], Sequence[str]],
    output: Output,
    *,
    is_only: bool,
) -> int:
    """One round; the number of failures. Raises ScanError if no other round will come."""
    try:
        names = topics()
    except ScanError as error:
        if is_only:
            raise
        cannot_run(f"{error}; the next round looks again.")
        return 1
    if not names:
        output.line("no topic of the tier matches the pattern")
    failed = tables.round(names)
    behind = (progress.lag or 0 for progress in tables.progress.values())
    output.line(round_line(number, names, failed, behind))
    return failed
