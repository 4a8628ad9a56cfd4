"""Requests of classic protocol members of a group of the consumer protocol (KIP-848).

These members differ from others only in their requests. A JoinGroup acts like a
ConsumerGroupHeartbeat and does not wait for other members; the answer has the member epoch as the
generation. SyncGroup returns the member's current assignment; Heartbeat makes a member rejoin when
it must revoke partitions or can get more. There is no leader: the coordinator computes the
assignment. A member that must rejoin has its rebalance timeout to do so, and the same time again to
sync. Based on the classic half of the ConsumerGroup methods in Kafka's GroupMetadataManager.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ..consumer.consumer_embedded import (
    EmbeddedSubscription,
    assignment_bytes,
    read_subscription,
    version_of,
)
from ..consumer.consumer_group import ConsumerGroup, ConsumerGroupMember
from ..consumer.consumer_group_update import (
    GroupChange,
    GroupContext,
    GroupUpdate,
    MemberTarget,
    RegexUpdate,
)
from ..consumer.consumer_heartbeat import checked_static_member, refuse_if_full, unknown_member
from ..consumer.consumer_records import ClassicMemberValue, MemberValue
from ..consumer.group_conversion import fence, may_downgrade_for, replace_and_downgrade
from ..consumer.reconciliation import MemberState
from ..group_actions import (
    CONSUMER_PROTOCOL_TYPE,
    NO_MEMBER_ID,
    CancelTimer,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SetTimer,
    SyncRequest,
    SyncResult,
    TimerKey,
    TimerKind,
)


class Joined(NamedTuple):
    """The change that a JoinGroup makes, and the answer to send once the change is written."""

    change: GroupChange
    result: JoinResult


# Joining.


def join(group: ConsumerGroup, request: JoinRequest, context: GroupContext) -> Joined:
    """Handle a JoinGroup. Raises KafkaError."""
    if context.config.consumer_migration_policy == "disabled":
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because "
            "the group migration is disabled.",
        )
    is_unknown = request.member_id == NO_MEMBER_ID
    member_id = request.new_member_id if is_unknown else request.member_id
    refuse_if_full(group, member_id, context)
    _refuse_other_protocols(group, request)
    if is_unknown and request.requires_known_member_id and request.instance_id is None:
        return Joined(GroupChange(), JoinResult(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    update = GroupUpdate(group, context)
    replaced = group.static_member(request.instance_id)
    member = _member_of(update, request, member_id)
    is_downgrade = replaced is not None and may_downgrade_for(group, replaced, context)
    subscription = read_subscription(request.protocols[0].metadata, context.image)
    metadata = _metadata(member, request, subscription)
    updated, names_changed = update.subscribe(member, metadata)
    is_changed = update.resolve(member, updated) is not RegexUpdate.NO_CHANGE or names_changed
    update.refresh(is_changed, (member,), updated)
    owned = subscription.owned
    if is_downgrade and replaced is not None:
        is_stale = group.target_epoch < update.epoch
        if not is_stale:
            partitions = group.target_of(member_id, request.instance_id)
            target = MemberTarget(group.target_epoch, partitions)
            updated = update.reconcile(updated, target, is_changed, owned)
        replace_and_downgrade(update, replaced, updated, is_stale)
    else:
        target = update.assign(member, updated)
        updated = update.reconcile(updated, target, is_changed, owned)
        _time_joined(update, request, member_id)
    return Joined(update.change(), _result(updated, request))


def _refuse_other_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    classic = [member.metadata.classic for member in group.members.values()]
    supported = [
        {protocol.name for protocol in said.protocols} for said in classic if said is not None
    ]
    agrees = any(all(name in names for names in supported) for name, _ in request.protocols)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not agrees:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {request.member_id}'s protocols are not supported.",
        )


def _member_of(update: GroupUpdate, request: JoinRequest, member_id: str) -> ConsumerGroupMember:
    group = update.group
    previous = group.members.get(member_id) or ConsumerGroupMember(member_id)
    if request.instance_id is None:
        return previous
    if request.member_id != NO_MEMBER_ID:
        return checked_static_member(group, request.instance_id, member_id)
    replaced = group.static_member(request.instance_id)
    return previous if replaced is None else update.replace(replaced, member_id)


def _metadata(
    member: ConsumerGroupMember, request: JoinRequest, subscription: EmbeddedSubscription
) -> MemberValue:
    before = member.metadata
    timeout_ms = request.rebalance_timeout_ms
    return MemberValue(
        request.instance_id or before.instance_id,
        subscription.rack_id or before.rack_id,
        request.client_id,
        request.client_host,
        subscription.topics,
        "",
        before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        before.server_assignor,
        ClassicMemberValue(request.session_timeout_ms, request.protocols),
    )


def _time_joined(update: GroupUpdate, request: JoinRequest, member_id: str) -> None:
    group_id = update.group.group_id
    session = TimerKey(group_id, TimerKind.SESSION, member_id)
    sync_by = TimerKey(group_id, TimerKind.SYNC, member_id)
    update.timers += [
        CancelTimer(TimerKey(group_id, TimerKind.JOIN, member_id)),
        SetTimer(session, request.session_timeout_ms),
        SetTimer(sync_by, request.rebalance_timeout_ms),
    ]


def _result(member: ConsumerGroupMember, request: JoinRequest) -> JoinResult:
    return JoinResult(
        member.member_id,
        generation=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )


# Syncing and heartbeats.


def sync(
    group: ConsumerGroup, request: SyncRequest, context: GroupContext
) -> tuple[GroupChange, SyncResult]:
    """Handle a SyncGroup: returns the member's current assignment. Raises KafkaError."""
    identity = MemberIdentity(request.member_id, request.instance_id)
    member, classic = _checked_member(group, identity, request.generation)
    first = classic.protocols[0]
    other_type = request.protocol_type not in {None, CONSUMER_PROTOCOL_TYPE}
    if other_type or request.protocol_name not in {None, first.name}:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {member.member_id} uses a different protocol.",
        )
    if group.target_epoch > member.epoch and not _is_revoking(member):
        raise KafkaError(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"A new rebalance is triggered in group {group.group_id} and member "
            f"{member.member_id} should rejoin to catch up.",
        )
    assigned = frozenset(member.current.assigned)
    assignment = assignment_bytes(assigned, context.image, version_of(first.metadata))
    timers = (
        CancelTimer(TimerKey(group.group_id, TimerKind.SYNC, member.member_id)),
        _session(group, member, classic),
    )
    result = SyncResult(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment,
    )
    return GroupChange(timers=timers), result


def heartbeat(
    group: ConsumerGroup, identity: MemberIdentity, generation: int
) -> tuple[ErrorCode, GroupChange]:
    """Handle a Heartbeat: NONE, or REBALANCE_IN_PROGRESS to make the member rejoin.

    Raises KafkaError.
    """
    member, classic = _checked_member(group, identity, generation)
    timers = [_session(group, member, classic)]
    is_called = (
        member.epoch < group.target_epoch or _is_revoking(member) or _may_have_more(group, member)
    )
    if not is_called:
        return ErrorCode.NONE, GroupChange(timers=tuple(timers))
    key = TimerKey(group.group_id, TimerKind.JOIN, member.member_id)
    timers.append(SetTimer(key, member.metadata.rebalance_timeout_ms, unless_set=True))
    return ErrorCode.REBALANCE_IN_PROGRESS, GroupChange(timers=tuple(timers))


def _is_revoking(member: ConsumerGroupMember) -> bool:
    return member.current.state is MemberState.UNREVOKED_PARTITIONS


def _may_have_more(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether the member waits for partitions that no other member holds any more."""
    if member.current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    target = group.target_of(member.member_id, None)
    return not any(
        group.is_held(partition) for partition in target if partition not in member.current.assigned
    )


def _session(
    group: ConsumerGroup, member: ConsumerGroupMember, classic: ClassicMemberValue
) -> SetTimer:
    key = TimerKey(group.group_id, TimerKind.SESSION, member.member_id)
    return SetTimer(key, classic.session_timeout_ms)


def _checked_member(
    group: ConsumerGroup, identity: MemberIdentity, generation: int
) -> tuple[ConsumerGroupMember, ClassicMemberValue]:
    if identity.instance_id is not None:
        member = checked_static_member(group, identity.instance_id, identity.member_id)
    else:
        member = _member(group, identity.member_id)
    classic = _classic(member)
    if member.epoch != generation:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch "
            f"{member.epoch} of member {member.member_id}.",
        )
    return member, classic


def _classic(member: ConsumerGroupMember) -> ClassicMemberValue:
    classic = member.metadata.classic
    if classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member.member_id} does not use the classic protocol.",
        )
    return classic


# Leaving.


def leave(
    group: ConsumerGroup, identities: Sequence[MemberIdentity], context: GroupContext
) -> tuple[GroupChange, list[ErrorCode]]:
    """Handle a LeaveGroup: one error code per member, in the given order.

    It accepts members of either protocol, because administrators also remove members with it.
    """
    leaving: dict[str, ConsumerGroupMember] = {}
    errors: list[ErrorCode] = []
    for identity in identities:
        try:
            member = _leaving(group, identity)
        except KafkaError as error:
            errors.append(error.code)
        else:
            errors.append(ErrorCode.NONE)
            leaving[member.member_id] = member
    change = fence(group, list(leaving.values()), context) if leaving else GroupChange()
    return change, errors


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
    """The member to remove. Administrators remove static members by instance id alone."""
    member_id, instance_id = identity
    if instance_id is None:
        return _member(group, member_id)
    if member_id == NO_MEMBER_ID:
        member_id = group.static_members.get(instance_id, NO_MEMBER_ID)
    return checked_static_member(group, instance_id, member_id)


def _member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group, member_id)
    return member
