"""Fetches that wait, beside a fresh look at all their partitions after each change.

Only the partition that has changed is looked at (`DelayedFetch.try_complete_for`). That is right if
every change is signalled, and if what the last look found of the others still holds.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.topic_partition import TopicIdPartition, TopicPartition
from tierlog.replication.leader.delayed_fetch import DelayedFetch
from tierlog.replication.leader.log_reader import LogReader
from tierlog.replication.metadata.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tierlog.replication.partition.append_data import AppendEntry, AppendRequest
from tierlog.replication.partition.fetch_data import FetchParams, FetchPartition, FetchResults
from tierlog.storage.files import FileRegion
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.producer.producer_entry import AppendOrigin
from tierlog.tests.replication.broker_node import batch_of, values_in
from tierlog.tests.replication.leaders_quota import listed, rated, within
from tierlog.tests.replication.three_replicas import (
    LEADER,
    SECOND,
    T0,
    THIRD,
    TOPIC_ID,
    Leader,
    one_leader,
)
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.storage.log_home import idempotent, marker

T0_ID = TopicIdPartition(TOPIC_ID, "t", 0)
PARTITIONS = 4
STEPS = 150
WAITING_MAX = 12
FOREVER_MS = 10_000_000


class Waiting(NamedTuple):
    params: FetchParams
    asked: list[FetchPartition]
    answer: "asyncio.Future[FetchResults]"


def readable(results: FetchResults) -> list[tuple[object, ...]]:
    """The results with the bytes of their records, which are regions of files."""
    return [
        (
            each.error_code,
            each.high_watermark,
            each.last_stable_offset,
            each.log_start_offset,
            each.diverging_epoch,
            each.aborted_transactions,
            each.records.read() if isinstance(each.records, FileRegion) else each.records,
        )
        for each in results
    ]


class Walk:
    """Random changes of one topic's partitions while fetches wait."""

    def __init__(self, leader: Leader, chance: Random) -> None:
        self.leader = leader
        self.chance = chance
        self.topic_id = Uuid(b"w" * 16)
        self.made = 0
        self.waiting: list[Waiting] = []
        self.answered = 0
        self.open: dict[int, int] = {}
        """The next sequence number of the open transaction, by partition."""
        self.changes: list[Callable[[TopicPartition], object]] = [
            *[self.append] * 4,
            *[self.replicate] * 8,
            self.transact,
            self.end_transaction,
            self.shrink,
            self.elect,
            self.delete_records,
            self.hear_of_a_high_watermark,
            self.make_again,
        ]

    def make(self) -> None:
        self.made += 1
        self.topic_id = Uuid(bytes([self.made]) * 16)
        self.open.clear()
        self.leader.publish(
            TopicRecord(name="w", topic_id=self.topic_id),
            *(
                PartitionRecord(
                    partition_id=number,
                    topic_id=self.topic_id,
                    replicas=[LEADER, SECOND, THIRD],
                    isr=[LEADER, SECOND, THIRD],
                    leader=LEADER,
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for number in range(PARTITIONS)
            ),
        )

    def step(self) -> str:
        """One change, or one more fetch that waits; returns its name."""
        if len(self.waiting) < WAITING_MAX and self.chance.random() < 0.4:
            self.fetch()
            return "fetch"
        change = self.chance.choice(self.changes)
        change(TopicPartition("w", self.chance.randrange(PARTITIONS)))
        return change.__name__

    def send(
        self, name: TopicPartition, batch: memoryview, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> None:
        request = AppendRequest([AppendEntry(name, batch)], acks=1, origin=origin)
        self.leader.replicas.append_records(request)

    def append(self, name: TopicPartition) -> None:
        """Sometimes to a new segment."""
        if self.chance.random() < 0.2:
            self.leader.replicas.partition(name).log.roll(1)
        self.send(name, batch_of(*[b"x" * self.chance.choice((1, 100, 900))]))

    def transact(self, name: TopicPartition) -> None:
        sequence = self.open.get(name.partition, 0)
        self.open[name.partition] = sequence + 1
        self.send(name, idempotent(sequence, 1, txn=True))

    def end_transaction(self, name: TopicPartition) -> None:
        kind = self.chance.choice((ControlRecordType.ABORT, ControlRecordType.COMMIT))
        self.send(name, marker(kind), AppendOrigin.COORDINATOR)

    def replicate(self, name: TopicPartition) -> None:
        """A follower has fetched up to some offset."""
        partition = self.leader.replicas.partition(name)
        if not partition.is_leader:
            return
        log = partition.log
        offset = self.chance.randint(log.high_watermark, log.log_end_offset)
        asked = FetchPartition(self.id_of(name), offset, 1, log_start_offset=0)
        follower = self.chance.choice((SECOND, THIRD))
        params = FetchParams(follower, max_wait_ms=0, isolation=FetchIsolation.LOG_END)
        self.leader.replicas.leader_fetch.fetch(params, [asked])

    def shrink(self, name: TopicPartition) -> None:
        """Or the whole ISR is back."""
        isr = self.chance.choice(([LEADER], [LEADER, SECOND], [LEADER, SECOND, THIRD]))
        self.change(name, isr=isr)

    def elect(self, name: TopicPartition) -> None:
        leader = self.chance.choice((LEADER, LEADER, SECOND))
        self.change(name, leader=leader)

    def change(self, name: TopicPartition, isr: list[int] | None = None, leader: int = -2) -> None:
        self.leader.publish(
            PartitionChangeRecord(
                partition_id=name.partition, topic_id=self.topic_id, isr=isr, leader=leader
            )
        )

    def delete_records(self, name: TopicPartition) -> None:
        log = self.leader.replicas.partition(name).log
        offset = self.chance.randint(log.log_start_offset, log.high_watermark)
        self.leader.replicas.delete_records([(name, offset)], 0)

    def hear_of_a_high_watermark(self, name: TopicPartition) -> None:
        partition = self.leader.replicas.partition(name)
        if not partition.is_leader:
            log = partition.log
            log.update_high_watermark(self.chance.randint(log.high_watermark, log.log_end_offset))
            self.leader.replicas.on_high_watermark(name)

    def make_again(self, name: TopicPartition) -> None:
        if self.chance.random() < 0.2:
            self.leader.publish(RemoveTopicRecord(topic_id=self.topic_id))
            # The first partition that goes answers, while the others are still there.
            self.look(compares=False)
            self.make()

    def id_of(self, name: TopicPartition) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, "w", name.partition)

    def fetch(self) -> None:
        """Of random partitions, some of them named twice."""
        chance = self.chance
        numbers = [chance.randrange(PARTITIONS) for _ in range(chance.randint(1, 6))]
        asked: list[FetchPartition] = []
        for number in numbers:
            name = TopicPartition("w", number)
            partition = self.leader.replicas.partition(name)
            log = partition.log
            asked.append(
                FetchPartition(
                    self.id_of(name),
                    chance.randint(log.log_start_offset, log.log_end_offset),
                    chance.choice((100, 400, 1 << 20)),
                    chance.choice((-1, partition.leader_epoch)),
                    chance.choice((-1, -1, max(0, log.leader_epochs.latest_epoch))),
                )
            )
        isolation = chance.choice(list(FetchIsolation))
        is_follower = isolation is FetchIsolation.LOG_END
        params = FetchParams(
            chance.choice((SECOND, THIRD)) if is_follower else -1,
            max_wait_ms=FOREVER_MS,
            min_bytes=chance.choice((1, 1, 300, 1_500, 4_000)),
            isolation=isolation,
            rack=None if is_follower else chance.choice((None, "", "b")),
        )
        answer = self.leader.replicas.leader_fetch.fetch(params, asked)
        if isinstance(answer, asyncio.Future) and not answer.done():
            self.waiting.append(Waiting(params, asked, answer))

    def look(self, *, compares: bool = True) -> None:
        """Each waiting fetch is answered exactly if a look at all its partitions says so."""
        reader = LogReader(self.leader.replicas.partition, _no_leader, _unnoted)
        for each in list(self.waiting):
            fresh = DelayedFetch(each.params, each.asked, reader, lambda: None)
            assert each.answer.done() == fresh.try_complete(), each
            if each.answer.done():
                self.waiting.remove(each)
                self.answered += 1
                now = reader.read(each.params, each.asked, has_waited=True).results
                assert not compares or readable(each.answer.result()) == readable(now)


def _no_leader(_: TopicPartition) -> None:
    return None


def _unnoted(*_: object) -> None:
    pass


def replicated(leader: Leader, end: int) -> None:
    """Both followers have everything below `end`."""
    for follower in (SECOND, THIRD):
        leader.follow(follower, end)


def waits(
    leader: Leader, params: FetchParams, *asked: FetchPartition
) -> "asyncio.Future[FetchResults]":
    answer = leader.replicas.leader_fetch.fetch(params, asked)
    assert isinstance(answer, asyncio.Future)
    assert not answer.done()
    return answer


async def test_a_fetch_does_not_wait_for_bytes_that_its_read_will_not_return(
    leader: Leader,
) -> None:
    """A read ends with its segment, so nothing comes of waiting once there is a later one."""
    leader.append(b"first", acks=1)
    params = FetchParams(max_wait_ms=FOREVER_MS, min_bytes=10_000)
    replicated(leader, 1)
    answer = waits(leader, params, FetchPartition(T0_ID, 0, 1 << 20))
    leader.replicas.partition(T0).log.roll(1)
    leader.append(b"second", acks=1)
    assert not answer.done()
    replicated(leader, 2)
    (result,) = answer.result()
    assert (values_in(result), result.high_watermark) == ([b"first"], 2)
    # What is there when it is asked for is answered at once.
    again = leader.replicas.leader_fetch.fetch(params, [FetchPartition(T0_ID, 0, 1 << 20)])
    assert isinstance(again, list) or again.done()
    waits(leader, params, FetchPartition(T0_ID, 1, 1 << 20)).cancel()


async def test_a_fetcher_hears_of_its_divergence_however_many_bytes_it_waits_for(
    leader: Leader,
) -> None:
    """This broker follows, and its log is cut below what a consumer has read of it."""
    for value in (b"a", b"b", b"c"):
        leader.append(value, acks=1)
    replicated(leader, 3)
    leader.change(leader=SECOND)
    params = FetchParams(max_wait_ms=FOREVER_MS, min_bytes=10_000, rack="")
    answer = waits(leader, params, FetchPartition(T0_ID, 2, 1 << 20, last_fetched_epoch=0))
    log = leader.replicas.partition(T0).log
    log.truncate_to(1)
    records = [Record(0, 1_000, None, b"other", ()) for _ in range(3)]
    batch = build_batch(records, base_offset=1, leader_epoch=1)
    log.append_as_follower(memoryview(batch), 1)
    log.update_high_watermark(4)
    leader.replicas.on_high_watermark(T0)
    (result,) = answer.result()
    assert (result.diverging_epoch.epoch, result.diverging_epoch.end_offset) == (0, 1)
    assert not result.records


async def test_a_fetch_of_records_that_are_deleted_is_answered(leader: Leader) -> None:
    leader.append(b"x", acks=1)
    replicated(leader, 1)
    params = FetchParams(max_wait_ms=FOREVER_MS, min_bytes=10_000)
    answer = waits(leader, params, FetchPartition(T0_ID, 0, 1 << 20))
    leader.replicas.delete_records([(T0, 1)], 0)
    (result,) = answer.result()
    assert result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_what_a_quota_no_longer_holds_back_counts_at_the_next_change_of_any_partition(
    loop: SimulatedLoop,
) -> None:
    quota = rated()
    async with one_leader(loop, within(quota)) as leader:
        leader.publish(
            PartitionRecord(
                partition_id=1,
                topic_id=TOPIC_ID,
                replicas=[LEADER, SECOND, THIRD],
                isr=[LEADER, SECOND, THIRD],
                leader=LEADER,
                leader_epoch=0,
                partition_epoch=0,
            )
        )
        leader.change(isr=[LEADER, SECOND])
        listed(leader, "*")
        leader.append(b"x" * 400, acks=1)
        quota.record(100_000, loop.time())
        params = FetchParams(
            THIRD, max_wait_ms=FOREVER_MS, min_bytes=300, isolation=FetchIsolation.LOG_END
        )
        other = FetchPartition(TopicIdPartition(TOPIC_ID, "t", 1), 0, 1 << 20)
        answer = waits(leader, params, FetchPartition(T0_ID, 0, 1 << 20), other)
        entry = AppendEntry(TopicPartition("t", 1), batch_of(b"y"))
        leader.replicas.append_records(AppendRequest([entry], acks=1))
        assert not answer.done()
        await asyncio.sleep(60)
        entry = AppendEntry(TopicPartition("t", 1), batch_of(b"z"))
        leader.replicas.append_records(AppendRequest([entry], acks=1))
        first, second = answer.result()
        assert (len(values_in(first)), values_in(second)) == (1, [b"y", b"z"])


@pytest.mark.parametrize("seed", range(25))
async def test_a_look_at_what_changed_finds_what_a_look_at_all_would(
    leader: Leader, seed: int
) -> None:
    walk = Walk(leader, Random(seed))
    walk.make()
    steps: list[str] = []
    for _ in range(STEPS):
        steps.append(walk.step())
        try:
            # A follower's fetch moves the high watermarks of several partitions, one by one.
            walk.look(compares=steps[-1] != "fetch")
        except AssertionError as error:
            raise AssertionError(f"after {steps[-3:]}") from error
    assert walk.answered > 5
    for each in walk.waiting:
        each.answer.cancel()
    await asyncio.sleep(0)
    assert not len(leader.replicas.leader_fetch.purgatory)
    assert not leader.replicas.leader_fetch.purgatory.watched
