"""Batches are full, lingering, flushed, retried or expired; order and sequences hold throughout."""

import asyncio
from collections.abc import Callable

from tierlog.clients.producer.accumulator import (
    ProducerBatch,
    ProducerIdAndEpoch,
    ProducerRecord,
    RecordAccumulator,
    RecordMetadata,
)
from tierlog.clients.record.batch import batches
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.simulation.loop import simulate

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
IDENTITY = ProducerIdAndEpoch(7, 0)


class Fixture:
    """An accumulator with room for three small records a batch, and a second of linger."""

    def __init__(self) -> None:
        self.record = ProducerRecord(5, None, bytes(59))
        self.accumulator = RecordAccumulator(
            batch_bytes=3 * self.record.size_bytes, linger_seconds=1.0, buffer_bytes_max=1000
        )
        self.futures: list[asyncio.Future[RecordMetadata]] = []

    def append(self, now: float, partition: TopicPartition = T0) -> bool:
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        return self.accumulator.append(partition, self.record, future, now)

    def take(self, identity: ProducerIdAndEpoch | None = None) -> ProducerBatch:
        return self.accumulator.take(T0, identity)


def with_a_loop(story: Callable[[Fixture], None]) -> None:
    async def body(_: object) -> None:
        story(Fixture())

    simulate(body)


def test_a_batch_is_ready_when_its_linger_is_over() -> None:
    def story(it: Fixture) -> None:
        assert not it.append(now=10.0)
        assert it.accumulator.ready(10.5) == ([], 11.0)
        assert it.accumulator.ready(11.0) == ([T0], None)

    with_a_loop(story)


def test_a_batch_is_ready_when_it_is_full_or_another_stands_behind_it() -> None:
    def story(it: Fixture) -> None:
        assert [it.append(10.0) for _ in range(4)] == [False, False, True, True]
        assert it.accumulator.ready(10.0) == ([T0], None)
        assert len(it.take().records) == 3

    with_a_loop(story)


def test_a_flush_makes_everything_ready() -> None:
    def story(it: Fixture) -> None:
        it.append(10.0)
        it.append(10.0, T1)
        it.accumulator.begin_flush()
        assert it.accumulator.ready(10.0) == ([T0, T1], None)
        it.accumulator.end_flush()
        assert it.accumulator.ready(10.0) == ([], 11.0)

    with_a_loop(story)


def test_one_batch_of_a_partition_is_under_way_at_a_time() -> None:
    def story(it: Fixture) -> None:
        for _ in range(6):
            it.append(10.0)
        first = it.take()
        assert it.accumulator.ready(20.0) == ([], None)
        assert it.accumulator.finish(first)
        assert it.accumulator.ready(20.0) == ([T0], None)

    with_a_loop(story)


def test_a_batch_to_be_retried_stays_first_and_takes_no_more_records() -> None:
    def story(it: Fixture) -> None:
        it.append(10.0)
        first = it.take(IDENTITY)
        it.append(10.0)
        it.accumulator.requeue(first, retry_at=15.0)
        assert it.accumulator.ready(14.0) == ([], 15.0)
        assert it.accumulator.ready(15.0) == ([T0], None)
        assert it.take(IDENTITY) is first
        assert (len(first.records), first.attempts, first.base_sequence) == (1, 2, 0)

    with_a_loop(story)


def test_sequences_count_records_and_begin_anew_with_a_new_identity() -> None:
    def story(it: Fixture) -> None:
        for _ in range(6):
            it.append(10.0)
        first = it.take(IDENTITY)
        it.accumulator.finish(first)
        second = it.take(IDENTITY)
        assert (first.base_sequence, second.base_sequence) == (0, 3)
        it.accumulator.requeue(second, retry_at=0)
        it.accumulator.forget_sequences()
        again = it.take(ProducerIdAndEpoch(8, 0))
        assert (again is second, again.base_sequence) == (True, 0)
        (built,) = batches(again.build(CompressionType.NONE))
        assert (built.producer_id, built.base_sequence, built.last_sequence) == (8, 0, 2)

    with_a_loop(story)


def test_old_batches_expire_in_order_but_not_under_way() -> None:
    def story(it: Fixture) -> None:
        it.append(10.0)
        first = it.take()
        it.append(11.0)
        it.append(12.0, T1)
        assert it.accumulator.expire(created_before=11.5) == []
        it.accumulator.requeue(first, retry_at=20.0)
        expired = it.accumulator.expire(created_before=11.5)
        assert [batch.created_at for batch in expired] == [10.0, 11.0]
        assert it.accumulator.buffered_bytes == it.record.size_bytes
        assert not it.accumulator.finish(first)  # it went before

    with_a_loop(story)


def test_the_buffer_is_bounded_but_an_empty_one_takes_any_record() -> None:
    def story(it: Fixture) -> None:
        assert it.accumulator.has_room(ProducerRecord(0, None, bytes(5000)))
        while it.accumulator.has_room(it.record):
            it.append(10.0)
        assert it.accumulator.buffered_bytes == 10 * it.record.size_bytes
        it.accumulator.clear()
        assert (it.accumulator.buffered_bytes, it.accumulator.incomplete) == (0, set())

    with_a_loop(story)


def test_all_waiters_get_the_offset_of_their_record() -> None:
    def story(it: Fixture) -> None:
        for _ in range(3):
            it.append(10.0)
        batch = it.take()
        it.futures[1].cancel()
        batch.complete(base_offset=40, log_append_time_ms=-1)
        assert it.futures[0].result() == RecordMetadata("t", 0, 40, 5)
        assert it.futures[2].result() == RecordMetadata("t", 0, 42, 5)

    with_a_loop(story)


def test_a_records_size_is_never_less_than_what_it_takes() -> None:
    def story(it: Fixture) -> None:
        headers = [("clé", None), ("k", b"v" * 100)]
        record = ProducerRecord(1 << 45, b"k" * 70, b"v" * 9000, headers)
        it.record = record._replace(timestamp=0)
        it.append(10.0)
        first = len(it.take().build(CompressionType.NONE))
        assert first - 61 <= record.size_bytes

    with_a_loop(story)
