"""How a member moves from its current to its target assignment (KIP-848).

The group's target assignment has an epoch. Each member moves towards it at its own pace, heartbeat
by heartbeat:

    STABLE ──target moved──> UNREVOKED_PARTITIONS ──given up──┐
      ^  └──nothing to give up────────────────────────────────┤
      │                                                       v
      └────────all of the target is free──────── UNRELEASED_PARTITIONS

A member that must revoke partitions stays at its epoch until it no longer reports them; then it
moves to the target's epoch and takes the free partitions. A partition that another member holds,
assigned or being revoked, is not free. Invariant: no two members ever hold the same partition.

When a member unsubscribes from a topic, it must revoke the topic's partitions at once, before there
is a new target assignment. Based on Kafka's CurrentAssignmentBuilder.
"""

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from .topic_partitions import NOTHING_HELD, Partition, PartitionEpochs, Partitions


class MemberState(IntEnum):
    """A member's state. The value is the one in `ConsumerGroupCurrentMemberAssignmentValue`."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    # A state of a newer Kafka, read from the log.
    UNKNOWN = 127


class Held(NamedTuple):
    """A member's current assignment: the value of `ConsumerGroupCurrentMemberAssignment`."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = NOTHING_HELD
    revoking: PartitionEpochs = NOTHING_HELD

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class Aim(NamedTuple):
    """The member's target assignment, and what its heartbeat reports."""

    epoch: int
    target: Partitions
    # Topics that the member subscribes to and that exist.
    subscribed: frozenset[Uuid]
    subscription_changed: bool
    # The partitions that the member reports as owned; None if it reports nothing.
    owned: Partitions | None


class MemberEvent(Enum):
    """What a heartbeat means for the member's reconciliation.

    The last two apply only to a member that must revoke partitions.
    """

    TARGET_SAME = "the target assignment is that of its epoch"
    TARGET_MOVED = "the target assignment is newer"
    STILL_OWNS = "it still owns the partitions to revoke, or does not report what it owns"
    GAVE_UP = "it has revoked the partitions"


class MemberReaction(Enum):
    """The reaction to an event."""

    STAY = "stay, unless it has changed its subscription"
    ADVANCE = "move towards the target assignment"
    START_OVER = "fence it, unless it owns no partitions"


_S, _E = MemberState, MemberEvent

# One row per state: TARGET_SAME, TARGET_MOVED, STILL_OWNS, GAVE_UP.
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


def reconciled(held: Held, aim: Aim, is_held: Callable[[Partition], bool]) -> Held:
    """The member's current assignment after this heartbeat.

    `is_held` returns whether any member holds a partition. Raises KafkaError(FENCED_MEMBER_EPOCH).
    """
    reaction = REACTIONS[held.state, _event(held, aim)]
    if reaction is MemberReaction.ADVANCE:
        return _advanced(held, aim, is_held)
    if reaction is MemberReaction.START_OVER:
        if aim.owned is None or aim.owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return _advanced(held._replace(epoch=aim.epoch), aim, is_held)
    return _without_unsubscribed(held, aim) if aim.subscription_changed else held


def _event(held: Held, aim: Aim) -> MemberEvent:
    if held.state is MemberState.UNREVOKED_PARTITIONS:
        return _E.STILL_OWNS if _owns_any(held.revoking, aim) else _E.GAVE_UP
    return _E.TARGET_SAME if held.epoch == aim.epoch else _E.TARGET_MOVED


def _owns_any(revoking: PartitionEpochs, aim: Aim) -> bool:
    """Whether the member may still own a partition being revoked. True if it does not report."""
    return aim.owned is None or any(partition in aim.owned for partition in revoking)


def _advanced(held: Held, aim: Aim, is_held: Callable[[Partition], bool]) -> Held:
    target = {partition for partition in aim.target if partition[0] in aim.subscribed}
    kept = {each: epoch for each, epoch in held.assigned.items() if each in target}
    revoking = {each: epoch for each, epoch in held.assigned.items() if each not in target}
    if revoking and _owns_any(revoking, aim):
        state = MemberState.UNREVOKED_PARTITIONS
        return Held(held.epoch, held.epoch, state, kept, revoking)
    missing = target.difference(kept)
    # Partitions that the member itself was revoking are free for it to take back.
    free = {each for each in missing if each in held.revoking or not is_held(each)}
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    return Held(aim.epoch, held.epoch, state, kept | dict.fromkeys(free, aim.epoch))


def _without_unsubscribed(held: Held, aim: Aim) -> Held:
    """Revoke partitions of unsubscribed topics at once, without waiting for a new target."""
    kept = {each: epoch for each, epoch in held.assigned.items() if each[0] in aim.subscribed}
    if len(kept) == len(held.assigned):
        return held
    unsubscribed = {each: epoch for each, epoch in held.assigned.items() if each not in kept}
    revoking = {**held.revoking, **unsubscribed}
    if _owns_any(revoking, aim):
        state = MemberState.UNREVOKED_PARTITIONS
        return Held(held.epoch, held.epoch, state, kept, revoking)
    return Held(held.epoch, held.epoch, held.state, kept, held.revoking)
