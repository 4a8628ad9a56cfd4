"""`tierlog-spark audit`: reads a whole tier on Spark and reports its problems.

The checks are those of `tierlog tier verify` (`tiering/tools/tier_check.py`, `segment_check.py`),
for tiers that one process would take days to read. Each segment is read and checked in a Spark
task. The driver lists the tier, reads the manifests, chooses the segments of each partition's log,
and combines the verdicts.

Exit codes: 0 sound, 1 something needs attention (with --strict, notes too), 2 the audit could not
run.
"""

import asyncio
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import TYPE_CHECKING, NamedTuple

from ....clients.network.first_contact import ensure_answers
from ....clients.runtime.environment import SystemEnvironment
from ....clients.text_table import counted
from ....tiering.store.remote_url import RemoteUrl
from ....tiering.tools.opened_tier import opened_tier
from ....tiering.tools.read_metadata import metadata_of_cluster
from ....tiering.tools.terminal import SOUND, TROUBLE, Output, human_bytes
from ....tiering.tools.tier_check import check_survey
from ....tiering.tools.tier_survey import Finding, Survey
from ..arguments.job_arguments import Jobs
from ..arguments.tier_arguments import stated_tier
from ..jobs.segment_tasks import SegmentJob, TierSize, size_of, survey_of
from ..page.report_arguments import add_report_arguments, check_place, save_page
from .audit_report import AuditReport, json_lines, table_lines
from .segment_verdict import SegmentVerdict, audit_segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....clients.topic_partition import TopicIdPartition
    from ....storage.remote.remote_log import RemoteLog

_EXAMPLES = """\
examples:
  tierlog-spark audit --config server.properties --bootstrap 127.0.0.1:9092
  tierlog-spark audit --tier s3://bucket/prefix --topic orders --html audit.html
  tierlog-spark audit --tier /var/lib/tierlog/remote --json > audit.jsonl

exit code: 0 sound, 1 something needs attention, 2 cannot run"""


def add_parser(jobs: Jobs) -> ArgumentParser:
    """Add this job and its arguments to the parser of `tierlog-spark`."""
    parser = jobs.add_parser(
        "audit",
        help="read a whole tier and report whether it is sound",
        description="Read a whole tier on Spark: objects, checksums, records, offsets, leader "
        "epochs, manifests, indexes, orphans, and metadata.",
        epilog=_EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    add_report_arguments(parser)
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="a broker whose metadata topic is compared with the objects",
    )
    parser.add_argument("--strict", action="store_true", help="notes count as findings")
    parser.set_defaults(run=run)
    return parser


class _Looked(NamedTuple):
    """The results of the checks that run on the driver."""

    survey: Survey
    findings: list[Finding]


def run(options: Namespace) -> int:
    """Run an audit; returns the exit code. Raises KafkaError, RemoteStorageError."""
    location = stated_tier(options)
    if options.html is not None:
        check_place(options.html)
    output = Output(as_json=options.json)
    looked = asyncio.run(_look(location, options, output))
    manifests = list(looked.survey.manifests.values())
    size = size_of(manifests)
    if options.dry_run:
        _print_plan(looked.survey, size, output)
        return SOUND
    verdicts = _read_all(location, looked.survey, options, output)
    report = AuditReport(
        str(location),
        sorted(verdicts, key=lambda each: (*each.partition[1:], each.first_offset)),
        [*looked.findings, *sorted(f for verdict in verdicts for f in verdict.findings)],
        sorted({segment.topic_id_partition for segment in looked.survey.listing.segments.values()}),
        metadata_was_read=options.bootstrap is not None,
    )
    _print_report(report, output)
    if options.html is not None:
        from .audit_page import audit_page

        save_page(options.html, audit_page(report, SystemEnvironment().wall_clock_ms()), output)
    bad = len(report.findings) if options.strict else report.troubles
    return TROUBLE if bad else SOUND


async def _look(location: RemoteUrl, options: Namespace, output: Output) -> _Looked:
    if options.bootstrap is not None:
        # Checked first, because listing the tier may take long.
        await ensure_answers(options.bootstrap, SystemEnvironment())
    async with opened_tier(location) as tier:
        survey = await survey_of(tier, str(location), options.topic, output)
        logs: Mapping[TopicIdPartition, RemoteLog] | None = None
        if options.bootstrap is not None:
            # Read after the listing: else a segment copied in between would look like an orphan.
            logs = await metadata_of_cluster(options.bootstrap, SystemEnvironment())
            if options.topic:
                logs = {
                    partition: logs[partition]
                    for partition in logs
                    if partition.topic in options.topic
                }
        return _Looked(survey, await check_survey(tier, survey, logs))


def _read_all(
    location: RemoteUrl, survey: Survey, options: Namespace, output: Output
) -> list[SegmentVerdict]:
    from ..session import spark_session

    spark = spark_session(
        "tierlog audit", master=options.master, jars=(), settings=dict(options.conf)
    )
    job = SegmentJob(location, audit_segment, "reading segments")
    return job.run(spark, list(survey.manifests.values()), output)


def _print_plan(survey: Survey, size: TierSize, output: Output) -> None:
    partitions = len({segment.topic_id_partition for segment in survey.listing.segments.values()})
    output.line(
        f"would read {counted(size.segments, 'segment')} of {counted(partitions, 'partition')}, "
        f"{human_bytes(size.nbytes)}: only the listing and the manifests were read"
    )
    output.json_line(
        {
            "type": "plan",
            "segments": size.segments,
            "partitions": partitions,
            "bytes": size.nbytes,
        }
    )


def _print_report(report: AuditReport, output: Output) -> None:
    for line in table_lines(report):
        output.line(line)
    for finding in report.findings:
        output.finding(finding)
    output.line(report.conclusion)
    for each in json_lines(report):
        output.json_line(each)
