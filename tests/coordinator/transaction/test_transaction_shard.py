"""What the table of transactions does not say: whose epoch counts, and what is under way."""

from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.transaction.transaction_metadata import EPOCH_MAX, LAST_EPOCH_OF_A_PRODUCER
from tierlog.coordinator.transaction.transaction_shard import (
    Addition,
    Ending,
    Initialization,
    Transition,
)
from tierlog.coordinator.transaction.transaction_state import TransactionState

from ..transaction_driver import ID, TransactionDriver

P0 = TopicPartition("t", 0)
E = ErrorCode


def begun(version: int = 2) -> TransactionDriver:
    driver = TransactionDriver()
    driver.shard.transaction_version = version
    driver.initialize()
    driver.add(P0, version=version)
    return driver


def fence(driver: TransactionDriver) -> Transition:
    """Another producer of the same id comes."""
    request = Initialization(ID, 60_000, None)
    transition = driver.shard.initialize(request, driver.take, driver.now_ms)
    assert transition is not None
    assert transition.target is not None
    return transition


def test_a_fence_that_could_not_be_written_takes_no_second_epoch() -> None:
    driver = begun(version=0)
    first = fence(driver).target
    assert first is not None
    driver.shard.written(first, E.NOT_ENOUGH_REPLICAS, driver.now_ms)
    second = fence(driver).target
    assert second is not None
    assert second.producer_epoch == first.producer_epoch


def test_a_transaction_may_last_as_long_as_it_was_allowed() -> None:
    driver = begun()
    began_ms = driver.now_ms
    assert driver.shard.timed_out(began_ms + 60_000, driver.take) == []
    assert driver.shard.timed_out(began_ms + 60_001, driver.take) != []


def with_its_last_epoch() -> TransactionDriver:
    """A producer that has just ended the transaction before its last epoch."""
    driver = begun()
    while driver.transaction.producer_epoch < LAST_EPOCH_OF_A_PRODUCER:
        driver.end(commit=True)
        driver.write_markers()
        if driver.transaction.producer_epoch < LAST_EPOCH_OF_A_PRODUCER:
            driver.add(P0)
    return driver


def test_a_producers_last_epoch_is_not_taken_for_that_of_its_predecessor() -> None:
    driver = with_its_last_epoch()
    # Nothing was sent in this epoch: there is nothing to commit, and aborting nothing is allowed.
    assert driver.end(commit=True) is E.INVALID_TXN_STATE
    assert driver.end(commit=False) is E.NONE


def test_an_id_that_is_being_written_is_not_forgotten() -> None:
    driver = TransactionDriver()
    driver.initialize()
    now = driver.transaction
    addition = Addition(ID, now.producer_id, now.producer_epoch, frozenset({P0}), 2)
    under_way = driver.shard.add_partitions(addition, driver.now_ms)
    assert driver.shard.expired(0, driver.now_ms) == []
    assert driver.write(under_way) is E.NONE
    assert driver.transaction.state is TransactionState.ONGOING


def test_a_completion_that_could_not_be_written_is_still_under_way() -> None:
    driver = begun(version=0)
    driver.end(commit=True, version=0)
    target = driver.shard.markers_written(ID, [P0], driver.now_ms)
    assert target is not None
    driver.shard.written(target, E.NOT_ENOUGH_REPLICAS, driver.now_ms)
    assert driver.end(commit=False, version=0) is E.CONCURRENT_TRANSACTIONS


def test_who_ends_the_next_transaction_waits_for_the_markers_of_this_one() -> None:
    """A fenced producer is lost; `endTransaction` of Kafka's coordinator looks here first."""
    driver = begun()
    assert driver.end(commit=True) is E.NONE
    # The answer has told the next epoch; markers are on their way to other brokers.
    assert driver.end(commit=False) is E.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.end(commit=False) is E.NONE


def test_while_a_transaction_changes_also_a_stranger_to_it_has_to_retry() -> None:
    driver = begun()
    assert driver.end(commit=True) is E.NONE
    now = driver.transaction
    for producer_id, epoch in ((now.producer_id + 1, 0), (now.producer_id, now.producer_epoch + 9)):
        stranger = Ending(ID, producer_id, epoch, True, 2)
        answer = driver.shard.end(stranger, driver.take, driver.now_ms)
        assert answer is not None
        assert answer.error is E.CONCURRENT_TRANSACTIONS
        addition = Addition(ID, producer_id, epoch, frozenset({P0}), 2)
        assert driver.shard.add_partitions(addition, driver.now_ms).error is (
            E.CONCURRENT_TRANSACTIONS
        )


def test_a_producer_that_was_given_a_new_id_goes_on_while_the_markers_are_written() -> None:
    """EndTxn has told it the id with which the next transaction begins; `current` has the old."""
    driver = with_its_last_epoch()
    driver.add(P0)
    assert driver.end(commit=True) is E.NONE
    decided = driver.transaction
    completed = decided.completed(driver.now_ms)
    assert completed.producer_id != decided.producer_id
    addition = Addition(ID, completed.producer_id, completed.producer_epoch, frozenset({P0}), 2)
    waiting = driver.shard.add_partitions(addition, driver.now_ms)
    assert waiting.error is E.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.write(driver.shard.add_partitions(addition, driver.now_ms)) is E.NONE


def test_a_producer_whose_id_another_has_replaced_is_fenced() -> None:
    """The epochs were used up, and somebody else has come for the id since."""
    driver = with_its_last_epoch()
    old = driver.transaction
    assert driver.initialize() is E.NONE
    assert driver.transaction.producer_id != old.producer_id
    for is_commit in (True, False):
        late = Ending(ID, old.producer_id, old.producer_epoch, is_commit, 2)
        assert driver.write(driver.shard.end(late, driver.take, driver.now_ms)) is E.PRODUCER_FENCED
    unversioned = Ending(ID, old.producer_id, old.producer_epoch, True, 0)
    answer = driver.shard.end(unversioned, driver.take, driver.now_ms)
    assert driver.write(answer) is E.INVALID_PRODUCER_ID_MAPPING


def test_nobody_is_given_the_epoch_that_fences_a_producer_in_its_last_one() -> None:
    """Markers of that epoch would end nothing: no higher one is left for them."""
    driver = with_its_last_epoch()
    driver.add(P0)
    slow = driver.transaction
    (target,) = driver.shard.timed_out(driver.now_ms + 60_001, lambda: None)
    driver.shard.written(target, E.NONE, driver.now_ms)
    driver.write_markers()
    assert driver.transaction.producer_epoch == EPOCH_MAX
    for is_commit in (True, False):
        late = Ending(ID, slow.producer_id, slow.producer_epoch, is_commit, 2)
        assert driver.write(driver.shard.end(late, driver.take, driver.now_ms)) is E.PRODUCER_FENCED
    assert driver.initialize((slow.producer_id, slow.producer_epoch)) is E.PRODUCER_FENCED
    assert driver.initialize() is E.NONE
    assert driver.transaction.producer_id != slow.producer_id


def test_a_producer_that_took_too_long_in_its_last_epoch_learns_its_next_id() -> None:
    driver = with_its_last_epoch()
    driver.add(P0)
    slow = driver.transaction
    (target,) = driver.shard.timed_out(driver.now_ms + 60_001, driver.take)
    driver.shard.written(target, E.NONE, driver.now_ms)
    driver.write_markers()
    assert driver.transaction.producer_id != slow.producer_id
    assert driver.transaction.producer_epoch == 0
    for is_commit, error in ((True, E.INVALID_TXN_STATE), (False, E.NONE)):
        late = Ending(ID, slow.producer_id, slow.producer_epoch, is_commit, 2)
        assert driver.write(driver.shard.end(late, driver.take, driver.now_ms)) is error
