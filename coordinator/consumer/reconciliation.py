"""How a member moves from its current to its target assignment (KIP-848).

The group's target assignment has an epoch. Each member moves towards it at its own pace, heartbeat
by heartbeat:

    STABLE ──target moved──> UNREVOKED_PARTITIONS ──revoked───┐
      ^  └──nothing to revoke─────────────────────────────────┤
      │                                                       v
      └────────all of the target is free──────── UNRELEASED_PARTITIONS

A member that must revoke partitions keeps its epoch until its heartbeats no longer list them as
owned; then it moves to the target's epoch and takes the free partitions. A partition that another
member holds, whether assigned to it or being revoked, is not free. Invariant: no two members ever
hold the same partition.

If the target moves, a member in UNRELEASED_PARTITIONS returns to UNREVOKED_PARTITIONS when it must
revoke again. A member with nothing to revoke whose target is all free is STABLE in the same
heartbeat.

When a member unsubscribes from a topic, it must revoke the topic's partitions at once, before there
is a new target assignment. Based on Kafka's CurrentAssignmentBuilder.
"""

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from .topic_partitions import NO_PARTITIONS, Partition, PartitionEpochs, Partitions


class MemberState(IntEnum):
    """A member's state. The value is the one in `ConsumerGroupCurrentMemberAssignmentValue`."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    # A state of a newer Kafka, read from the log.
    UNKNOWN = 127


class CurrentAssignment(NamedTuple):
    """A member's current assignment: the value of `ConsumerGroupCurrentMemberAssignment`."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = NO_PARTITIONS
    revoking: PartitionEpochs = NO_PARTITIONS

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class HeartbeatTarget(NamedTuple):
    """The member's target assignment, and what its heartbeat reports."""

    epoch: int
    partitions: Partitions
    # Topics that the member subscribes to and that exist.
    subscribed: frozenset[Uuid]
    subscription_changed: bool
    # The partitions that the member reports as owned; None if it reports nothing.
    owned: Partitions | None


class MemberEvent(Enum):
    """What a heartbeat means for the member's reconciliation.

    The last two apply only to a member that must revoke partitions.
    """

    TARGET_SAME = "the target assignment still has the member's epoch"
    TARGET_MOVED = "the target assignment is newer"
    STILL_OWNS = "it still owns the partitions to revoke, or does not report what it owns"
    REVOKED = "it has revoked the partitions"


class MemberReaction(Enum):
    """The reaction to an event."""

    STAY = "stay, unless it has changed its subscription"
    ADVANCE = "move towards the target assignment"
    START_OVER = "fence it, unless it owns no partitions"


_S, _E = MemberState, MemberEvent

# One row per state: TARGET_SAME, TARGET_MOVED, STILL_OWNS, REVOKED.
_ROWS: dict[MemberState, tuple[MemberReaction, MemberReaction, MemberReaction, MemberReaction]] = {
    _S.STABLE: (
        MemberReaction.STAY,
        MemberReaction.ADVANCE,
        MemberReaction.STAY,
        MemberReaction.STAY,
    ),
    _S.UNREVOKED_PARTITIONS: (
        MemberReaction.STAY,
        MemberReaction.STAY,
        MemberReaction.STAY,
        MemberReaction.ADVANCE,
    ),
    _S.UNRELEASED_PARTITIONS: (
        MemberReaction.ADVANCE,
        MemberReaction.ADVANCE,
        MemberReaction.ADVANCE,
        MemberReaction.ADVANCE,
    ),
    _S.UNKNOWN: (
        MemberReaction.START_OVER,
        MemberReaction.START_OVER,
        MemberReaction.START_OVER,
        MemberReaction.START_OVER,
    ),
}

REACTIONS: dict[tuple[MemberState, MemberEvent], MemberReaction] = {
    (state, event): reaction
    for state, row in _ROWS.items()
    for event, reaction in zip(MemberEvent, row, strict=True)
}


def reconcile(
    current: CurrentAssignment, target: HeartbeatTarget, is_held: Callable[[Partition], bool]
) -> CurrentAssignment:
    """The member's current assignment after this heartbeat.

    `is_held` returns whether any member holds a partition. Raises KafkaError(FENCED_MEMBER_EPOCH).
    """
    reaction = REACTIONS[current.state, _event(current, target)]
    if reaction is MemberReaction.ADVANCE:
        return _advance(current, target, is_held)
    if reaction is MemberReaction.START_OVER:
        if target.owned is None or target.owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return _advance(current._replace(epoch=target.epoch), target, is_held)
    return _without_unsubscribed(current, target) if target.subscription_changed else current


def _event(current: CurrentAssignment, target: HeartbeatTarget) -> MemberEvent:
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        return _E.STILL_OWNS if _owns_any(current.revoking, target) else _E.REVOKED
    return _E.TARGET_SAME if current.epoch == target.epoch else _E.TARGET_MOVED


def _owns_any(revoking: PartitionEpochs, target: HeartbeatTarget) -> bool:
    """Whether the member may still own a partition being revoked. True if it does not report."""
    return target.owned is None or any(partition in target.owned for partition in revoking)


def _advance(
    current: CurrentAssignment, target: HeartbeatTarget, is_held: Callable[[Partition], bool]
) -> CurrentAssignment:
    target_partitions = {
        partition for partition in target.partitions if partition[0] in target.subscribed
    }
    kept = {
        partition: epoch
        for partition, epoch in current.assigned.items()
        if partition in target_partitions
    }
    revoking = {
        partition: epoch
        for partition, epoch in current.assigned.items()
        if partition not in target_partitions
    }
    if revoking and _owns_any(revoking, target):
        state = MemberState.UNREVOKED_PARTITIONS
        return CurrentAssignment(current.epoch, current.epoch, state, kept, revoking)
    missing = target_partitions.difference(kept)
    # Partitions that the member itself was revoking are free for it to take back.
    free = {
        partition
        for partition in missing
        if partition in current.revoking or not is_held(partition)
    }
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    return CurrentAssignment(
        target.epoch, current.epoch, state, kept | dict.fromkeys(free, target.epoch)
    )


def _without_unsubscribed(current: CurrentAssignment, target: HeartbeatTarget) -> CurrentAssignment:
    """Revoke partitions of unsubscribed topics at once, without waiting for a new target."""
    kept = {
        partition: epoch
        for partition, epoch in current.assigned.items()
        if partition[0] in target.subscribed
    }
    if len(kept) == len(current.assigned):
        return current
    unsubscribed = {
        partition: epoch for partition, epoch in current.assigned.items() if partition not in kept
    }
    revoking = {**current.revoking, **unsubscribed}
    if _owns_any(revoking, target):
        state = MemberState.UNREVOKED_PARTITIONS
        return CurrentAssignment(current.epoch, current.epoch, state, kept, revoking)
    return CurrentAssignment(current.epoch, current.epoch, current.state, kept, current.revoking)
