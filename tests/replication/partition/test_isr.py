"""The leader's ISR as a state machine: what it asks for, and what it makes of the answers."""

from typing import NamedTuple

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.metadata.cluster_image import BrokerImage
from tierlog.replication.partition.isr import (
    ISR_TRANSITIONS,
    ErrorReaction,
    IsrAnswer,
    IsrEvent,
    IsrPhase,
    after_answer,
    after_refusal,
    committed_isr,
    expanding,
    has_reached,
    is_eligible,
    out_of_sync,
    reaction_to,
    shrinking,
)
from tierlog.replication.partition.replica import UNKNOWN_OFFSET, Replica


@pytest.mark.parametrize("phase", IsrPhase)
@pytest.mark.parametrize("event", IsrEvent)
def test_every_phase_and_event(phase: IsrPhase, event: IsrEvent) -> None:
    after = ISR_TRANSITIONS.get((phase, event))
    is_pending = phase is not IsrPhase.COMMITTED
    if event is IsrEvent.COMMIT or (event is IsrEvent.REFUSE and is_pending):
        assert after is IsrPhase.COMMITTED
    elif event is IsrEvent.REFUSE or is_pending:
        assert after is None
    else:
        expand = event is IsrEvent.EXPAND
        assert after is (IsrPhase.PENDING_EXPAND if expand else IsrPhase.PENDING_SHRINK)


def test_a_replica_that_is_to_join_counts_at_once() -> None:
    state = expanding(committed_isr([1, 2], 7), 3)
    assert (state.isr, state.maximal_isr, state.requested_isr) == ((1, 2), (1, 2, 3), (1, 2, 3))


def test_a_replica_that_is_to_leave_counts_until_it_has_left() -> None:
    state = shrinking(committed_isr([1, 2, 3], 7), [3, 2])
    assert (state.isr, state.maximal_isr, state.requested_isr) == ((1, 2, 3), (1, 2, 3), (1,))


@pytest.mark.parametrize(
    ("answer", "is_taken"),
    [
        (IsrAnswer(4, 8, (1, 2, 3)), True),
        (IsrAnswer(4, 7, (1, 2, 3)), True),
        (IsrAnswer(4, 6, (1, 2, 3)), False),
        (IsrAnswer(3, 8, (1, 2, 3)), False),
        (IsrAnswer(5, 8, (1, 2, 3)), False),
    ],
    ids=["made", "nothing to change", "overtaken", "earlier leader epoch", "later leader epoch"],
)
def test_an_answer_counts_unless_newer_metadata_has_come(answer: IsrAnswer, is_taken: bool) -> None:
    state = expanding(committed_isr([1, 2], 7), 3)
    expected = committed_isr([1, 2, 3], answer.partition_epoch) if is_taken else None
    assert after_answer(state, 4, answer) == expected


AGAIN = {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA}
WAITS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
}


@pytest.mark.parametrize("error", [each for each in ErrorCode if each is not ErrorCode.NONE])
def test_after_an_error_the_change_is_dropped_waited_for_or_asked_again(error: ErrorCode) -> None:
    expected = ErrorReaction.RETRY
    if error in AGAIN:
        expected = ErrorReaction.DECIDE_AGAIN
    elif error in WAITS:
        expected = ErrorReaction.WAIT
    assert reaction_to(error) is expected


def test_what_was_not_done_leaves_the_committed_isr() -> None:
    committed = committed_isr([1, 2], 7)
    assert after_refusal(expanding(committed, 3)) == committed
    assert after_refusal(shrinking(committed, [2])) == committed


class Fitness(NamedTuple):
    """A follower's broker in the metadata, and the epoch that its fetch carried."""

    fenced: bool
    is_stopping: bool
    seen_epoch: int | None


@pytest.mark.parametrize(
    ("fitness", "expected"),
    [
        (Fitness(False, False, 20), True),
        (Fitness(False, False, -1), True),
        (Fitness(False, False, 19), False),
        (Fitness(False, False, 21), False),
        (Fitness(False, False, None), False),
        (Fitness(True, False, 20), False),
        (Fitness(False, True, 20), False),
    ],
)
def test_only_an_active_broker_in_the_life_that_fetches_may_join(
    fitness: Fitness, expected: bool
) -> None:
    fenced, is_stopping, seen_epoch = fitness
    broker = BrokerImage(2, 20, Uuid(bytes(16)), {}, None, fenced, is_stopping)
    assert is_eligible(broker, seen_epoch) is expected
    assert not is_eligible(None, seen_epoch)


@pytest.mark.parametrize(("end", "expected"), [(9, False), (10, False), (12, True), (13, True)])
def test_a_follower_joins_with_everything_up_to_the_leaders_own_epoch(
    end: int, expected: bool
) -> None:
    follower = Replica(2)
    follower.log_end_offset = end
    assert has_reached(follower, high_watermark=10, leader_epoch_start_offset=12) is expected


def test_who_was_not_caught_up_for_too_long_is_out_of_sync() -> None:
    followers = {number: Replica(number) for number in (2, 3, 4)}
    for number, (end, caught_up_ms) in {2: (50, 0), 3: (49, 1_000), 4: (49, 999)}.items():
        followers[number].log_end_offset = end
        followers[number].last_caught_up_ms = caught_up_ms
    state = committed_isr([1, 2, 3, 4], 7)
    assert out_of_sync(state, followers, 50, now_ms=31_000, lag=30_000) == [4]
    assert not out_of_sync(shrinking(state, [4]), followers, 50, now_ms=31_000, lag=30_000)
    # Who is out already does not leave again.
    assert not out_of_sync(committed_isr([1, 2, 3], 7), followers, 50, 31_000, 30_000)


def test_a_new_leader_gives_the_isr_time_and_knows_nothing_of_the_logs() -> None:
    follower = Replica(2)
    follower.on_fetch(40, 3, leader_end_offset=40, now_ms=5_000, broker_epoch=20)
    follower.on_term(50, 9_000, is_new=True, is_in_isr=True)
    assert (follower.log_end_offset, follower.log_start_offset) == (UNKNOWN_OFFSET, UNKNOWN_OFFSET)
    assert (follower.last_caught_up_ms, follower.broker_epoch) == (9_000, None)
    follower.on_term(50, 9_000, is_new=True, is_in_isr=False)
    assert follower.last_caught_up_ms == 0


def test_the_same_leader_in_a_new_epoch_keeps_what_it_knows() -> None:
    follower = Replica(2)
    follower.on_fetch(40, 3, leader_end_offset=40, now_ms=5_000, broker_epoch=20)
    follower.on_term(50, 9_000, is_new=False, is_in_isr=True)
    assert (follower.log_end_offset, follower.log_start_offset) == (40, 3)
    assert (follower.last_caught_up_ms, follower.broker_epoch) == (9_000, 20)
    # Up to what was the leader's end when the epoch began.
    follower.on_fetch(50, 3, leader_end_offset=60, now_ms=9_500, broker_epoch=20)
    assert follower.last_caught_up_ms == 9_000
