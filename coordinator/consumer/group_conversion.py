"""Converts a group online between the classic and the consumer protocol (KIP-848).

A classic group is upgraded when the first member of the consumer protocol joins. Its other members
continue with the classic protocol in the new group, and keep the last leader's assignment.
When the last member of the consumer protocol leaves, the group is downgraded to a classic group.
`group.consumer.migration.policy` allows upgrades, downgrades, both or neither.

Pure: a conversion is a list of records that delete one group and create the other. Based on Kafka's
ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup and GroupMetadataManager.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...replication.metadata.cluster_image import ClusterImage
from ..classic.classic_group import ClassicGroup
from ..classic.group_members import ClassicMember, GroupMembers
from ..group_actions import CONSUMER_PROTOCOL_TYPE, GroupSnapshot, MemberSnapshot
from ..group_records import GroupEntry
from .consumer_embedded import (
    assignment_bytes,
    read_assignment,
    read_subscription,
    version_of,
)
from .consumer_group import ConsumerGroup, ConsumerGroupMember
from .consumer_group_update import Downgrade, GroupChange, GroupContext, GroupUpdate
from .consumer_records import (
    ClassicMemberValue,
    ConsumerGroupEntry,
    CurrentAssignmentEntry,
    GroupEpochValue,
    GroupMetadataEntry,
    MemberEntry,
    MemberValue,
    TargetEpochValue,
    TargetMemberEntry,
    TargetMetadataEntry,
)
from .reconciliation import CurrentAssignment, MemberState
from .topic_partitions import NOTHING, Partitions

_UPGRADES = frozenset({"bidirectional", "upgrade"})
_DOWNGRADES = frozenset({"bidirectional", "downgrade"})


class _UpgradedMember(NamedTuple):
    """A classic member as a member of the new group."""

    member_id: str
    metadata: MemberValue
    assigned: Partitions


# Upgrade.


def upgrade(group: ClassicGroup, context: GroupContext) -> list[ConsumerGroupEntry]:
    """The records that create the consumer group in place of a classic one.

    Raises KafkaError(GROUP_ID_NOT_FOUND) if the upgrade is not allowed or not possible.
    """
    _check_upgrade(group, context)
    members = [_upgrade(group, each, context.image) for each in group.members.by_id.values()]
    group_id, epoch = group.group_id, group.generation
    topics = {name for member in members for name in member.metadata.subscribed_topic_names}
    metadata_hash = context.hashes.group_hash(topics, context.image)
    entries: list[ConsumerGroupEntry] = []
    entries += [MemberEntry(group_id, member.member_id, member.metadata) for member in members]
    entries.append(GroupMetadataEntry(group_id, GroupEpochValue(epoch, metadata_hash)))
    entries += [
        TargetMemberEntry(group_id, member.member_id, member.assigned) for member in members
    ]
    entries.append(TargetMetadataEntry(group_id, TargetEpochValue(epoch)))
    for member in members:
        current = CurrentAssignment(
            epoch, epoch, MemberState.STABLE, dict.fromkeys(member.assigned, epoch)
        )
        entries.append(CurrentAssignmentEntry(group_id, member.member_id, current))
    return entries


def _check_upgrade(group: ClassicGroup, context: GroupContext) -> None:
    if context.config.consumer_migration_policy not in _UPGRADES:
        raise _not_upgraded(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > context.config.consumer_max_size:
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size.")


def _not_upgraded(group: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}",
    )


def _upgrade(group: ClassicGroup, member: ClassicMember, image: ClusterImage) -> _UpgradedMember:
    try:
        assigned, user_data = read_assignment(member.assignment, image)
        subscription = read_subscription(member.metadata(group.protocol_name), image)
    except KafkaError as error:
        raise _not_upgraded(group, "the embedded consumer protocol is malformed.") from error
    if user_data:
        raise _not_upgraded(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade.",
        )
    metadata = MemberValue(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberValue(member.session_timeout_ms, member.protocols),
    )
    return _UpgradedMember(member.member_id, metadata, assigned)


# Downgrade.


def may_downgrade(
    group: ConsumerGroup, leaving: Collection[ConsumerGroupMember], context: GroupContext
) -> bool:
    """Whether the group can become a classic one when these members leave."""
    leaving_ids = {member.member_id for member in leaving}
    staying = [member for member in group.members.values() if member.member_id not in leaving_ids]
    return bool(staying) and _fits_classic(staying, len(staying), context)


def may_downgrade_for(
    group: ConsumerGroup, replaced: ConsumerGroupMember, context: GroupContext
) -> bool:
    """Whether the group can become a classic one when a classic member replaces this one."""
    others = [member for member in group.members.values() if member is not replaced]
    return not replaced.is_classic and _fits_classic(others, len(group.members), context)


def _fits_classic(staying: Iterable[ConsumerGroupMember], size: int, context: GroupContext) -> bool:
    allowed = context.config.consumer_migration_policy in _DOWNGRADES
    small_enough = size <= context.config.group_max_size
    return allowed and small_enough and _has_classic_protocol(staying)


def _has_classic_protocol(members: Iterable[ConsumerGroupMember]) -> bool:
    """Whether all are classic members that have at least one protocol in common."""
    common: set[str] | None = None
    for member in members:
        classic = member.metadata.classic
        if classic is None or not all(
            _has_version(protocol.metadata) for protocol in classic.protocols
        ):
            return False
        names = {protocol.name for protocol in classic.protocols}
        common = names if common is None else common & names
    return common is None or bool(common)


def _has_version(subscription: bytes) -> bool:
    try:
        version_of(subscription)
    except KafkaError:
        return False
    return True


def fence(
    group: ConsumerGroup, leaving: Collection[ConsumerGroupMember], context: GroupContext
) -> GroupChange:
    """Remove members from the group; downgrade it if only classic members remain."""
    update = GroupUpdate(group, context)
    if may_downgrade(group, leaving, context):
        leaving_ids = {member.member_id for member in leaving}
        staying = [
            member for member in group.members.values() if member.member_id not in leaving_ids
        ]
        targets = {member.member_id: _target(group, member.member_id) for member in staying}
        downgrade(update, staying, targets, rebalances=True)
    else:
        update.fence(leaving)
    return update.change()


def replace_and_downgrade(
    update: GroupUpdate,
    replaced: ConsumerGroupMember,
    joining: ConsumerGroupMember,
    rebalances: bool,
) -> None:
    """Downgrade when a classic member replaces the last member of the consumer protocol."""
    group = update.group
    staying = [member for member in group.members.values() if member is not replaced]
    targets = {member.member_id: _target(group, member.member_id) for member in staying}
    targets[joining.member_id] = _target(group, replaced.member_id)
    downgrade(update, [*staying, joining], targets, rebalances, {replaced.member_id: joining})


def downgrade(
    update: GroupUpdate,
    staying: Iterable[ConsumerGroupMember],
    targets: Mapping[str, Partitions],
    rebalances: bool,
    renamed: Mapping[str, ConsumerGroupMember] | None = None,
) -> None:
    """Delete the consumer group and create the classic one with the target assignments."""
    group, context = update.group, update.context
    members = GroupMembers()
    for each in staying:
        members.add(_downgrade(each))
    protocol_name = members.select_protocol()
    names = {old: member.member_id for old, member in (renamed or {}).items()}
    update.entries += group.tombstones(names)
    saved = tuple(
        _snapshot(member, protocol_name, targets[member.member_id], context.image)
        for member in members.by_id.values()
    )
    leader = saved[0].member_id
    snapshot = GroupSnapshot(
        group.group_id,
        CONSUMER_PROTOCOL_TYPE,
        group.epoch,
        protocol_name,
        leader,
        context.now_ms,
        saved,
    )
    update.entries.append(GroupEntry(group.group_id, snapshot))
    for member_id in group.members:
        update.cancel_timers(member_id)
    protocols = {member.member_id: member.protocols for member in members.by_id.values()}
    update.downgrade = Downgrade(protocols, rebalances)


def _target(group: ConsumerGroup, member_id: str) -> Partitions:
    return group.targets.get(member_id, NOTHING)


def _downgrade(member: ConsumerGroupMember) -> ClassicMember:
    said, classic = member.metadata, member.metadata.classic
    assert classic is not None, "only classic members stay in a classic group"
    return ClassicMember(
        member.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        said.rebalance_timeout_ms,
        classic.session_timeout_ms,
        classic.protocols,
    )


def _snapshot(
    member: ClassicMember, protocol_name: str, target: Partitions, image: ClusterImage
) -> MemberSnapshot:
    subscription = member.metadata(protocol_name)
    return MemberSnapshot(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        subscription,
        assignment_bytes(target, image, version_of(subscription)),
    )
