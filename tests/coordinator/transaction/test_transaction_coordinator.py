"""The coordinator in virtual time over a log in memory: waiting, loading, moving, giving up."""

import asyncio
from itertools import count
from typing import TypeVar, cast

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import batches
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.offsets_topic import partition_for
from tierlog.coordinator.result_or_future import ResultOrFuture
from tierlog.coordinator.transaction import transaction_coordinator
from tierlog.coordinator.transaction.transaction_config import TransactionConfig
from tierlog.coordinator.transaction.transaction_coordinator import (
    ProducerIdentity,
    TransactionCoordinator,
)
from tierlog.coordinator.transaction.transaction_markers import Marker
from tierlog.coordinator.transaction.transaction_metadata import Transaction
from tierlog.coordinator.transaction.transaction_records import TransactionEntry, read_transaction
from tierlog.coordinator.transaction.transaction_shard import Addition, Ending, Initialization
from tierlog.coordinator.transaction.transaction_state import TransactionState
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop

from ..memory_offsets_log import MemoryOffsetsLog
from .transaction_partitions import E, Partitions

ID = "an-id"
PARTITION = partition_for(ID, 50)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
COUNT_POSITION = 57
"""Of the number of records, in a batch."""
MINUTE_MS = 60_000
HOUR_S = 3_600
T = TypeVar("T")


class Broker:
    """A coordinator that leads the id's partition."""

    def __init__(self, loop: SimulatedLoop, earlier: "Broker | None" = None) -> None:
        self.log: MemoryOffsetsLog = MemoryOffsetsLog() if earlier is None else earlier.log
        self.partitions: Partitions = Partitions() if earlier is None else earlier.partitions
        self.ids = count(1_000)
        config = TransactionConfig(
            load_buffer_size=150, transactional_id_expiration_ms=8 * HOUR_S * 1_000
        )
        environment = SimulatedEnvironment(loop)
        self.coordinator = TransactionCoordinator(
            config, environment, self.log, self.partitions, take_producer_id=lambda: None
        )
        image = ClusterImage("cluster", features={"transaction.version": 2})
        empty = ClusterImage("cluster")
        self.coordinator.publish(image, ClusterDelta.between(empty, image))
        self.coordinator.start()

    async def elect(self, leader_epoch: int = 0) -> None:
        self.coordinator.on_elected(PARTITION, leader_epoch)
        for _ in range(1_000):
            if self.coordinator.transactions() is not E.COORDINATOR_LOAD_IN_PROGRESS:
                return
            await asyncio.sleep(0)
        raise AssertionError("the log was never read to its end")

    async def initialize(self, timeout_ms: int = MINUTE_MS) -> ProducerIdentity:
        request = Initialization(ID, timeout_ms, None)
        answer = self.coordinator.initialize(request, lambda: next(self.ids))
        assert answer is not None
        return await later(answer)

    async def add(self, who: ProducerIdentity, *partitions: TopicPartition) -> ErrorCode:
        addition = Addition(
            ID, who.producer_id, who.producer_epoch, frozenset(partitions), client_version=2
        )
        return await later(self.coordinator.add_partitions(addition))

    async def end(self, who: ProducerIdentity, *, commit: bool) -> ProducerIdentity:
        request = Ending(ID, who.producer_id, who.producer_epoch, commit, client_version=2)
        answer = self.coordinator.end(request, lambda: next(self.ids))
        assert answer is not None
        return await later(answer)

    def state(self) -> TransactionState:
        found = self.coordinator.describe(ID)
        assert isinstance(found, Transaction), found
        return found.state

    def state_error(self) -> ErrorCode:
        found = self.coordinator.describe(ID)
        assert isinstance(found, ErrorCode)
        return found

    @property
    def entries(self) -> list[TransactionEntry]:
        """What the log holds of the id."""
        found = [
            read_transaction(record.key or b"", record.value)
            for batch in batches(bytes(self.log.partitions.get(PARTITION, b"")))
            for record in batch.records()
        ]
        return [each for each in found if each is not None]

    @property
    def states(self) -> list[TransactionState | None]:
        return [each.transaction.state if each.transaction else None for each in self.entries]


async def later(answer: ResultOrFuture[T]) -> T:
    if not isinstance(answer, asyncio.Future):
        return answer
    return await cast("asyncio.Future[T]", answer)


async def test_a_transaction_is_decided_in_the_log_and_then_everywhere(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect(7)
    who = await broker.initialize()
    assert who == (E.NONE, 1_000, 0)
    assert await broker.add(who, P0) is E.NONE
    assert await broker.add(who, P0, P1) is E.NONE
    following = await broker.end(who, commit=True)
    assert following == (E.NONE, 1_000, 1)
    await asyncio.sleep(1)
    marker = Marker(1_000, 1, 7, is_commit=True, version=2)
    assert broker.partitions.markers == [(marker, P0), (marker, P1)]
    S = TransactionState
    decided = [S.PREPARE_COMMIT, S.COMPLETE_COMMIT]
    assert broker.states == [S.EMPTY, S.ONGOING, S.ONGOING, *decided]
    assert await broker.end(who, commit=True) == following
    assert (await broker.end(who, commit=False)).error is E.INVALID_TXN_STATE
    broker.coordinator.stop()


async def test_answers_wait_for_the_log(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    broker.log.delay_s = 1
    started = loop.time()
    who = await broker.initialize()
    assert loop.time() - started >= 1
    adding = asyncio.ensure_future(broker.add(who, P0))
    await asyncio.sleep(0)
    # One transition at a time: whoever comes meanwhile comes again.
    assert await broker.add(who, P1) is E.CONCURRENT_TRANSACTIONS
    assert (await broker.initialize()).error is E.CONCURRENT_TRANSACTIONS
    assert await adding is E.NONE
    assert (await broker.end(who, commit=False)).error is E.NONE
    assert broker.state() is TransactionState.PREPARE_ABORT
    await asyncio.sleep(2)
    assert broker.state() is TransactionState.COMPLETE_ABORT
    broker.coordinator.stop()


async def test_what_the_log_refuses_has_not_happened_and_may_be_tried_again(
    loop: SimulatedLoop,
) -> None:
    broker = Broker(loop)
    await broker.elect()
    broker.log.refuse = E.NOT_ENOUGH_REPLICAS
    assert (await broker.initialize()).error is E.COORDINATOR_NOT_AVAILABLE
    broker.log.refuse = E.NONE
    who = await broker.initialize()
    assert who == (E.NONE, 1_000, 0)
    broker.log.refuse = E.NOT_LEADER_OR_FOLLOWER
    assert await broker.add(who, P0) is E.NOT_COORDINATOR
    broker.log.refuse = E.NONE
    assert await broker.add(who, P0) is E.NONE
    broker.log.refuse = E.REQUEST_TIMED_OUT
    assert (await broker.end(who, commit=True)).error is E.COORDINATOR_NOT_AVAILABLE
    assert broker.state() is TransactionState.ONGOING
    broker.log.refuse = E.NONE
    assert (await broker.end(who, commit=True)).error is E.NONE
    broker.coordinator.stop()


async def test_markers_are_sent_until_every_partition_has_one(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    who = await broker.initialize()
    gone = TopicPartition("gone", 0)
    await broker.add(who, P0, P1, gone)
    broker.partitions.refuse = {P1: E.NOT_LEADER_OR_FOLLOWER, gone: E.UNKNOWN_TOPIC_OR_PARTITION}
    await broker.end(who, commit=True)
    await asyncio.sleep(10)
    assert broker.state() is TransactionState.PREPARE_COMMIT
    found = broker.coordinator.describe(ID)
    assert isinstance(found, Transaction)
    assert found.partitions == {P1}
    assert [each for _, each in broker.partitions.markers] == [P0]
    broker.partitions.refuse = {}
    # The last record of the transaction is repeated until the log has it.
    broker.log.refuse = E.NOT_ENOUGH_REPLICAS
    await asyncio.sleep(1)
    assert broker.state() is TransactionState.PREPARE_COMMIT
    broker.log.refuse = E.NONE
    await asyncio.sleep(1)
    assert broker.state() is TransactionState.COMPLETE_COMMIT
    assert [each for _, each in broker.partitions.markers] == [P0, P1]
    broker.coordinator.stop()


async def test_of_too_many_that_wait_for_markers_the_next_has_to_retry(
    loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(loop)
    await broker.elect()
    who = await broker.initialize()
    await broker.add(who, P0)
    monkeypatch.setattr(transaction_coordinator, "_UNMARKED_MAX", 0)
    assert (await broker.end(who, commit=True)).error is E.CONCURRENT_TRANSACTIONS
    assert broker.state() is TransactionState.ONGOING
    monkeypatch.setattr(transaction_coordinator, "_UNMARKED_MAX", 1)
    assert (await broker.end(who, commit=True)).error is E.NONE
    broker.coordinator.stop()


async def test_what_was_decided_is_carried_out_by_whoever_leads_next(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect(3)
    who = await broker.initialize()
    await broker.add(who, P0, P1)
    broker.partitions.refuse = {P1: E.NOT_LEADER_OR_FOLLOWER}
    await broker.end(who, commit=True)
    broker.coordinator.on_resigned(PARTITION)
    assert (await broker.initialize()).error is E.NOT_COORDINATOR
    broker.partitions.refuse = {}
    following = Broker(loop, broker)
    await following.elect(4)
    await asyncio.sleep(1)
    assert following.state() is TransactionState.COMPLETE_COMMIT
    epochs = {
        (marker.coordinator_epoch, marker.is_commit) for marker, _ in following.partitions.markers
    }
    assert epochs == {(3, True), (4, True)}
    # The answer of the old leader may have been lost.
    assert await following.end(who, commit=True) == (E.NONE, 1_000, 1)
    assert broker.state_error() is E.NOT_COORDINATOR
    broker.coordinator.stop()
    following.coordinator.stop()


async def test_a_damaged_batch_does_not_keep_the_transactions_from_being_served(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """Found beside Apache Kafka, which passes over a batch whose count of records became zero."""
    broker = Broker(loop)
    await broker.elect()
    who = await broker.initialize()
    log = broker.log.partitions[PARTITION]
    begin = len(log)
    await broker.add(who, P0)
    log[begin + COUNT_POSITION : begin + COUNT_POSITION + 4] = bytes(4)
    await broker.end(who, commit=True)
    broker.coordinator.on_resigned(PARTITION)
    await broker.elect(1)
    assert broker.state() is TransactionState.COMPLETE_COMMIT
    broker.coordinator.stop()
    assert "__transaction_state-" in caplog.text


async def test_a_transaction_that_is_left_open_is_aborted_also_after_a_restart(
    loop: SimulatedLoop,
) -> None:
    broker = Broker(loop)
    await broker.elect()
    who = await broker.initialize(timeout_ms=30_000)
    await broker.add(who, P0)
    await asyncio.sleep(15)
    broker.coordinator.stop()
    following = Broker(loop, broker)
    await following.elect(1)
    assert following.state() is TransactionState.ONGOING
    await asyncio.sleep(30)
    assert following.state() is TransactionState.COMPLETE_ABORT
    marker = Marker(1_000, 1, 1, is_commit=False, version=2)
    assert following.partitions.markers == [(marker, P0)]
    assert await following.add(who, P1) is E.PRODUCER_FENCED
    following.coordinator.stop()


async def test_ids_that_nobody_uses_are_forgotten(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    who = await broker.initialize()
    await broker.add(who, P0)
    await asyncio.sleep(4 * HOUR_S)
    await broker.initialize()
    await asyncio.sleep(7 * HOUR_S)
    assert broker.state() is TransactionState.EMPTY
    await asyncio.sleep(3 * HOUR_S)
    assert broker.coordinator.describe(ID) is E.TRANSACTIONAL_ID_NOT_FOUND
    assert broker.states[-1] is None
    following = Broker(loop, broker)
    await following.elect(1)
    assert following.coordinator.transactions() == []
    broker.coordinator.stop()
    following.coordinator.stop()


async def test_while_the_log_is_read_no_event_is_sent(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    who = await broker.initialize()
    for _ in range(20):
        who = await broker.initialize()
    following = Broker(loop, broker)
    following.coordinator.on_elected(PARTITION, 1)
    assert following.coordinator.transactions() is E.COORDINATOR_LOAD_IN_PROGRESS
    assert await following.add(who, P0) is E.COORDINATOR_LOAD_IN_PROGRESS
    await following.elect(1)
    assert await following.add(who, P0) is E.NONE
    broker.log.unreadable.add(PARTITION)
    following.coordinator.on_elected(PARTITION, 2)
    assert await following.add(who, P0) is E.NOT_COORDINATOR
    broker.coordinator.stop()
    following.coordinator.stop()


async def test_a_compacted_log_says_the_same(loop: SimulatedLoop) -> None:
    broker = Broker(loop)
    await broker.elect()
    who = await broker.initialize()
    for commit in (True, False, True):
        await broker.add(who, P0)
        who = await broker.end(who, commit=commit)
        await asyncio.sleep(1)
    whole = Broker(loop, broker)
    await whole.elect(1)
    everything = whole.coordinator.transactions()
    last = list(batches(bytes(broker.log.partitions[PARTITION])))[-1]
    broker.log.partitions[PARTITION] = bytearray(last.view)
    compacted = Broker(loop, broker)
    await compacted.elect(1)
    assert compacted.coordinator.transactions() == everything != []
    for each in (broker, whole, compacted):
        each.coordinator.stop()
