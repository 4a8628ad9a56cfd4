"""`tierlog tier ls`: lists the topics of a tier, their partitions and segments."""

import argparse

from ...broker.config.config import BrokerConfig
from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import SystemEnvironment
from ...clients.text_table import counted, table
from ...tiering.metadata.skipped_events import SkippedEvents
from ...tiering.tools.read_metadata import metadata_of_cluster
from ...tiering.tools.terminal import SOUND, TROUBLE, Output, finding_fields, human_bytes
from ...tiering.tools.tier_contents import ListedPartition, list_contents
from ...tiering.tools.tier_survey import survey_tier
from .access import StatedMetadata, metadata_of_log_dirs, open_tier

LS_HELP = (
    "list the topics, partitions and segments of a tier",
    """\
  tierlog tier ls --config server.properties
  tierlog tier ls orders --segments --bootstrap 127.0.0.1:9092 --config server.properties
  tierlog tier ls --json --override rsm.config.url=file:///var/lib/tierlog/remote
""",
)


def add_metadata_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the arguments for reading metadata from a running broker or a stopped one's disk."""
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="read the metadata topic of this running broker"
    )
    group.add_argument(
        "--offline",
        action="store_true",
        help="read the metadata topic of a stopped broker from its log.dirs",
    )


def add_ls_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tier ls`."""
    parser.add_argument("topic", nargs="?", help="only this topic")
    parser.add_argument(
        "--segments", action="store_true", help="list each segment, not only partitions"
    )
    add_metadata_arguments(parser, required=False)


async def stated_metadata(
    config: BrokerConfig, parsed: argparse.Namespace, skipped: SkippedEvents | None = None
) -> StatedMetadata | None:
    """The metadata, if the arguments say where to read it; otherwise None. Raises KafkaError."""
    if parsed.bootstrap:
        return StatedMetadata(
            await metadata_of_cluster(parsed.bootstrap, SystemEnvironment(), skipped)
        )
    return metadata_of_log_dirs(config, skipped) if parsed.offline else None


async def list_tier(config: BrokerConfig, parsed: argparse.Namespace, output: Output) -> int:
    """Print the list; returns the exit code."""
    async with open_tier(config) as tier:
        with output.progress("reading manifests") as progress:
            survey = await survey_tier(tier, progress)
        # Read the metadata after the listing: it then has every listed segment, even a new one.
        metadata = await stated_metadata(config, parsed)
    listed = list_contents(survey, None if metadata is None else metadata.remote_logs)
    findings = [*survey.findings, *(() if metadata is None else metadata.findings)]
    if parsed.topic is not None:
        listed = [
            partition for partition in listed if partition.topic_id_partition.topic == parsed.topic
        ]
        if not listed:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The tier holds no topic {parsed.topic}."
            )
    if not listed:
        output.line(f"The tier {config.remote_storage} holds no segment.")
    else:
        for line in _partition_lines(listed):
            output.line(line)
    if parsed.segments and listed:
        for line in _segment_lines(listed):
            output.line(line)
    for finding in findings:
        output.finding(finding)
    foreign = len(survey.listing.foreign)
    if foreign:
        objects = counted(foreign, "object", "was", "were")
        output.line(f"{objects} not written by tierlog and left alone")
    output.result(
        {
            "tier": str(config.remote_storage),
            "partitions": [partition.fields() for partition in listed],
            "findings": [finding_fields(each) for each in findings],
            "foreign_objects": foreign,
        }
    )
    return TROUBLE if any(each.is_trouble for each in findings) else SOUND


def _partition_lines(listed: list[ListedPartition]) -> list[str]:
    head = ["partition", "segments", "from", "to", "size", "states"]
    return table(
        head,
        [
            [
                str(partition.topic_id_partition.topic_partition),
                str(len(partition.segments)),
                str(partition.start_offset),
                "?" if partition.end_offset is None else str(partition.end_offset),
                human_bytes(partition.nbytes),
                partition.states,
            ]
            for partition in listed
        ],
    )


def _segment_lines(listed: list[ListedPartition]) -> list[str]:
    head = ["segment", "from", "to", "epochs", "size", "state"]
    return [
        "",
        *table(
            head,
            [
                [
                    f"{partition.topic_id_partition.topic_partition} {segment.segment_id}",
                    str(segment.start_offset),
                    "?" if segment.end_offset is None else str(segment.end_offset),
                    " ".join(f"e{epoch}@{start}" for epoch, start in segment.leader_epochs),
                    human_bytes(segment.nbytes),
                    segment.state,
                ]
                for partition in listed
                for segment in partition.segments
            ],
        ),
    ]
