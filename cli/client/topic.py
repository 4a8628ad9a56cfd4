"""`tierlog topic`: lists, creates, describes, alters, deletes and trims topics."""

import argparse
from collections.abc import Mapping, Sequence
from typing import cast

from ...clients.admin import Admin, ConfigResourceType, ConfigSource, NewTopic
from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import uuid_to_string
from ...clients.network.metadata import TopicMetadata
from ...clients.network.offset_lookup import OffsetAndTimestamp
from ...clients.offset_names import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...clients.properties import shown_pair
from ...clients.text_table import counted
from ...clients.topic_partition import TopicPartition
from .address import UsageError
from .client_session import Session, run_command
from .connection_arguments import EXIT_CODES, add_connection, add_verbs
from .positions import Place, parse_place, places_of
from .sendable import INT16_MAX, INT32_MAX, whole_number

_EXAMPLES = f"""\
examples:
  tierlog topic create orders -p 6 -c retention.ms=86400000
  tierlog topic ls
  tierlog topic describe orders --json
  tierlog topic alter orders -p 12 -c retention.ms=3600000 -d segment.bytes
  tierlog topic trim orders -o @-1h              deletes what is older than an hour
  tierlog topic storage orders                   what is on the disk, and what in the tier
  tierlog topic delete orders

{EXIT_CODES}"""

_HELP = {
    "ls": "list the topics",
    "create": "create topics",
    "describe": "show topics: partitions, leaders, offsets, configs that are set",
    "alter": "add partitions to topics, set or remove their configs",
    "delete": "delete topics and all their records",
    "trim": "delete the records of topics below an offset or a time",
    "storage": "show what of each partition is on disk and in the remote tier",
}


def add_topic_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `tierlog topic`."""
    for name, verb in add_verbs(parser, "topic_command", _EXAMPLES, _HELP):
        if name != "ls":
            verb.add_argument("names", metavar="TOPIC", nargs="+")
        _add_options(name, verb)
        add_connection(verb)


def _add_options(name: str, each: argparse.ArgumentParser) -> None:
    if name == "ls":
        each.add_argument("--internal", action="store_true", help="list internal topics, too")
        each.add_argument("--names", action="store_true", help="print only the names")
    if name == "create":
        partitions, replicas = whole_number(INT32_MAX), whole_number(INT16_MAX)
        each.add_argument("-p", "--partitions", metavar="N", type=partitions, default=-1)
        each.add_argument("-r", "--replicas", metavar="N", type=replicas, default=-1)
        each.add_argument(
            "--if-not-exists", action="store_true", help="do nothing if the topic exists"
        )
    if name in ("create", "alter"):
        each.add_argument(
            *("-c", "--config"),
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="a config of the topic; can be repeated",
        )
    if name == "alter":
        each.add_argument(
            *("-p", "--partitions"),
            metavar="N",
            type=whole_number(INT32_MAX),
            help="the new total number",
        )
        each.add_argument(
            *("-d", "--delete-config"),
            metavar="NAME",
            action="append",
            default=[],
            help="a config that returns to its default; can be repeated",
        )
    if name == "trim":
        each.add_argument(
            *("-o", "--offset"),
            metavar="PLACE",
            required=True,
            help="the first record to keep: an offset, end, +N, -N, @TIME or @-1h",
        )
        each.add_argument(
            "-p", "--partition", metavar="N", type=int, action="append", help="only this partition"
        )


def run_topic_command(parsed: argparse.Namespace) -> int:
    """Run one of the commands; returns the exit code."""
    if parsed.topic_command == "storage":
        from .storage import show_storage

        return run_command(show_storage, parsed)
    return run_command(_COMMANDS[parsed.topic_command], parsed)


async def _list(parsed: argparse.Namespace, session: Session) -> None:
    async with session.admin() as admin:
        topics = await admin.list_topics(include_internal=parsed.internal)
    listed = sorted(topics.items())
    session.result([_summary(name, topic) for name, topic in listed])
    if parsed.names:
        for name, _ in listed:
            session.line(name)
        return
    session.table(
        ["topic", "partitions", "replicas"],
        [[name, str(len(topic.partitions)), str(_factor(topic))] for name, topic in listed],
    )


def _summary(name: str, topic: TopicMetadata) -> dict[str, object]:
    return {
        "name": name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": _factor(topic),
    }


def _factor(topic: TopicMetadata) -> int:
    return max((len(partition.replica_nodes) for partition in topic.partitions.values()), default=0)


async def _create(parsed: argparse.Namespace, session: Session) -> None:
    configs = config_pairs(parsed.config)

    async def create(name: str) -> dict[str, object]:
        new = NewTopic(name, parsed.partitions, parsed.replicas, configs)
        try:
            ids = await admin.create_topics([new])
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and parsed.if_not_exists:
                session.line(f"{name} was there")
                return {"name": name, "created": False}
            raise
        session.line(f"{name} created")
        return {"name": name, "created": True, "id": uuid_to_string(ids[name])}

    async with session.admin() as admin:
        session.result(await session.each(parsed.names, create))


def config_pairs(words: Sequence[str]) -> dict[str, str]:
    """The configs in words such as `retention.ms=1000`. Raises UsageError."""
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"The config {shown_pair(word)} is not of the form name=value.")
        pairs[name.strip()] = value.strip()
    return pairs


async def _describe(parsed: argparse.Namespace, session: Session) -> None:
    async def describe(name: str) -> dict[str, object]:
        (topic,) = (await admin.describe_topics([name])).values()
        led = [
            TopicPartition(name, number)
            for number, partition in topic.partitions.items()
            if partition.leader_id >= 0
        ]
        starts = await admin.list_offsets(dict.fromkeys(led, EARLIEST_TIMESTAMP))
        ends = await admin.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP))
        entries = await admin.config_entries(ConfigResourceType.TOPIC, name)
        configs = {
            entry.name: entry.value
            for entry in sorted(entries)
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
        partitions = [
            {
                "partition": number,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replica_nodes),
                "isr": list(partition.isr_nodes),
                "start": _offset(starts, TopicPartition(name, number)),
                "end": _offset(ends, TopicPartition(name, number)),
            }
            for number, partition in sorted(topic.partitions.items())
        ]
        _print_description(session, name, configs, partitions)
        return {
            **_summary(name, topic),
            "id": uuid_to_string(topic.topic_id),
            "configs": configs,
            "partitions": partitions,
        }

    async with session.admin() as admin:
        session.result(await session.each(parsed.names, describe))


def _offset(
    answers: Mapping[TopicPartition, OffsetAndTimestamp], partition: TopicPartition
) -> int | None:
    answer = answers.get(partition)
    return None if answer is None else answer.offset


def _print_description(
    session: Session,
    name: str,
    configs: Mapping[str, str | None],
    partitions: Sequence[Mapping[str, object]],
) -> None:
    session.line(f"{name}: {counted(len(partitions), 'partition')}")
    for key, value in configs.items():
        session.line(f"  {key}={'(hidden)' if value is None else value}")
    head = ["partition", "leader", "replicas", "in sync", "start", "end"]
    session.table(
        head,
        [
            [
                _cell(partition[key])
                for key in ("partition", "leader", "replicas", "isr", "start", "end")
            ]
            for partition in partitions
        ],
    )


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, cast("list[object]", value)))
    return "none" if value in (None, -1) else str(value)


async def _alter(parsed: argparse.Namespace, session: Session) -> None:
    changes: dict[str, str | None] = {**config_pairs(parsed.config)}
    changes |= dict.fromkeys(parsed.delete_config)
    if not changes and parsed.partitions is None:
        raise UsageError("Nothing is to be altered: name partitions (-p) or configs (-c, -d).")

    async def alter(name: str) -> dict[str, object]:
        try:
            if changes:
                await admin.alter_configs(ConfigResourceType.TOPIC, name, changes)
            if parsed.partitions is not None:
                await admin.create_partitions({name: parsed.partitions})
        except KafkaError as error:
            raise absent_topic(error, name) from error
        session.line(f"{name} altered")
        return {"name": name, "altered": True}

    async with session.admin() as admin:
        session.result(await session.each(parsed.names, alter))


async def _delete(parsed: argparse.Namespace, session: Session) -> None:
    async def delete(name: str) -> dict[str, object]:
        try:
            await admin.delete_topics([name])
        except KafkaError as error:
            raise absent_topic(error, name) from error
        session.line(f"{name} deleted")
        return {"name": name, "deleted": True}

    async with session.admin() as admin:
        session.result(await session.each(parsed.names, delete))


def absent_topic(error: KafkaError, name: str) -> KafkaError:
    """The error, with a message that names the topic if there is no such topic."""
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return KafkaError(error.code, f"There is no topic {name}.")
    return error


async def _trim(parsed: argparse.Namespace, session: Session) -> None:
    place = parse_place(parsed.offset)

    async def trim(name: str) -> dict[str, object]:
        starts = await _trim_topic(admin, name, parsed.partition, place)
        rows = [
            {"partition": partition.partition, "start": start}
            for partition, start in sorted(starts.items())
        ]
        for row in rows:
            session.line(f"{name}-{row['partition']} starts at {row['start']}")
        return {"name": name, "partitions": rows}

    async with session.admin() as admin:
        session.result(await session.each(parsed.names, trim))


async def _trim_topic(
    admin: Admin, name: str, numbers: Sequence[int] | None, place: Place
) -> dict[TopicPartition, int]:
    partitions = await partitions_of_topic(admin, name, numbers)
    if place.offset is not None:
        # As it stands: beyond the end the broker refuses it.
        return await admin.delete_records(dict.fromkeys(partitions, place.offset))
    return await admin.delete_records(await places_of(admin, partitions, place))


async def partitions_of_topic(
    admin: Admin, name: str, numbers: Sequence[int] | None
) -> list[TopicPartition]:
    """The partitions of a topic, or those of them with these numbers. Raises `KafkaError`."""
    (topic,) = (await admin.describe_topics([name])).values()
    chosen = sorted(topic.partitions) if numbers is None else sorted(set(numbers))
    for number in chosen:
        if number not in topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{name} has no partition {number}: it has {len(topic.partitions)}, from 0 on.",
            )
    return [TopicPartition(name, number) for number in chosen]


_COMMANDS = {
    "ls": _list,
    "create": _create,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
    "trim": _trim,
}
