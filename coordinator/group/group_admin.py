"""Administration of groups: list and describe them, delete them and their offsets.

These functions do not change the shard: a deletion is returned as tombstones, which the coordinator
writes. A group is deleted only while it has no members. For a group with members, offsets can be
deleted only for topics that no member subscribes to, and only if its protocol type is `consumer`:
the subscriptions of other types are unknown (KIP-496).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ..classic.classic_group import ClassicGroup
from ..classic.group_members import ClassicMember
from ..classic.group_state import GroupState
from ..consumer.consumer_records import consumer_record
from ..group_actions import CONSUMER_PROTOCOL_TYPE
from ..group_records import OffsetKey
from .group_shard import Forgotten, GroupShard, with_tombstones
from .offset_expiry import subscribed_topics

CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"
"""The values of GroupType."""


class GroupOverview(NamedTuple):
    """A group as ListGroups returns it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class MemberDescription(NamedTuple):
    """A member; metadata and assignment are empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    """A group; the protocol is empty unless the group is stable."""

    state: str
    protocol_type: str
    protocol_name: str
    members: Sequence[MemberDescription]


DEAD_GROUP = GroupDescription(GroupState.DEAD.value, "", "", ())
"""The description of a missing group, for versions without an error code for it."""


def list_groups(
    shard: GroupShard, states: Iterable[str], types: Iterable[str]
) -> Iterable[GroupOverview]:
    """The shard's groups whose state and type match; an empty filter matches all.

    The filters are case-insensitive.
    """
    wanted_states = {state.lower() for state in states}
    wanted_types = {each.lower() for each in types}
    for group in _overviews(shard):
        if wanted_states and group.state.lower() not in wanted_states:
            continue
        if not wanted_types or group.group_type in wanted_types:
            yield group


def _overviews(shard: GroupShard) -> Iterable[GroupOverview]:
    for group_id, group in shard.groups.items():
        protocol_type = group.protocol_type or ""
        yield GroupOverview(group_id, protocol_type, group.state.value, CLASSIC_TYPE)
    for consumers in shard.consumer_groups.all():
        state = consumers.state.value
        yield GroupOverview(consumers.group_id, CONSUMER_PROTOCOL_TYPE, state, CONSUMER_TYPE)


def describe(group: ClassicGroup) -> GroupDescription:
    """The description of a group."""
    stable = group.state is GroupState.STABLE
    name = group.protocol_name if stable else None

    def member_of(member: ClassicMember) -> MemberDescription:
        return MemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(name) if stable else b"",
            member.assignment if stable else b"",
        )

    members = [member_of(member) for member in group.members.by_id.values()]
    return GroupDescription(group.state.value, group.protocol_type or "", name or "", members)


def group_deletion(shard: GroupShard, group_id: str) -> ErrorCode | Forgotten:
    """The tombstones that delete a group, or GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
    if group_id in shard.consumer_groups:
        ends = shard.consumer_groups.deletion(group_id)
        if isinstance(ends, ErrorCode):
            return ends
        deletion = with_tombstones(shard.offset_keys(group_id), [])
        deletion.records.extend(consumer_record(each) for each in ends)
        return deletion._replace(consumer_group_ids=[group_id])
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    deletion = with_tombstones(shard.offset_keys(group_id), [group_id])
    return deletion._replace(even_if_awaited=True)


class OffsetsDeletion(NamedTuple):
    """Topics whose offsets may not be deleted, and the deletion of the other offsets.

    A topic that a member subscribes to gets GROUP_SUBSCRIBED_TO_TOPIC.
    """

    in_use: frozenset[str]
    deletion: Forgotten


def offsets_deletion(
    shard: GroupShard, group_id: str, offsets: Sequence[OffsetKey]
) -> ErrorCode | OffsetsDeletion:
    """The deletion of a group's offsets, or GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
    consumers = shard.consumer_groups.get(group_id)
    if consumers is not None:
        topics = {key.topic for key in offsets}
        return _offsets_deletion(
            shard, offsets, frozenset(topic for topic in topics if consumers.subscribes_to(topic))
        )
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    consumes = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    if group.state is not GroupState.EMPTY and not consumes:
        return ErrorCode.NON_EMPTY_GROUP
    in_use = subscribed_topics(group) if consumes else set[str]()
    if in_use is None:
        # Members with another subscription format may use any topic.
        in_use = {key.topic for key in offsets}
    return _offsets_deletion(shard, offsets, frozenset(in_use))


def _offsets_deletion(
    shard: GroupShard, offsets: Sequence[OffsetKey], in_use: frozenset[str]
) -> OffsetsDeletion:
    deletable = [key for key in offsets if key.topic not in in_use and shard.has_offset(key)]
    return OffsetsDeletion(in_use, with_tombstones(deletable, []))
