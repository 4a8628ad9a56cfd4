"""Every answer of the transactional APIs, beside Apache Kafka's answer to the same."""

from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tierlog.clients.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tierlog.clients.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tierlog.clients.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tierlog.clients.protocol.messages.list_transactions import ListTransactionsRequest
from tierlog.clients.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tierlog.clients.protocol.schema import Message

from ..broker_process import RawClient
from ..waiting import wait_until
from .side_by_side import OUR_OWN, Plain, plain
from .transaction_twins import IDS, TransactionTwins, error_of
from .twin_brokers import twin_brokers
from .twins import TOPIC, Ask, Side, topic_ids

pytestmark = pytest.mark.recorded

E = ErrorCode
_NAMES = count()


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    settings = {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        # The records are of 2023, and retention must not take them.
        "log.retention.ms": "-1",
    }
    with twin_brokers(tmp_path_factory, settings) as both:
        for port in both:
            with RawClient(port) as client:
                wait_until(partial(is_coordinated, client), 60, "no transactions")
        yield both


def is_coordinated(client: RawClient) -> bool:
    """Kafka creates the topic behind its answer, and then still has to load it."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["any"])
    answer = client.ask(request, 4, FindCoordinatorResponse)
    if answer.coordinators[0].error_code:
        return False
    probe = InitProducerIdRequest(transactional_id="probe", transaction_timeout_ms=60_000)
    return not client.ask(probe, 3, InitProducerIdResponse).error_code


def always(request: Message) -> Ask:
    """The same request for either side."""
    return lambda _: request


@pytest.fixture
def twins(ports: tuple[int, int]) -> Iterator[TransactionTwins]:
    both = TransactionTwins(*ports, f"id-{next(_NAMES)}")
    topic_ids(both)
    yield both
    both.close()


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_gets_the_next_epoch_each_time(
    twins: TransactionTwins, version: int
) -> None:
    for _ in range(3):
        assert error_of(twins.init(version)) is E.NONE
    assert twins.settle() == "Empty"
    if version >= 3:
        assert error_of(twins.init(version, goes_on=True)) is E.NONE
        first = twins.producers.copy()
        twins.producers = {key: (pid, epoch - 1) for key, (pid, epoch) in first.items()}
        # The answer was lost: the same question gets the same answer.
        assert error_of(twins.init(version, goes_on=True)) is E.NONE
        assert twins.producers == first
        twins.producers = {key: (pid, epoch - 2) for key, (pid, epoch) in first.items()}
        assert error_of(twins.init(version, goes_on=True))
        twins.producers = {key: (pid + 5, epoch) for key, (pid, epoch) in first.items()}
        assert error_of(twins.init(version, goes_on=True))


def test_ids_and_timeouts_that_are_refused(twins: TransactionTwins) -> None:
    for timeout_ms in (0, -1, 900_001):
        assert error_of(twins.init(timeout_ms=timeout_ms)) is E.INVALID_TRANSACTION_TIMEOUT
    assert error_of(twins.init(timeout_ms=900_000)) is E.NONE
    twins.transactional_id = ""
    assert error_of(twins.init()) is E.INVALID_REQUEST


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_in_every_version(
    twins: TransactionTwins, version: int, commit: bool
) -> None:
    assert error_of(twins.end(version, commit=commit)) is E.INVALID_PRODUCER_ID_MAPPING
    twins.init()
    if not (version == 5 and not commit):
        assert error_of(twins.end(version, commit=commit)) is E.INVALID_TXN_STATE
    assert error_of(twins.add(min(version, 3), [0, 1])) is E.NONE
    assert error_of(twins.add(min(version, 3), [0])) is E.NONE
    assert twins.settle() == "Ongoing"
    assert error_of(twins.end(version, commit=commit, late=-1))
    assert error_of(twins.end(version, commit=commit)) is E.NONE
    assert twins.settle() == ("CompleteCommit" if commit else "CompleteAbort")
    twins.end(version, commit=commit)
    twins.end(version, commit=not commit)
    twins.settle()


def test_with_an_epoch_a_transaction_nothing_late_counts(twins: TransactionTwins) -> None:
    twins.init()
    assert error_of(twins.produce(12, 0)) is E.NONE
    assert error_of(twins.end(5, commit=True)) is E.NONE
    twins.bumped()
    twins.settle()
    # The answer was lost, and the client asks again.
    assert error_of(twins.end(5, commit=True, late=1)) is E.NONE
    assert error_of(twins.end(5, commit=False, late=1)) is E.INVALID_TXN_STATE
    assert error_of(twins.produce(12, 0)) is E.NONE
    assert twins.settle() == "Ongoing"
    # Late requests of the transaction before, while the next one is open.
    assert error_of(twins.end(5, commit=True, late=1)) is E.PRODUCER_FENCED
    assert error_of(twins.add(4, [1], late=1)) is E.PRODUCER_FENCED
    assert error_of(twins.produce(12, 2, late=1)) is E.INVALID_PRODUCER_EPOCH
    assert error_of(twins.produce(12, 0, late=1, partition=1)) is E.INVALID_PRODUCER_EPOCH
    assert error_of(twins.end(5, commit=False)) is E.NONE
    twins.bumped()
    assert twins.settle() == "CompleteAbort"
    # Nothing was sent, and what nobody knows of may be aborted; it cannot be committed.
    assert error_of(twins.end(5, commit=True)) is E.INVALID_TXN_STATE
    assert error_of(twins.end(5, commit=False)) is E.NONE
    twins.bumped()
    assert twins.settle() == "CompleteAbort"
    twins.fetch()


@pytest.mark.parametrize("version", range(4))
def test_partitions_that_are_refused(twins: TransactionTwins, version: int) -> None:
    assert error_of(twins.add(version)) is E.INVALID_PRODUCER_ID_MAPPING
    twins.init()
    twins.init()
    assert error_of(twins.add(version, late=1))
    assert error_of(twins.add(version, [0, 9])) is E.OPERATION_NOT_ATTEMPTED
    assert error_of(twins.add(version, [0], topic="nowhere")) is E.UNKNOWN_TOPIC_OR_PARTITION
    assert twins.settle() == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_whether_a_partition_was_added(twins: TransactionTwins, version: int) -> None:
    assert error_of(twins.verify([0], version)) is E.INVALID_PRODUCER_ID_MAPPING
    twins.init()
    assert error_of(twins.verify([0], version)) is E.TRANSACTION_ABORTABLE
    assert error_of(twins.add(version, [0])) is E.NONE
    assert error_of(twins.verify([0], version)) is E.NONE
    assert error_of(twins.verify([0, 1], version)) is E.TRANSACTION_ABORTABLE
    twins.end(5, commit=False)
    twins.settle()


@pytest.mark.parametrize("version", [3, 8, 9, 10, 11])
def test_older_clients_add_partitions_first(twins: TransactionTwins, version: int) -> None:
    twins.init()
    assert error_of(twins.produce(version, 0))
    assert error_of(twins.add(3, [0])) is E.NONE
    assert error_of(twins.produce(version, 0)) is E.NONE
    assert error_of(twins.produce(version, 0)) is E.NONE
    assert error_of(twins.produce(version, 2)) is E.NONE
    assert error_of(twins.produce(version, 4, partition=1))
    assert error_of(twins.end(3, commit=True)) is E.NONE
    twins.settle()
    assert error_of(twins.produce(version, 4))
    twins.fetch()


def test_newer_clients_add_partitions_by_producing(twins: TransactionTwins) -> None:
    twins.init()
    assert error_of(twins.produce(12, 3)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    for version in (12, 13):
        assert error_of(twins.produce(version, 0)) is E.NONE
        assert error_of(twins.produce(version, 2)) is E.NONE
        assert error_of(twins.produce(version, 0)) is E.NONE
        assert error_of(twins.produce(version, 6)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert error_of(twins.produce(version, 4, txn=False)) is E.INVALID_TXN_STATE
        twins.fetch()
        assert error_of(twins.end(5, commit=version == 12)) is E.NONE
        twins.settle()
        # The producer does not know yet that its epoch is over.
        assert error_of(twins.produce(version, 4)) is E.INVALID_PRODUCER_EPOCH
        twins.bumped()
        twins.fetch()


def test_a_producer_that_comes_back_aborts_what_it_left_open(twins: TransactionTwins) -> None:
    twins.init()
    twins.produce(12, 0)
    before = twins.producers.copy()
    assert error_of(twins.init()) is E.CONCURRENT_TRANSACTIONS
    assert twins.settle() == "CompleteAbort"
    assert error_of(twins.init()) is E.NONE
    after, twins.producers = twins.producers, before
    assert error_of(twins.produce(12, 2)) is E.INVALID_PRODUCER_EPOCH
    assert error_of(twins.end(5, commit=True)) is E.PRODUCER_FENCED
    twins.producers = after
    twins.fetch()


def test_a_transaction_that_is_open_for_too_long_is_aborted(twins: TransactionTwins) -> None:
    twins.init(timeout_ms=500)
    assert error_of(twins.produce(12, 0)) is E.NONE
    for side in twins.sides:
        wait_until(partial(twins.has_aborted, side), 30, "not aborted")
    assert error_of(twins.produce(12, 2)) is E.INVALID_PRODUCER_EPOCH
    # It is told of its own transaction's end, which was not a commit.
    assert error_of(twins.end(5, commit=True)) is E.INVALID_TXN_STATE
    assert error_of(twins.end(5, commit=False)) is E.NONE
    twins.fetch()
    # Nobody else has come, so it may go on.
    assert error_of(twins.init(goes_on=True)) is E.NONE
    assert error_of(twins.produce(12, 0)) is E.NONE
    assert error_of(twins.end(5, commit=True)) is E.NONE


def stable(twins: TransactionTwins, *, require: bool = True) -> ErrorCode:
    """What both answer to who asks for the group's offsets."""
    topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1, 2])
    group = OffsetFetchRequestGroup(group_id="group", topics=[topic])
    request = OffsetFetchRequest(groups=[group], require_stable=require)
    return error_of(twins.same(always(request), 8))


@pytest.mark.parametrize("version", range(6))
def test_offsets_count_when_their_transaction_does(twins: TransactionTwins, version: int) -> None:
    twins.init()
    if version < 5:
        assert error_of(twins.commit_offsets(version))
        assert error_of(twins.add_offsets(min(version, 4))) is E.NONE
    ending = 5 if version == 5 else 3
    for offset, commit in ((10, True), (20, False), (30, True)):
        if offset > 10 and version < 5:
            twins.add_offsets(min(version, 4))
        assert error_of(twins.commit_offsets(version, offset)) is E.NONE
        assert error_of(twins.commit_offsets(version, offset + 1)) is E.NONE
        assert stable(twins) is E.UNSTABLE_OFFSET_COMMIT
        assert stable(twins, require=False) is E.NONE
        assert error_of(twins.end(ending, commit=commit)) is E.NONE
        twins.settle()
        assert stable(twins) is E.NONE
        assert error_of(twins.commit_offsets(version, offset))
        if version == 5:
            twins.bumped()


def test_offsets_that_a_transaction_may_not_commit(twins: TransactionTwins) -> None:
    twins.init()
    twins.add_offsets(4)
    strangers: tuple[dict[str, object], ...] = (
        {"member_id": "nobody", "generation_id": 1},
        {"generation_id": 1},
        {"member_id": "nobody"},
        {"group_instance_id": "sam"},
        {"group_id": "nobody-s", "generation_id": 3},
    )
    for who in strangers:
        twins.commit_offsets(5, who=who)
    twins.commit_offsets(5, topic="nowhere")
    twins.commit_offsets(5, late=1)
    twins.end(5, commit=False)
    twins.settle()


@pytest.mark.parametrize("version", [1, 2])
def test_markers_that_are_written_by_hand(twins: TransactionTwins, version: int) -> None:
    twins.init()
    twins.init()
    assert error_of(twins.produce(12, 0)) is E.NONE
    # Two of them, since each answer holds the error of the partition that does not exist.
    twins.write_markers(version, commit=False, producer_epoch=0)
    twins.write_markers(version, commit=False, transaction_version=2)
    twins.write_markers(version, commit=False)
    twins.write_markers(version, commit=False)
    twins.write_markers(version, commit=False, coordinator_epoch=-1)
    twins.fetch()
    twins.end(5, commit=False)
    twins.settle()
    twins.fetch()


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed(twins: TransactionTwins, version: int) -> None:
    twins.init()
    twins.produce(12, 0)
    filters: list[dict[str, object]] = [
        {},
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["Dead", "PrepareEpochFence", "Nonsense"]},
        {"producer_id_filters": [123_456]},
    ]
    if version >= 1:
        filters.extend({"duration_filter": each} for each in (0, 3_600_000))
    if version >= 2:
        patterns = ("id-.*", "", "nobody", "(")
        filters.extend({"transactional_id_pattern": each} for each in patterns)
    for each in filters:
        request = ListTransactionsRequest()
        for name, value in each.items():
            setattr(request, name, value)
        twins.both(always(request), version)
    twins.end(5, commit=False)
    twins.settle()


def described(transactional_ids: list[str], side: Side) -> list[Plain]:
    """Transactions as one side describes them, with ids and times only as set or not."""
    request = DescribeTransactionsRequest(transactional_ids=transactional_ids)
    answer = side.client.ask(request, 0, DescribeTransactionsResponse)
    return [
        [
            side.named(plain(each, OUR_OWN | IDS)),
            each.producer_id >= 0,
            each.transaction_start_time_ms > 0,
        ]
        for each in answer.transaction_states
    ]


def test_transactions_are_described_in_each_state(twins: TransactionTwins) -> None:
    own = twins.transactional_id

    def describe() -> None:
        kafka, ours = (described(["nobody", own, "", own], side) for side in twins.sides)
        assert ours == kafka

    describe()
    twins.init()
    describe()
    twins.produce(12, 0)
    twins.produce(12, 0, partition=1)
    describe()
    twins.end(5, commit=True)
    assert twins.settle() == "CompleteCommit"
    describe()


@pytest.mark.parametrize("version", [3, 4, 5])
def test_half_an_identity_is_refused(twins: TransactionTwins, version: int) -> None:
    for transactional_id in (twins.transactional_id, None):
        for producer_id, epoch in ((7, -1), (-1, 7)):
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=producer_id,
                producer_epoch=epoch,
            )
            # Without `ignoring`: a refusal has no id.
            assert error_of(twins.same(always(request), version)) is E.INVALID_REQUEST
        request.producer_id = request.producer_epoch = 7
        twins.both(always(request), version)


def producers_of(twins: TransactionTwins, side: Side, *producer_ids: int) -> list[Plain]:
    """What the partitions of the topic know of these producers."""
    topics = [TopicRequest(name=TOPIC, partition_indexes=[0, 1])]
    answer = side.client.ask(DescribeProducersRequest(topics=topics), 0, DescribeProducersResponse)
    return [
        [
            plain(each, OUR_OWN | {"producer_id", "last_timestamp"}),
            each.last_timestamp == twins.clock,
        ]
        for partition in answer.topics[0].partitions
        for producer_id in producer_ids
        for each in partition.active_producers
        if each.producer_id == producer_id
    ]


def test_producers_are_described_with_their_transactions(twins: TransactionTwins) -> None:
    by_hand = 1_000_000

    def describe(expected: int) -> None:
        kafka, ours = (
            producers_of(twins, side, twins.identity(side)[0], by_hand) for side in twins.sides
        )
        assert ours == kafka
        assert len(kafka) == expected

    twins.init()
    describe(0)
    twins.produce(12, 0)
    twins.produce(12, 2)
    twins.produce(12, 0, partition=1)
    describe(2)
    twins.end(5, commit=False)
    twins.settle()
    describe(2)
    twins.bumped()
    twins.produce(12, 0)
    describe(2)
    twins.end(5, commit=True)
    twins.settle()
    twins.write_markers(1, commit=False, producer_id=by_hand, producer_epoch=4, coordinator_epoch=3)
    describe(3)
