"""`tierlog-spark profile`: the contents of a tier, and what a shorter retention would save.

It reports sizes, record rates over time, frequent keys, compression by codec and a retention
forecast for each topic. Only segments that are part of a partition's log are read
(`tier_lineages.py`). A damaged segment fails the job; an audit then shows the damage. The forecast
needs no records: with --forecast-only, only manifests and leader epochs are read.
"""

import asyncio
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....clients.runtime.environment import SystemEnvironment
from ....clients.text_table import counted
from ....tiering.store.remote_url import RemoteUrl
from ....tiering.tools.opened_tier import opened_tier
from ....tiering.tools.stored_segments import sort_out
from ....tiering.tools.terminal import SOUND, Output, human_bytes
from ...reading.tier_lineages import TierLineages, TierView
from ..arguments.job_arguments import Jobs
from ..arguments.tier_arguments import stated_tier
from ..jobs.segment_tasks import SegmentJob, check_topics, size_of
from ..page.report_arguments import add_report_arguments, check_place, save_page
from .profile_report import ProfileReport, json_lines, text_lines
from .retention_forecast import USUAL_TIMES, Setting, forecasts, size_setting, time_setting
from .topic_profile import TopicProfile, merge_by_topic, profile_segment

if TYPE_CHECKING:
    from ....tiering.store.manifest import Manifest

_EXAMPLES = """\
examples:
  tierlog-spark profile --config server.properties --html profile.html
  tierlog-spark profile --tier s3://bucket/prefix --topic orders --retention-ms 7d
  tierlog-spark profile --tier /var/lib/tierlog/remote --forecast-only --retention-bytes 10GiB"""


def add_parser(jobs: Jobs) -> ArgumentParser:
    """Add this job and its arguments to the parser of `tierlog-spark`."""
    parser = jobs.add_parser(
        "profile",
        help="report on a tier: sizes, rates, keys, codecs, and what retention would save",
        description="Read a tier on Spark and report on it, topic by topic: sizes, record "
        "rates over time, frequent keys, compression, and what a shorter retention would save.",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    add_report_arguments(parser)
    parser.add_argument(
        "--retention-ms",
        metavar="TIME",
        action="append",
        default=[],
        help="forecast this retention.ms: 12h, 7d; repeatable (default: one hour to one year)",
    )
    parser.add_argument(
        "--retention-bytes",
        metavar="SIZE",
        action="append",
        default=[],
        help="forecast this retention.bytes, which applies to each partition: 10GiB; repeatable",
    )
    parser.add_argument(
        "--forecast-only",
        action="store_true",
        help="read no records: report only sizes and the forecast",
    )
    parser.set_defaults(run=run)
    return parser


def run(options: Namespace) -> int:
    """Run a profile; returns the exit code. Raises KafkaError, ScanError, RemoteStorageError."""
    location = stated_tier(options)
    settings = stated_settings(options.retention_ms, options.retention_bytes)
    if options.html is not None:
        check_place(options.html)
    output = Output(as_json=options.json)
    view = asyncio.run(_look(location, options.topic))
    manifests = [
        view.manifest_of(segment)
        for _, lineage in sorted(view.lineages.items())
        for segment in lineage.segments
    ]
    if options.dry_run:
        _print_plan(manifests, len(view.lineages), output)
        return SOUND
    now_ms = SystemEnvironment().wall_clock_ms()
    report = ProfileReport(
        str(location),
        [] if options.forecast_only else _read_all(location, manifests, options, output),
        forecasts(view.lineages, view.manifests, settings, now_ms),
    )
    for line in text_lines(report):
        output.line(line)
    for each in json_lines(report):
        output.json_line(each)
    if options.html is not None:
        from .profile_page import profile_page

        save_page(options.html, profile_page(report, now_ms), output)
    return SOUND


def stated_settings(times: Sequence[str], sizes: Sequence[str]) -> list[Setting]:
    """Parse the retention settings to forecast. Raises KafkaError(INVALID_CONFIG)."""
    if not times and not sizes:
        times = USUAL_TIMES
    return [*map(time_setting, times), *map(size_setting, sizes)]


async def _look(location: RemoteUrl, topics: Sequence[str]) -> TierView:
    async with opened_tier(location) as tier:
        listing = sort_out(await tier.list())
        check_topics(listing, str(location), topics)
        # A topic without a complete segment has nothing to profile.
        stored = [segment for segment in listing.segments.values() if segment.has_manifest]
        names = sorted({segment.topic_id_partition.topic for segment in stored})
        return await TierLineages(tier, str(location), tuple(topics or names)).look()


def _read_all(
    location: RemoteUrl, manifests: "Sequence[Manifest]", options: Namespace, output: Output
) -> list[TopicProfile]:
    from ..session import spark_session

    spark = spark_session(
        "tierlog profile", master=options.master, jars=(), settings=dict(options.conf)
    )
    job = SegmentJob(location, profile_segment, "reading segments", merge_by_topic)
    return job.run(spark, manifests, output)


def _print_plan(manifests: "Sequence[Manifest]", partitions: int, output: Output) -> None:
    size = size_of(manifests)
    segments = counted(size.segments, "segment")
    output.line(
        f"would read {segments} of {counted(partitions, 'partition')}, {human_bytes(size.nbytes)}: "
        "only the listing and the manifests were read"
    )
    fields = {"segments": size.segments, "partitions": partitions, "bytes": size.nbytes}
    output.json_line({"type": "plan", **fields})
