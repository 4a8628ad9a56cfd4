"""`tierlog tier scrub`: finds the objects that no segment refers to, and removes them."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...broker.config.config import BrokerConfig
from ...clients.admin import Admin
from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.environment import SystemEnvironment
from ...clients.text_table import counted
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_log import RemoteLog
from ...tiering.metadata.skipped_events import SkippedEvents
from ...tiering.tools.orphans import Orphan
from ...tiering.tools.scrubber import Scrubber
from ...tiering.tools.terminal import SOUND, TROUBLE, Output, finding_fields, human_bytes
from .access import open_tier
from .ls import add_metadata_arguments, stated_metadata
from .owner import check_may_scrub, stored_meta

if TYPE_CHECKING:
    from ...tiering.tools.tier_survey import Finding

SCRUB_HELP = (
    "find objects in a tier that belong to no segment, and remove them",
    """\
  tierlog tier scrub --config server.properties --bootstrap 127.0.0.1:9092
  tierlog tier scrub --config server.properties --bootstrap 127.0.0.1:9092 --delete
  tierlog tier scrub --config server.properties --offline --grace 1d --json
""",
)

_DAMAGED = "left alone: metadata that could not be read may refer to them"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def add_scrub_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tier scrub`."""
    add_metadata_arguments(parser, required=True)
    parser.add_argument(
        "--grace",
        metavar="TIME",
        default="1h",
        help="remove nothing younger than this: 30m, 1h, 2d (default: 1h)",
    )
    parser.add_argument(
        "--unknown-partitions",
        action="store_true",
        help="also remove objects of partitions that are not in the metadata, such as those that a "
        "rebuild leaves out; never use it where two clusters share a tier",
    )
    parser.add_argument(
        "--unknown-segments",
        action="store_true",
        help="also remove complete segments that are not in the metadata, which a rebuild would "
        "restore; never use it where the metadata may have been lost",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--dry-run", action="store_true", help="remove nothing (the default)")
    group.add_argument("--delete", action="store_true", help="remove what is older than --grace")


def milliseconds(text: str) -> int:
    """The milliseconds of a time such as 1h or 30m. Raises KafkaError(INVALID_CONFIG)."""
    match = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text.strip())
    if match is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--grace {text} is not a time such as 30m, 1h or 2d."
        )
    return int(match[1]) * _UNITS_MS[match[2]]


async def scrub_tier(config: BrokerConfig, parsed: argparse.Namespace, output: Output) -> int:
    """Find orphans, and with --delete remove them; returns the exit code."""
    skipped = SkippedEvents()
    unread: Sequence[Finding] = ()

    async def metadata() -> Mapping[TopicIdPartition, RemoteLog]:
        nonlocal unread
        stated = await stated_metadata(config, parsed, skipped)
        assert stated is not None, "The parser requires one of the sources."
        unread = stated.findings
        return stated.remote_logs

    async with open_tier(config) as tier:
        scrubber = Scrubber(
            tier,
            metadata,
            SystemEnvironment().wall_clock_ms,
            milliseconds(parsed.grace),
            unknown_partitions=parsed.unknown_partitions,
            unknown_segments=parsed.unknown_segments,
        )
        look = await scrubber.look()
        # The second look: the same listing, and the metadata read once more.
        ripe = (await scrubber.look_again(look.listing)).ripe
        is_damaged = any(each.is_trouble for each in unread)
        if is_damaged:
            ripe = []
        if parsed.delete:
            await check_may_scrub(config, tier, await _cluster_of(config, parsed))
        removed = await scrubber.remove(ripe) if parsed.delete else 0
    for finding in unread:
        output.finding(finding)
    for orphan in look.orphans:
        fate = _DAMAGED if is_damaged else _outcome_text(orphan, ripe, parsed)
        output.line(
            f"{orphan.segment.stem}: {counted(len(orphan.objects), 'object')}, "
            f"{human_bytes(orphan.nbytes)}, {orphan.reason}; {fate}"
        )
    if not look.orphans:
        output.line("no orphans")
    output.result(
        {
            "tier": str(config.remote_storage),
            "objects": sum(len(segment.objects) for segment in look.listing.segments.values()),
            "foreign_objects": len(look.listing.foreign),
            "orphans": [_fields(each, ripe, deleted=parsed.delete) for each in look.orphans],
            "removed_objects": removed,
            "findings": [finding_fields(each) for each in unread],
        }
    )
    is_clean = len(look.orphans) == (len(ripe) if parsed.delete else 0)
    return SOUND if is_clean and not is_damaged else TROUBLE


async def _cluster_of(config: BrokerConfig, parsed: argparse.Namespace) -> str:
    """The id of the cluster whose metadata is read. Raises KafkaError, LogDirError."""
    if parsed.bootstrap:
        async with Admin(parsed.bootstrap, environment=SystemEnvironment()) as admin:
            await admin.list_topics()
            return admin.cluster_id
    meta = stored_meta(config)
    return "" if meta is None else meta.cluster_id


def _outcome_text(orphan: Orphan, ripe: list[Orphan], parsed: argparse.Namespace) -> str:
    if any(each.id == orphan.id for each in ripe):
        return "removed" if parsed.delete else "--delete removes them"
    if not orphan.is_of_known_partition:
        return "left alone: they may belong to another cluster (see --unknown-partitions)"
    if orphan.is_whole and not parsed.unknown_segments:
        return (
            "left alone: if the metadata was lost, `tierlog tier rebuild` restores its records "
            "(see --unknown-segments)"
        )
    return "too young to be removed yet"


def _fields(orphan: Orphan, ripe: list[Orphan], *, deleted: bool) -> dict[str, object]:
    is_ripe = any(each.id == orphan.id for each in ripe)
    return {
        "stem": orphan.segment.stem,
        "keys": [tier_object.key for tier_object in orphan.objects],
        "bytes": orphan.nbytes,
        "reason": orphan.reason,
        "known_partition": orphan.is_of_known_partition,
        "removable": is_ripe,
        "removed": is_ripe and deleted,
    }
