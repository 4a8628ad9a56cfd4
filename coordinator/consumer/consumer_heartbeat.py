"""ConsumerGroupHeartbeat: a member joins, stays alive, reconciles and leaves with this request.

A member joins with epoch 0, stays alive with its current epoch and leaves with -1. A static member
that will return leaves with -2. An invalid request raises KafkaError with Kafka's error code and
message, and changes nothing. Otherwise the response is sent once the change is in the log. Based
on Kafka's GroupCoordinatorService and GroupMetadataManager (KIP-848, KIP-345).
"""

from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ..group_actions import SetTimer, TimerKey, TimerKind
from .consumer_group import (
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerGroup,
    ConsumerGroupMember,
    assignment_after_leave,
)
from .consumer_group_update import GroupChange, GroupContext, GroupUpdate, RegexUpdate
from .consumer_records import CurrentAssignmentEntry, MemberValue
from .describable import Describable
from .group_conversion import fence
from .topic_partitions import PartitionEpochs, Partitions

JOIN_EPOCH = 0
NO_REBALANCE_TIMEOUT = -1


class ConsumerHeartbeat(NamedTuple):
    """The request. A field is None if it has not changed since the previous heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    describable: Describable | None = None
    """Which topics the client may describe; None if all."""

    @property
    def is_full(self) -> bool:
        """Whether all fields are set that a member must send when it joins or after an error."""
        subscribes = (
            self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        )
        is_timed = self.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT
        return subscribes and is_timed and self.owned is not None

    @property
    def leaves(self) -> bool:
        return self.member_epoch in {LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH}


class HeartbeatAnswer(NamedTuple):
    """The response. `assigned` is None if the member already has this assignment."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assigned: PartitionEpochs | None = None


def check_request(
    request: ConsumerHeartbeat, member_id_is_ours: bool, context: GroupContext
) -> None:
    """Check the fields that do not depend on the group. Raises KafkaError.

    In version 0 the coordinator generates the id of a joining member (`member_id_is_ours`).
    """
    epoch = request.member_epoch
    if not member_id_is_ours or epoch > 0 or epoch == LEAVE_GROUP_EPOCH:
        _refuse_empty(request.member_id, "MemberId")
    _refuse_empty(request.group_id, "GroupId")
    _refuse_empty(request.instance_id, "InstanceId")
    _refuse_empty(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_GROUP_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_GROUP_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    offered = context.config.consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in offered:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(offered)}.",
        )


def _check_join(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def _refuse_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def heartbeat(
    group: ConsumerGroup, request: ConsumerHeartbeat, context: GroupContext
) -> tuple[GroupChange, HeartbeatAnswer]:
    """Handle a heartbeat of a joining or current member; its id is set. Raises KafkaError."""
    refuse_if_full(group, request.member_id, context)
    update = GroupUpdate(group, context)
    member = _member_of(update, group, request)
    updated, names_changed = update.subscribe(member, _metadata(member, request))
    regex = update.resolve(member, updated)
    # A new regex does not bump the group epoch until it is resolved.
    is_due = names_changed or regex is RegexUpdate.CHANGED_AND_RESOLVED
    update.refresh(is_due, (member,), updated)
    target = update.assign(member, updated)
    subscription_changed = names_changed or regex is not RegexUpdate.NO_CHANGE
    updated = update.reconcile(updated, target, subscription_changed, request.owned)
    session = TimerKey(group.group_id, TimerKind.SESSION, updated.member_id)
    update.timers.append(SetTimer(session, context.settings.session_timeout_ms))
    is_asked = request.member_epoch == JOIN_EPOCH or request.is_full
    is_changed = dict(member.current.assigned) != dict(updated.current.assigned)
    answer = HeartbeatAnswer(
        updated.member_id,
        updated.epoch,
        context.settings.heartbeat_interval_ms,
        updated.current.assigned if is_asked or is_changed else None,
    )
    return update.change(), answer


def refuse_if_full(group: ConsumerGroup, member_id: str, context: GroupContext) -> None:
    """Raise KafkaError(GROUP_MAX_SIZE_REACHED) if a new member would exceed the maximum size."""
    limit = context.config.consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )


def _metadata(member: ConsumerGroupMember, request: ConsumerHeartbeat) -> MemberValue:
    """The member's new metadata: fields that the request leaves out keep their values."""
    before = member.metadata
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    regex = request.subscribed_topic_regex
    return MemberValue(
        request.instance_id or before.instance_id,
        request.rack_id or before.rack_id,
        request.client_id,
        request.client_host,
        before.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        before.subscribed_topic_regex if regex is None else regex,
        before.rebalance_timeout_ms if timeout_ms == NO_REBALANCE_TIMEOUT else timeout_ms,
        request.server_assignor or before.server_assignor,
        None,
    )


def _member_of(
    update: GroupUpdate, group: ConsumerGroup, request: ConsumerHeartbeat
) -> ConsumerGroupMember:
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is not None:
        return _static_member_of(update, group, request)
    member = group.members.get(request.member_id)
    if member is None:
        if not joins:
            raise unknown_member(group, request.member_id)
        return ConsumerGroupMember(request.member_id)
    _check_epoch(member, request)
    return member


def _static_member_of(
    update: GroupUpdate, group: ConsumerGroup, request: ConsumerHeartbeat
) -> ConsumerGroupMember:
    owner = group.static_member(request.instance_id)
    if request.member_epoch != JOIN_EPOCH:
        owner = checked_static_member(group, request.instance_id, request.member_id)
        _check_epoch(owner, request)
        return owner
    if owner is None:
        return group.members.get(request.member_id) or ConsumerGroupMember(request.member_id)
    if not owner.is_classic and owner.epoch != LEAVE_GROUP_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot "
            f"join the group because the instance id is owned by {owner.member_id} member.",
        )
    return update.replace(owner, request.member_id)


def unknown_member(group: ConsumerGroup, member_id: str) -> KafkaError:
    """The error for a member id that is not in the group."""
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def checked_static_member(
    group: ConsumerGroup, instance_id: str | None, member_id: str
) -> ConsumerGroupMember:
    """The member with this instance id. Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    owner = group.static_member(instance_id)
    if owner is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if owner.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{owner.member_id}.",
        )
    return owner


def _check_epoch(member: ConsumerGroupMember, request: ConsumerHeartbeat) -> None:
    """Raise KafkaError(FENCED_MEMBER_EPOCH) if the member has the wrong epoch.

    Its previous epoch is valid too: the member may have missed the response with the new one.
    """
    epoch = request.member_epoch
    if epoch in {JOIN_EPOCH, member.epoch}:
        return
    is_behind = epoch < member.epoch
    if (
        is_behind
        and epoch == member.current.previous_epoch
        and _owns_only_assigned(member, request)
    ):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'smaller' if is_behind else 'greater'} member epoch "
        f"({epoch}) than the one known by the group coordinator ({member.epoch}). The member "
        "must abandon all its partitions and rejoin.",
    )


def _owns_only_assigned(member: ConsumerGroupMember, request: ConsumerHeartbeat) -> bool:
    owned = request.owned
    return owned is not None and all(partition in member.current.assigned for partition in owned)


def leave(
    group: ConsumerGroup, request: ConsumerHeartbeat, context: GroupContext
) -> tuple[GroupChange, HeartbeatAnswer]:
    """Handle a member that leaves, for good or (if static) temporarily. Raises KafkaError."""
    answer = HeartbeatAnswer(request.member_id, request.member_epoch)
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(group, request.member_id)
    else:
        member = checked_static_member(group, request.instance_id, request.member_id)
        if request.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
            current = assignment_after_leave(member.current)
            entry = CurrentAssignmentEntry(group.group_id, member.member_id, current)
            return GroupChange((entry,)), answer
    return fence(group, (member,), context), answer
