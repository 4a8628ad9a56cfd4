"""No transaction is torn and no epoch comes back, whatever is interleaved.

A walk draws requests of producers old and new, writes that succeed, fail, or fail and are in the
log all the same, markers that arrive one by one, twice or not at all, time that passes, and crashes
at any of these points, after which another shard goes on from the log. At the end everything is let
through, and what was decided must be so in every partition.
"""

from enum import Enum
from typing import NamedTuple

from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode
from tierlog.clients.record.batch import RecordBatch
from tierlog.clients.record.builder import RecordBatchBuilder
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator.led_shards import ShardEvent, ShardState
from tierlog.coordinator.transaction.transaction_metadata import EPOCH_MAX, Transaction
from tierlog.coordinator.transaction.transaction_records import transaction_record
from tierlog.coordinator.transaction.transaction_shard import (
    Addition,
    Ending,
    Initialization,
    SendMarkers,
    TransactionShard,
    Transition,
)
from tierlog.coordinator.transaction.transaction_state import TransactionState

IDS = ("a", "b")
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))
DECIDED = {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
FAILED = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Answer(Enum):
    """Who waits for a write."""

    NEW_PRODUCER = 1
    PRODUCER = 2
    NOBODY = 3


class Write(NamedTuple):
    """A write under way."""

    transition: Transition
    answer: Answer


class World:
    """A shard, its log, the partitions, and everything that has been said."""

    def __init__(self, version: int, first_epoch: int) -> None:
        self.version = version
        self.now_ms = 1_000
        self.next_id = 100
        self.log: list[Transaction] = []
        self.writes: list[Write] = []
        self.sends: list[SendMarkers] = []
        # What each partition was told about each decision, by producer id and epoch and time.
        self.markers: dict[tuple[int, int, int], dict[TopicPartition, bool]] = {}
        self.due_markers: dict[tuple[int, int, int], frozenset[TopicPartition]] = {}
        self.epochs: dict[tuple[int, int], int] = {}
        self.identities: dict[str, list[tuple[int, int]]] = {each: [] for each in IDS}
        self.shard = self.elected()
        for each in IDS:
            # Near the end of the epochs much is different.
            transaction = Transaction(
                each, self.take(), first_epoch, 500, TransactionState.EMPTY, frozenset(), 1
            )
            self.log.append(transaction)
            self.identities[each].append((transaction.producer_id, first_epoch))
        self.crash()

    def take(self) -> int:
        self.next_id += 1
        return self.next_id

    def elected(self) -> TransactionShard:
        shard = TransactionShard(0, 1)
        shard.transaction_version = self.version
        return shard

    def crash(self) -> None:
        """Another shard goes on from the log."""
        self.writes.clear()
        self.sends.clear()
        self.shard = self.elected()
        for transaction in self.log:
            builder = RecordBatchBuilder()
            key, value = transaction_record(transaction, self.version)
            builder.append(0, key, value)
            self.shard.replay(RecordBatch(memoryview(builder.build())))
        self.shard.apply(ShardEvent.LOADED)
        self.send(self.shard.resume(self.now_ms))
        assert self.shard.state is ShardState.ACTIVE

    def send(self, sends: list[SendMarkers]) -> None:
        for each in sends:
            decided = each.transaction
            key = (decided.producer_id, decided.producer_epoch, decided.start_ms)
            if self.version >= 2:
                begun = self.epochs.setdefault(key[:2], decided.start_ms)
                assert begun == decided.start_ms, "Two transactions in one epoch."
            self.due_markers[key] = self.due_markers.get(key, frozenset()) | decided.partitions
            self.sends.append(each)

    def begin(self, transition: Transition | None, answer: Answer = Answer.PRODUCER) -> None:
        assert transition is not None
        if transition.target is not None:
            self.writes.append(Write(transition, answer))

    def initialize(self, who: str, age: int | None) -> None:
        known = None if age is None else self.identity(who, age)
        request = Initialization(who, 500, known)
        transition = self.shard.initialize(request, self.take, self.now_ms)
        self.begin(transition, Answer.NEW_PRODUCER if known is None else Answer.PRODUCER)

    def identity(self, who: str, age: int) -> tuple[int, int]:
        """What the producer was told last, or so many times before."""
        return self.identities[who][-1 - age % len(self.identities[who])]

    def add(self, who: str, age: int, number: int) -> None:
        self.now_ms += 1  # No two transactions of a producer begin at once.
        partition = PARTITIONS[number % len(PARTITIONS)]
        addition = Addition(who, *self.identity(who, age), frozenset({partition}), self.version)
        self.begin(self.shard.add_partitions(addition, self.now_ms))

    def end(self, who: str, age: int, is_commit: bool) -> None:
        request = Ending(who, *self.identity(who, age), is_commit, self.version)
        self.begin(self.shard.end(request, self.take, self.now_ms))

    def pass_time(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        for target in self.shard.timed_out(self.now_ms, self.take):
            self.begin(Transition(ErrorCode.NONE, target), Answer.NOBODY)

    def write(self, outcome: int) -> None:
        """The oldest write is done: well, badly, or badly as far as anyone knows."""
        if not self.writes:
            return
        transition, answer = self.writes.pop(0)
        target = transition.target
        assert target is not None
        if outcome != 1:
            self.log.append(target)
        error = ErrorCode.NONE if outcome == 0 else FAILED
        completed = target.state in (
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )
        self.send(self.shard.written(target, error, self.now_ms))
        if error and completed:
            self.writes.append(Write(transition, answer))
        elif not error and not transition.error and answer is not Answer.NOBODY:
            self.report(target, answer)

    def report(self, target: Transaction, answer: Answer) -> None:
        answers = self.identities[target.transactional_id]
        following = target
        if target.state in DECIDED and target.bumps_epoch:
            following = target.completed(self.now_ms)
        identity = (following.producer_id, following.producer_epoch)
        if answer is Answer.NEW_PRODUCER:
            assert identity not in answers, "A producer that comes anew has an epoch of its own."
        if identity != answers[-1]:
            earlier = [epoch for producer_id, epoch in answers if producer_id == identity[0]]
            assert all(epoch <= identity[1] for epoch in earlier), "An epoch came back."
            assert 0 <= identity[1] < EPOCH_MAX, "One epoch is kept to fence the producer with."
            answers.append(identity)

    def deliver(self, which: int, number: int, *, is_lost: bool) -> None:
        """One marker reaches its partition; the coordinator may never hear of it."""
        if not self.sends:
            return
        decided = self.sends[which % len(self.sends)].transaction
        remaining = self.shard.get(decided.transactional_id)
        assert remaining is not None
        partitions = sorted(remaining.partitions)
        chosen = partitions[number % len(partitions) :][:1] if partitions else []
        for partition in chosen:
            self.mark(decided, partition)
        if is_lost:
            return
        target = self.shard.markers_written(decided.transactional_id, chosen, self.now_ms)
        if target is not None:
            self.sends = [each for each in self.sends if each.transaction is not decided]
            self.begin(Transition(ErrorCode.NONE, target), Answer.NOBODY)

    def mark(self, decided: Transaction, partition: TopicPartition) -> None:
        key = (decided.producer_id, decided.producer_epoch, decided.start_ms)
        is_commit = decided.state is TransactionState.PREPARE_COMMIT
        outcomes = self.markers.setdefault(key, {})
        assert all(known is is_commit for known in outcomes.values()), "A torn transaction."
        outcomes[partition] = is_commit

    def drain(self) -> None:
        """Everything that is under way gets through."""
        while self.writes or self.sends:
            self.write(0)
            self.deliver(0, 0, is_lost=False)
        for each in self.shard.transactions:
            assert each.state not in DECIDED
        for key, partitions in self.due_markers.items():
            assert frozenset(self.markers.get(key, ())) == partitions, "A marker is missing."


# Mostly one id and its present epoch, and mostly writes that succeed: else nothing ever happens.
WHO = st.sampled_from("aaab")
AGE = st.sampled_from((0, 0, 0, 0, 1, 2))
WRITE = st.tuples(st.just("write"), st.sampled_from((0, 0, 0, 0, 1, 2)))
ADD = st.tuples(st.just("add"), WHO, AGE, st.integers(0, 2))
END = st.tuples(st.just("end"), WHO, AGE, st.booleans())
DELIVER = st.tuples(
    st.just("deliver"), st.integers(0, 1), st.integers(0, 2), st.sampled_from((False, False, True))
)
OTHERS = st.one_of(
    st.tuples(st.just("initialize"), WHO, st.one_of(st.none(), AGE)),
    st.tuples(st.just("pass_time"), st.sampled_from((1, 400, 600))),
    st.tuples(st.just("crash")),
)
STEPS = st.lists(
    st.one_of(WRITE, ADD, END, DELIVER, WRITE, DELIVER, OTHERS), min_size=30, max_size=80
)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from((0, 2)), st.sampled_from((0, 32_763)), STEPS)
def test_no_transaction_is_torn_and_no_epoch_comes_back(
    version: int, first_epoch: int, steps: list[tuple[object, ...]]
) -> None:
    world = World(version, first_epoch)
    for name, *values in steps:
        match name, values:
            case "deliver", [int(which), int(number), bool(is_lost)]:
                world.deliver(which, number, is_lost=is_lost)
            case "initialize", [str(who), age] if age is None or isinstance(age, int):
                world.initialize(who, age)
            case "add", [str(who), int(age), int(number)]:
                world.add(who, age, number)
            case "end", [str(who), int(age), bool(is_commit)]:
                world.end(who, age, is_commit)
            case "write", [int(outcome)]:
                world.write(outcome)
            case "pass_time", [int(delay_ms)]:
                world.pass_time(delay_ms)
            case _:
                world.crash()
    world.drain()
