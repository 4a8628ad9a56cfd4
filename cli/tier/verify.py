"""`tierlog tier verify` reads a whole tier and says what is wrong; `repair` mends what it can."""

import argparse

from ...broker.config.config import BrokerConfig
from ...clients.errors import ErrorCode, KafkaError
from ...clients.text_table import counted
from ...tiering.tools.segment_repair import Repair, plan_repairs
from ...tiering.tools.terminal import SOUND, TROUBLE, Output, finding_fields, human_bytes
from ...tiering.tools.tier_check import check_segments, check_survey
from ...tiering.tools.tier_survey import Survey, TierReader, survey_tier
from .access import StatedMetadata, open_tier
from .ls import add_metadata_arguments, stated_metadata

VERIFY_HELP = (
    "check a whole tier: objects, checksums, records, offsets, epochs, indexes, metadata",
    """\
  tierlog tier verify --config server.properties --bootstrap 127.0.0.1:9092
  tierlog tier verify orders --config server.properties
  tierlog tier verify --quick --json --config server.properties
""",
)


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tier verify`."""
    parser.add_argument("topic", nargs="?", help="only this topic")
    parser.add_argument(
        "--quick", action="store_true", help="sizes and manifests only: do not read the records"
    )
    add_metadata_arguments(parser, required=False)


async def _survey_and_metadata(
    config: BrokerConfig, parsed: argparse.Namespace, tier: TierReader, output: Output
) -> tuple[Survey, StatedMetadata | None]:
    """What the tier holds, and its metadata if --bootstrap or --offline is given; of one topic if
    one is named."""
    with output.progress("reading manifests") as progress:
        survey = await survey_tier(tier, progress)
    metadata = await stated_metadata(config, parsed)
    if parsed.topic is None:
        return survey, metadata
    return survey.only({parsed.topic}), None if metadata is None else metadata.only(parsed.topic)


async def verify_tier(config: BrokerConfig, parsed: argparse.Namespace, output: Output) -> int:
    """Check the tier and print each finding; returns the exit code."""
    async with open_tier(config) as tier:
        survey, metadata = await _survey_and_metadata(config, parsed, tier, output)
        findings = list(() if metadata is None else metadata.findings)
        findings += await check_survey(
            tier, survey, None if metadata is None else metadata.remote_logs
        )
        if not parsed.quick:
            with output.progress("reading segments") as progress:
                findings += await check_segments(tier, survey, progress)
    if not survey.listing.segments and not findings:
        # An empty tier is not reported as sound: a wrong URL looks the same.
        what = "no segment" if parsed.topic is None else f"no topic {parsed.topic}"
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"The tier {config.remote_storage} holds {what}: there is nothing to verify.",
        )
    for finding in findings:
        output.finding(finding)
    trouble = sum(each.is_trouble for each in findings)
    nbytes = sum(
        part.size for manifest in survey.manifests.values() for part in manifest.parts.values()
    )
    segments = len(survey.manifests)
    output.line(
        f"{counted(segments, 'segment')} of {counted(len(survey.partitions()), 'partition')},"
        f" {human_bytes(nbytes)}: " + (_need_attention(trouble) if trouble else "sound")
    )
    output.result(
        {
            "tier": str(config.remote_storage),
            "sound": not trouble,
            "segments": segments,
            "bytes": nbytes,
            "findings": [finding_fields(each) for each in findings],
        }
    )
    return TROUBLE if trouble else SOUND


def _need_attention(findings: int) -> str:
    return f"{counted(findings, 'finding', 'needs', 'need')} attention"


REPAIR_HELP = (
    "rewrite lost or damaged indexes, snapshots and manifests of a tier",
    """\
  tierlog tier repair --config server.properties
  tierlog tier repair --config server.properties --bootstrap 127.0.0.1:9092 --write
""",
)


def add_repair_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tier repair`."""
    parser.add_argument("topic", nargs="?", help="only this topic")
    add_metadata_arguments(parser, required=False)
    parser.add_argument(
        "--write", action="store_true", help="write the objects; without it, only show them"
    )


async def repair_tier(config: BrokerConfig, parsed: argparse.Namespace, output: Output) -> int:
    """Show what can be rewritten, and write it if --write is given; returns the exit code."""
    async with open_tier(config) as tier:
        survey, metadata = await _survey_and_metadata(config, parsed, tier, output)
        remote_logs = None if metadata is None else metadata.remote_logs
        plan = await plan_repairs(tier, survey, remote_logs)
        for repair in plan.repairs:
            for key, content in repair.objects:
                if parsed.write:
                    await tier.write_bytes(key, content)
                done = "rewritten" if parsed.write else "can be rewritten"
                output.line(f"{key}: {done}, {human_bytes(len(content))}")
    for finding in plan.findings:
        output.finding(finding)
    if plan.repairs and not parsed.write:
        output.line("nothing was written: use --write")
    elif not plan.repairs and not plan.findings:
        output.line("nothing to repair; `tierlog tier verify` checks the records, too")
    output.result(
        {
            "tier": str(config.remote_storage),
            "written": parsed.write,
            "objects": [_fields(each, key) for each in plan.repairs for key, _ in each.objects],
            "findings": [finding_fields(each) for each in plan.findings],
        }
    )
    is_repaired = parsed.write or not plan.repairs
    return SOUND if is_repaired and not plan.findings else TROUBLE


def _fields(repair: Repair, key: str) -> dict[str, object]:
    return {
        "key": key,
        "offsets": [repair.metadata.start_offset, repair.metadata.end_offset],
        "bytes": len(dict(repair.objects)[key]),
    }
