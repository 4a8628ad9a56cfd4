"""The ISR as the leader of a partition knows it, and how it asks for another (KIP-497). Pure.

    Committed --a follower has caught up--> PendingExpand --answer or metadata--> Committed
              --a follower lags----------> PendingShrink -------------------->

Only the controller changes the ISR. While its answer is awaited it may or may not have made the
change, so both sets count: a replica that is to join holds back the high watermark already, and one
that is to leave still does (the *maximal* ISR). One request is in flight for a partition.

Rules:

- a follower joins if it has reached the high watermark and the start of the leader's epoch, and its
  broker is active and has not restarted since the fetch (KIP-841, KIP-903);
- a follower leaves if it has not been caught up for `replica.lag.time.max.ms`;
- an answer of another leader epoch or of an earlier partition epoch is ignored: newer metadata has
  come in the meantime;
- after an error that leaves open whether the change was made, the state stays pending until
  metadata says (`Partition.handleAlterPartitionError`).
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from ...clients.errors import ErrorCode
from ..metadata.cluster_image import BrokerImage
from ..metadata.replica_epoch import NO_BROKER_EPOCH, ReplicaEpoch
from .replica import Replica


class IsrPhase(Enum):
    """Whether the leader has asked for another ISR."""

    COMMITTED = "the ISR is what the controller says"
    PENDING_EXPAND = "a replica is to join"
    PENDING_SHRINK = "replicas are to leave"


class IsrEvent(Enum):
    """What changes the phase."""

    EXPAND = "a follower has caught up"
    SHRINK = "followers lag"
    COMMIT = "the controller's state arrives"
    REFUSE = "the controller has not made the change"


ISR_TRANSITIONS: Mapping[tuple[IsrPhase, IsrEvent], IsrPhase] = MappingProxyType(
    {
        (IsrPhase.COMMITTED, IsrEvent.EXPAND): IsrPhase.PENDING_EXPAND,
        (IsrPhase.COMMITTED, IsrEvent.SHRINK): IsrPhase.PENDING_SHRINK,
        (IsrPhase.COMMITTED, IsrEvent.COMMIT): IsrPhase.COMMITTED,
        (IsrPhase.PENDING_EXPAND, IsrEvent.COMMIT): IsrPhase.COMMITTED,
        (IsrPhase.PENDING_EXPAND, IsrEvent.REFUSE): IsrPhase.COMMITTED,
        (IsrPhase.PENDING_SHRINK, IsrEvent.COMMIT): IsrPhase.COMMITTED,
        (IsrPhase.PENDING_SHRINK, IsrEvent.REFUSE): IsrPhase.COMMITTED,
    }
)
"""A new request is made only from COMMITTED."""


class IsrState(NamedTuple):
    """The ISR of one partition."""

    phase: IsrPhase
    # What the controller has committed, as far as is known here.
    isr: tuple[int, ...]
    # Every replica that is in the ISR or may be by now.
    maximal_isr: tuple[int, ...]
    # The ISR asked for; the committed one if none is.
    requested_isr: tuple[int, ...]
    partition_epoch: int

    @property
    def is_pending(self) -> bool:
        """Whether the controller's answer is awaited."""
        return self.phase is not IsrPhase.COMMITTED


def committed_isr(isr: Iterable[int], partition_epoch: int) -> IsrState:
    """The state when the controller's own is known."""
    members = tuple(isr)
    return IsrState(IsrPhase.COMMITTED, members, members, members, partition_epoch)


def expanding(state: IsrState, broker_id: int) -> IsrState:
    """The state while a replica is to join."""
    assert broker_id not in state.isr
    larger = (*state.isr, broker_id)
    phase = ISR_TRANSITIONS[state.phase, IsrEvent.EXPAND]
    return IsrState(phase, state.isr, larger, larger, state.partition_epoch)


def shrinking(state: IsrState, leaving: Iterable[int]) -> IsrState:
    """The state while replicas are to leave; they still count."""
    gone = set(leaving)
    assert gone
    smaller = tuple(replica for replica in state.isr if replica not in gone)
    phase = ISR_TRANSITIONS[state.phase, IsrEvent.SHRINK]
    return IsrState(phase, state.isr, state.isr, smaller, state.partition_epoch)


class IsrProposal(NamedTuple):
    """What the leader asks of the controller: a partition of AlterPartition."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[ReplicaEpoch, ...]


class IsrAnswer(NamedTuple):
    """The controller's state of the partition, in a successful answer."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


def after_answer(state: IsrState, leader_epoch: int, answer: IsrAnswer) -> IsrState | None:
    """The state after a successful answer; None if newer metadata has overtaken it.

    An equal partition epoch says that the ISR was already the one that was asked for.
    """
    if answer.leader_epoch != leader_epoch or answer.partition_epoch < state.partition_epoch:
        return None
    assert (state.phase, IsrEvent.COMMIT) in ISR_TRANSITIONS
    return committed_isr(answer.isr, answer.partition_epoch)


class ErrorReaction(Enum):
    """What the leader does when the controller refuses."""

    DECIDE_AGAIN = "the change was not made: back to the committed ISR"
    WAIT = "the change may have been made: metadata decides"
    RETRY = "ask the same again"


_REACTIONS: Mapping[ErrorCode, ErrorReaction] = MappingProxyType(
    {
        ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorReaction.DECIDE_AGAIN,
        ErrorCode.INELIGIBLE_REPLICA: ErrorReaction.DECIDE_AGAIN,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorReaction.WAIT,
        ErrorCode.UNKNOWN_TOPIC_ID: ErrorReaction.WAIT,
        ErrorCode.FENCED_LEADER_EPOCH: ErrorReaction.WAIT,
        ErrorCode.INVALID_UPDATE_VERSION: ErrorReaction.WAIT,
        ErrorCode.INVALID_REQUEST: ErrorReaction.WAIT,
        ErrorCode.NEW_LEADER_ELECTED: ErrorReaction.WAIT,
    }
)


def reaction_to(error: ErrorCode) -> ErrorReaction:
    """The reaction to an error of one partition; unknown ones are tried again."""
    return _REACTIONS.get(error, ErrorReaction.RETRY)


def after_refusal(state: IsrState) -> IsrState:
    """Back to the committed ISR; the next fetch or scan decides again."""
    phase = ISR_TRANSITIONS[state.phase, IsrEvent.REFUSE]
    return IsrState(phase, state.isr, state.isr, state.isr, state.partition_epoch)


def is_eligible(broker: BrokerImage | None, seen_epoch: int | None) -> bool:
    """Whether a replica may join the ISR.

    `seen_epoch` is the broker epoch of its last fetch: -1 if the follower does not send it, None if
    it has not fetched in this leader's term.
    """
    return (
        broker is not None
        and broker.is_active
        and seen_epoch is not None
        and seen_epoch in (NO_BROKER_EPOCH, broker.epoch)
    )


def has_reached(replica: Replica, high_watermark: int, leader_epoch_start_offset: int) -> bool:
    """Whether a follower has everything that a member of the ISR needs (KIP-320)."""
    return replica.log_end_offset >= max(high_watermark, leader_epoch_start_offset)


def out_of_sync(
    state: IsrState, followers: Mapping[int, Replica], leader_end_offset: int, now_ms: int, lag: int
) -> list[int]:
    """The followers in the ISR that have not been caught up for `lag` milliseconds.

    None while a request is in flight. The leader itself is not among the followers.
    """
    if state.is_pending:
        return []
    return [
        replica
        for replica in state.isr
        if replica in followers
        and not followers[replica].is_caught_up(leader_end_offset, now_ms, lag)
    ]
