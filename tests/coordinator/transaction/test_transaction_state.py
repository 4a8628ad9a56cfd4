"""The tables say something about every event in every state, and the shard does just that."""

from collections.abc import Callable

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.transaction.transaction_metadata import Transaction
from tierlog.coordinator.transaction.transaction_shard import (
    Addition,
    Ending,
    Initialization,
    Transition,
)
from tierlog.coordinator.transaction.transaction_state import (
    NEXT_STATES,
    REACTIONS,
    TransactionEvent,
    TransactionReaction,
    TransactionState,
)

from ..transaction_driver import ID, TransactionDriver

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD = (
    TransactionState
)
EVERY_PAIR = [(state, event) for event in TransactionEvent for state in TransactionState]
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
E = ErrorCode
R = TransactionReaction

# What the log holds after a reaction, beginning with what the answer waits for.
WRITES: dict[TransactionReaction, tuple[TransactionState, ...]] = {
    R.NEXT_EPOCH: (EMPTY,),
    R.FENCE_AND_ABORT: (PREPARE_ABORT,),
    R.TIME_OUT_AND_ABORT: (PREPARE_ABORT,),
    R.BEGIN: (ONGOING,),
    R.ADD: (ONGOING,),
    R.PREPARE_COMMIT: (PREPARE_COMMIT,),
    R.PREPARE_ABORT: (PREPARE_ABORT,),
    R.ABORT_NOTHING: (PREPARE_ABORT,),
    R.COMPLETE_COMMIT: (COMPLETE_COMMIT,),
    R.COMPLETE_ABORT: (COMPLETE_ABORT,),
}


def driver_in(state: TransactionState) -> TransactionDriver:
    """An id that came to this state as ids do."""
    driver = TransactionDriver()
    driver.initialize()
    if state in {ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT}:
        driver.add(P0)
    if state in {PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT}:
        driver.end(commit=state in {PREPARE_COMMIT, COMPLETE_COMMIT})
    if state in {COMPLETE_COMMIT, COMPLETE_ABORT}:
        driver.write_markers()
    if state is DEAD:
        driver.now_ms += 1_000_000
        assert driver.shard.expired(1_000_000, driver.now_ms) == [ID]
    else:
        assert driver.transaction.state is state
    return driver


def ending(
    commit: bool, version: int, late: int = 0
) -> Callable[[TransactionDriver], Transition | None]:
    def act(driver: TransactionDriver) -> Transition | None:
        now = driver.transaction
        request = Ending(ID, now.producer_id, now.producer_epoch - late, commit, version)
        return driver.shard.end(request, driver.take, driver.now_ms)

    return act


def initialize(driver: TransactionDriver) -> Transition | None:
    return driver.shard.initialize(Initialization(ID, 60_000, None), driver.take, driver.now_ms)


def add(driver: TransactionDriver) -> Transition | None:
    now = driver.transaction
    partitions = frozenset({P0, P1})
    addition = Addition(ID, now.producer_id, now.producer_epoch, partitions, 2)
    return driver.shard.add_partitions(addition, driver.now_ms)


def verify(driver: TransactionDriver) -> Transition | None:
    now = driver.transaction
    addition = Addition(ID, now.producer_id, now.producer_epoch, frozenset({P1}))
    (error,) = set(driver.shard.verify_partitions(addition).values())
    return Transition(error)


def time_out(driver: TransactionDriver) -> Transition | None:
    driver.now_ms += 120_000
    targets = driver.shard.timed_out(driver.now_ms, driver.take)
    return Transition(E.NONE, targets[0]) if targets else Transition(E.NONE)


def markers_written(driver: TransactionDriver) -> Transition | None:
    if driver.transaction.state not in {PREPARE_COMMIT, PREPARE_ABORT}:
        return Transition(E.NONE)
    return Transition(E.NONE, driver.shard.markers_written(ID, [P0], driver.now_ms))


def expire(driver: TransactionDriver) -> Transition | None:
    driver.now_ms += 1_000_000
    gone = driver.shard.expired(1_000_000, driver.now_ms)
    return Transition(E.NONE, driver.transaction if gone else None)


HAPPEN: dict[TransactionEvent, Callable[[TransactionDriver], Transition | None]] = {
    TransactionEvent.INITIALIZE: initialize,
    TransactionEvent.ADD_PARTITIONS: add,
    TransactionEvent.VERIFY_PARTITIONS: verify,
    TransactionEvent.COMMIT_UNVERSIONED: ending(commit=True, version=0),
    TransactionEvent.ABORT_UNVERSIONED: ending(commit=False, version=0),
    TransactionEvent.COMMIT: ending(commit=True, version=2),
    TransactionEvent.ABORT: ending(commit=False, version=2),
    TransactionEvent.COMMIT_AGAIN: ending(commit=True, version=2, late=1),
    TransactionEvent.ABORT_AGAIN: ending(commit=False, version=2, late=1),
    TransactionEvent.TIME_OUT: time_out,
    TransactionEvent.MARKERS_WRITTEN: markers_written,
    TransactionEvent.EXPIRE: expire,
}
AGAIN = {TransactionEvent.COMMIT_AGAIN, TransactionEvent.ABORT_AGAIN}
IN_SILENCE = {TransactionEvent.TIME_OUT, TransactionEvent.MARKERS_WRITTEN, TransactionEvent.EXPIRE}


def expected_error(state: TransactionState, event: TransactionEvent) -> ErrorCode:
    """What the answer is, where it is not written in the table alone.

    While markers are on their way, or a tombstone, everyone is told to come again; only then is an
    epoch fenced that cannot be that of the transaction in question.
    """
    reaction = REACTIONS[state, event]
    is_decided = state in {PREPARE_COMMIT, PREPARE_ABORT}
    if event in IN_SILENCE:
        return E.NONE
    if event in AGAIN and state in {EMPTY, ONGOING}:
        return E.PRODUCER_FENCED
    if event is TransactionEvent.VERIFY_PARTITIONS:
        return E.CONCURRENT_TRANSACTIONS if is_decided or state is DEAD else E.TRANSACTION_ABORTABLE
    if is_decided or state is DEAD or reaction is R.FENCE_AND_ABORT:
        return E.CONCURRENT_TRANSACTIONS
    return E.INVALID_TXN_STATE if reaction is R.REFUSE_STATE else E.NONE


@pytest.mark.parametrize(("state", "event"), EVERY_PAIR)
def test_the_shard_does_what_the_table_says(
    state: TransactionState, event: TransactionEvent
) -> None:
    driver = driver_in(state)
    # The table speaks of states that a v2 client led to; epochs have moved on with it.
    transition = HAPPEN[event](driver)
    assert transition is not None
    assert transition.error is expected_error(state, event)
    reaction = REACTIONS[state, event]
    if reaction is R.DELETE:
        assert transition.target is not None
        assert event is TransactionEvent.EXPIRE
    elif transition.target is not None:
        assert (transition.target.state,) == WRITES[reaction]
        assert transition.target.state in NEXT_STATES[state]
    elif transition.error is E.NONE:
        assert reaction in {R.ANSWER_DONE, R.IGNORE, R.LOOK_UP}


def test_every_pair_has_a_reaction_and_every_state_what_may_follow() -> None:
    assert set(REACTIONS) == set(EVERY_PAIR)
    assert set(NEXT_STATES) == set(TransactionState)
    assert set(REACTIONS.values()) == set(TransactionReaction)
    for (state, _), reaction in REACTIONS.items():
        for target in WRITES.get(reaction, ()):
            assert target in NEXT_STATES[state], (state, reaction)


def test_a_transition_that_the_table_does_not_name_is_our_own_mistake() -> None:
    committed: Transaction = driver_in(COMPLETE_COMMIT).transaction
    with pytest.raises(AssertionError):
        committed.apply(PREPARE_COMMIT, 0)
