"""`tierlog group`: lists, describes, moves and deletes groups."""

import argparse
from collections.abc import Collection, Mapping, Sequence

from ...clients.admin import Admin
from ...clients.errors import ErrorCode, KafkaError
from ...clients.group_admin import GroupAdmin, GroupDescription, GroupMemberDescription
from ...clients.offset_names import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...clients.text_table import counted
from ...clients.topic_partition import TopicPartition
from .client_session import Session, run_command
from .connection_arguments import EXIT_CODES, add_connection, add_verbs
from .positions import parse_place, places_of
from .topic import partitions_of_topic

_EXAMPLES = f"""\
examples:
  tierlog group ls
  tierlog group describe billing
  tierlog group seek billing --to start                 every partition that it committed
  tierlog group seek billing --to @-1h --topic orders   and topics that it never read
  tierlog group delete billing

A group is moved while it has no members. Places (--to) are those of `tierlog consume -o`.

{EXIT_CODES}"""

_HEAD = ("topic", "partition", "committed", "start", "end", "lag", "member")
_HELP = {
    "ls": "list the groups",
    "describe": "show groups: members, committed offsets, lag",
    "seek": "move the committed offsets of a group without members",
    "delete": "delete groups without members, and their committed offsets",
}


def add_group_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `tierlog group`."""
    for name, verb in add_verbs(parser, "group_command", _EXAMPLES, _HELP):
        if name == "ls":
            verb.add_argument("--names", action="store_true", help="print only the names")
        elif name == "seek":
            verb.add_argument("group", metavar="GROUP")
            verb.add_argument(
                "--to", metavar="PLACE", required=True, help="start, end, an offset, +N, -N, @TIME"
            )
            verb.add_argument(
                "--topic",
                metavar="TOPIC",
                action="append",
                help="all partitions of this topic; can be repeated (default: those committed)",
            )
        else:
            verb.add_argument("names", metavar="GROUP", nargs="+")
        add_connection(verb)


def run_group_command(parsed: argparse.Namespace) -> int:
    """Run one of the commands; returns the exit code."""
    return run_command(_COMMANDS[parsed.group_command], parsed)


async def _list(parsed: argparse.Namespace, session: Session) -> None:
    async with session.admin() as admin:
        groups = await GroupAdmin(admin).list_groups()
    session.result(
        [
            {
                "group": group.group_id,
                "state": group.group_state,
                "type": group.group_type.lower(),
                "protocol_type": group.protocol_type,
            }
            for group in groups
        ]
    )
    if parsed.names:
        for group in groups:
            session.line(group.group_id)
        return
    session.table(
        ["group", "state", "type"],
        [[group.group_id, group.group_state, group.group_type.lower()] for group in groups],
    )


async def _describe(parsed: argparse.Namespace, session: Session) -> None:
    async def describe(name: str) -> dict[str, object]:
        group = await _describe_group(groups, name)
        committed = await groups.committed(name)
        assigned = {partition for member in group.members for partition in member.partitions}
        bounds = await _bounds(admin, {*committed, *assigned})
        rows = _rows(group, committed, bounds)
        lag = sum(each for row in rows if isinstance(each := row["lag"], int))
        session.line(
            f"{name}: {group.state}, type {group.type}, "
            f"{counted(len(group.members), 'member')}, lag {lag}"
        )
        session.table(_HEAD, [[_cell(row[key]) for key in _HEAD] for row in rows])
        return {**_fields(group), "lag": lag, "offsets": rows}

    async with session.admin() as admin:
        groups = GroupAdmin(admin)
        session.result(await session.each(parsed.names, describe))


async def _describe_group(groups: GroupAdmin, name: str) -> GroupDescription:
    """The group. Raises `KafkaError`, also for a group of a type that has no such description."""
    try:
        return await groups.describe(name)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        for listed in await groups.list_groups():
            if listed.group_id == name:
                raise KafkaError(
                    ErrorCode.INVALID_GROUP_ID,
                    f"The group {name} is of type {listed.group_type.lower()}: only classic and "
                    "consumer groups have members and offsets that are shown here.",
                ) from error
        raise


async def _bounds(
    admin: Admin, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Start and end of those partitions that exist and have a leader."""
    topics = await admin.list_topics(include_internal=True)
    there = [
        partition
        for partition in sorted(partitions)
        if partition.topic in topics
        and partition.partition in topics[partition.topic].partitions
        and topics[partition.topic].partitions[partition.partition].leader_id >= 0
    ]
    starts = await admin.list_offsets(dict.fromkeys(there, EARLIEST_TIMESTAMP))
    ends = await admin.list_offsets(dict.fromkeys(there, LATEST_TIMESTAMP))
    return {partition: (starts[partition].offset, ends[partition].offset) for partition in there}


def _rows(
    group: GroupDescription,
    committed: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, tuple[int, int]],
) -> list[dict[str, object]]:
    owners = {partition: member for member in group.members for partition in member.partitions}
    return [
        _row(partition, committed.get(partition), bounds.get(partition), owners.get(partition))
        for partition in sorted({*committed, *owners})
    ]


def _fields(group: GroupDescription) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol": group.protocol,
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [
                    {"topic": partition.topic, "partition": partition.partition}
                    for partition in sorted(member.partitions)
                ],
            }
            for member in group.members
        ],
    }


def _row(
    partition: TopicPartition,
    committed: int | None,
    bounds: tuple[int, int] | None,
    owner: GroupMemberDescription | None,
) -> dict[str, object]:
    start, end = bounds or (None, None)
    lag = None if committed is None or end is None else max(0, end - committed)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed": committed,
        "start": start,
        "end": end,
        "lag": lag,
        "member": None if owner is None else owner.member_id,
    }


def _cell(value: object) -> str:
    return "none" if value is None else str(value)


async def _seek(parsed: argparse.Namespace, session: Session) -> None:
    place = parse_place(parsed.to)
    async with session.admin() as admin:
        groups = GroupAdmin(admin)
        await _refuse_members(groups, parsed.group, may_be_new=bool(parsed.topic))
        before = await groups.committed(parsed.group)
        partitions = await _choose(admin, parsed.topic, before)
        if not partitions:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The group {parsed.group} has committed nothing: name topics with --topic.",
            )
        offsets = await places_of(admin, partitions, place)
        await groups.commit(parsed.group, offsets)
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "before": before.get(partition),
            "committed": offset,
        }
        for partition, offset in sorted(offsets.items())
    ]
    session.result({"group": parsed.group, "offsets": rows})
    session.table(
        ["topic", "partition", "before", "committed"],
        [[_cell(value) for value in row.values()] for row in rows],
    )


async def _refuse_members(groups: GroupAdmin, name: str, *, may_be_new: bool) -> None:
    """Raise `KafkaError` for a group that has members, or that does not exist."""
    try:
        group = await _describe_group(groups, name)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND and may_be_new:
            return
        raise
    if group.members:
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"The group {name} has {counted(len(group.members), 'member')}: stop"
            f" {'it' if len(group.members) == 1 else 'them'} first.",
        )


async def _choose(
    admin: Admin, topics: Sequence[str] | None, committed: Collection[TopicPartition]
) -> list[TopicPartition]:
    if topics is None:
        return list(await _bounds(admin, committed))
    return [
        partition for topic in topics for partition in await partitions_of_topic(admin, topic, None)
    ]


async def _delete(parsed: argparse.Namespace, session: Session) -> None:
    async def delete(name: str) -> dict[str, object]:
        await groups.delete(name)
        session.line(f"{name} deleted")
        return {"group": name, "deleted": True}

    async with session.admin() as admin:
        groups = GroupAdmin(admin)
        session.result(await session.each(parsed.names, delete))


_COMMANDS = {"ls": _list, "describe": _describe, "seek": _seek, "delete": _delete}
