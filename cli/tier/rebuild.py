"""`tierlog tier rebuild`: restores a broker's data directories from the tier alone.

What can be read is restored, topic by topic. The exit code is 0 if that is everything, 1 if
something was left out or lost, which is named, and 2 if nothing could be tried.
"""

import argparse

from ...broker.config.config import BrokerConfig
from ...broker.config.topic_defaults import TopicDefaults
from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ...clients.runtime.environment import SystemEnvironment
from ...clients.text_table import table
from ...storage.files import OsFiles
from ...tiering.tier_owner import Owner, read_owner
from ...tiering.tools.plan_rebuild import RebuildPlan, plan_rebuild
from ...tiering.tools.rebuild_plan import LeftTopic, PlannedTopic
from ...tiering.tools.terminal import SOUND, TROUBLE, Output, finding_fields, human_bytes
from ...tiering.tools.tier_survey import survey_tier
from .access import open_tier
from .owner import take_over
from .rebuilt_directory import RebuiltDirectory

REBUILD_HELP = (
    "restore the data directories of a broker that lost its disk, from the tier alone",
    """\
  tierlog tier rebuild --config server.properties --dry-run
  tierlog tier rebuild --config server.properties --take-over
  tierlog serve --config server.properties
""",
)


_REASONS_SHOWN = 5


def add_rebuild_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tier rebuild`."""
    parser.add_argument("--dry-run", action="store_true", help="show the plan, write nothing")
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="make the rebuilt broker the owner of the tier, if the old owner will not return",
    )
    parser.add_argument(
        "--topic-id",
        metavar="ID",
        action="append",
        default=[],
        help="if several topics have the same name, restore the one with this id; can be repeated",
    )
    parser.add_argument(
        "--skip-holes",
        action="store_true",
        help=(
            "if segments are missing in the middle of a partition, start after the last hole; "
            "else its topic is left out"
        ),
    )


async def rebuild_from_tier(
    config: BrokerConfig, parsed: argparse.Namespace, output: Output
) -> int:
    """Plan the rebuild, then write it unless this is a dry run; returns the exit code."""
    directory = RebuiltDirectory(config, OsFiles(), SystemEnvironment())
    if not parsed.dry_run:
        # Fail here, not after reading manifests for a minute.
        directory.check()
    async with open_tier(config) as tier:
        with output.progress("reading manifests") as progress:
            survey = await survey_tier(tier, progress)
        plan = await plan_rebuild(
            tier,
            survey,
            skip_holes=parsed.skip_holes,
            chosen=_chosen_topics(parsed),
            defaults=TopicDefaults(config.values).log_config(),
        )
        if not (plan.topics or plan.left):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"The tier {config.remote_storage} has no complete segment: nothing to rebuild.",
            )
        is_written = bool(plan.topics) and not parsed.dry_run
        if is_written:
            directory.write(plan)
            if parsed.take_over:
                await take_over(config, tier)
        owner = await read_owner(tier)
    _print_plan(plan, output)
    _print_next_steps(
        config, plan, output, owner=None if parsed.take_over else owner, is_written=is_written
    )
    output.result(
        {
            "tier": str(config.remote_storage),
            "log_dirs": list(config.log_dirs),
            "written": is_written,
            "topics": [_fields(topic) for topic in plan.topics],
            "left_out": [
                {
                    "topic": topic.name,
                    "topic_id": uuid_to_string(topic.topic_id),
                    "reasons": list(topic.reasons),
                }
                for topic in plan.left
            ],
            "findings": [finding_fields(finding) for finding in plan.findings],
        }
    )
    return TROUBLE if plan.has_trouble else SOUND


def _print_plan(plan: RebuildPlan, output: Output) -> None:
    """Print the plan, and what is not in it."""
    for line in _topic_lines(plan) if plan.topics else ():
        output.line(line)
    for finding in plan.findings:
        output.finding(finding)
    for left in plan.left:
        output.line(f"{left.name} {uuid_to_string(left.topic_id)} is left out: {_why(left)}")


def _print_next_steps(
    config: BrokerConfig,
    plan: RebuildPlan,
    output: Output,
    *,
    owner: Owner | None,
    is_written: bool,
) -> None:
    """Print what was done and what is to be done; `owner` is another owner of the tier."""
    if not is_written:
        why = "this was a dry run" if plan.topics else "no topic can be restored, see above"
        output.line(f"nothing was written: {why}")
        return
    output.line(f"{', '.join(config.log_dirs)} is ready: start the broker on it")
    if owner is not None:
        output.line(
            f"the tier belongs to {owner}: until you run `tierlog tier owner --take-over`, "
            "the rebuilt broker reads from the tier but copies and removes nothing there"
        )
    if plan.left:
        output.line(
            "to have what is left out as well, follow the advice above and run the rebuild again, "
            "on empty directories, before any broker starts on these"
        )


def _why(left: LeftTopic) -> str:
    """The reasons in a line that stays readable for a topic of many partitions."""
    shown, more = left.reasons[:_REASONS_SHOWN], len(left.reasons) - _REASONS_SHOWN
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _chosen_topics(parsed: argparse.Namespace) -> set[Uuid]:
    try:
        return {uuid_from_string(each) for each in parsed.topic_id}
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--topic-id: {error}.") from error


def _topic_lines(plan: RebuildPlan) -> list[str]:
    head = ["topic", "partitions", "log end offsets", "size", "configuration"]
    return table(
        head,
        [
            [
                topic.name,
                str(topic.partition_count),
                " ".join(
                    f"p{number}:{partition.lineage.log_end_offset}"
                    for number, partition in sorted(topic.partitions.items())
                ),
                human_bytes(topic.nbytes),
                " ".join(f"{name}={value}" for name, value in sorted(topic.config.items())),
            ]
            for topic in plan.topics
        ],
    )


def _fields(topic: PlannedTopic) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": uuid_to_string(topic.topic_id),
        "partitions": [
            {
                "partition": number,
                "log_start_offset": partition.lineage.log_start_offset,
                "log_end_offset": partition.lineage.log_end_offset,
                "segments": len(partition.lineage.segments),
                "left_out": len(partition.lineage.left_out),
            }
            for number, partition in sorted(topic.partitions.items())
        ],
        "partition_count": topic.partition_count,
        "bytes": topic.nbytes,
        "config": dict(topic.config),
        "config_is_known": topic.is_config_known,
    }
