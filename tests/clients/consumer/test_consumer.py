"""The consumer reads every record once, from where it stands, whoever leads at the time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Unpack

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.consumer.completed_fetch import ConsumerRecord, UndecodableRecordsError
from tierlog.clients.consumer.consumer import Consumer, ConsumerOptions, OffsetReset
from tierlog.clients.consumer.fetcher import FetchConfig
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.messages.fetch import FetchRequest
from tierlog.clients.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.topic_partition import TopicPartition
from tierlog.tests.clients.model_cluster import (
    HangUpError,
    ModelBroker,
    ModelCluster,
    ModelPartition,
)
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork

pytestmark = pytest.mark.simulated(time_limit_s=3600)

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


@asynccontextmanager
async def a_consumer(
    loop: SimulatedLoop, broker_count: int = 1, **options: Unpack[ConsumerOptions]
) -> AsyncGenerator[tuple[ModelCluster, Consumer]]:
    cluster = ModelCluster(SimulatedNetwork(loop), broker_count)
    await cluster.start()
    options["environment"] = SimulatedEnvironment(loop)
    async with Consumer(cluster.bootstrap, **options) as consumer:
        yield cluster, consumer


def fill(partition: ModelPartition, count: int, batch_records: int = 3) -> None:
    """Append records whose values are their offsets, as text."""
    end = partition.end_offset + count
    while (start := partition.end_offset) < end:
        stop = min(start + batch_records, end)
        records = [Record(0, offset, None, b"%d" % offset) for offset in range(start, stop)]
        partition.append(bytes(build_batch(records)))


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until so many records have come."""
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(600):
        while len(found) < count:
            found += await consumer.poll(1000)
    return found


async def test_an_assigned_partition_is_read_from_the_beginning_to_the_end_and_beyond(
    loop: SimulatedLoop,
) -> None:
    async with a_consumer(loop) as (cluster, consumer):
        (partition,) = cluster.create_topic("t", 1)
        fill(partition, 10)
        consumer.assign([T0])
        consumer.seek_to_beginning([T0])
        assert [record.offset for record in await read(consumer, 10)] == list(range(10))
        assert await consumer.poll(300) == []
        fill(partition, 5)
        assert [record.value for record in await read(consumer, 5)] == [
            b"10", b"11", b"12", b"13", b"14",
        ]  # fmt: skip
        assert await consumer.position(T0) == 15
        assert consumer.high_watermark(T0) == 15


async def test_a_poll_returns_no_more_than_its_maximum_and_the_next_one_goes_on(
    loop: SimulatedLoop,
) -> None:
    async with a_consumer(loop, auto_offset_reset="earliest", max_poll_records=7) as (
        cluster,
        consumer,
    ):
        (partition,) = cluster.create_topic("t", 1)
        fill(partition, 100)
        consumer.assign([T0])
        sizes: list[int] = []
        while sum(sizes) < 100:
            sizes.append(len(await consumer.poll(1000)))
        assert max(sizes) == 7
        # What one response brought is read to its end before the next is asked for.
        assert cluster.count(FetchRequest) <= 3


async def test_seeking_drops_what_was_fetched_for_elsewhere(loop: SimulatedLoop) -> None:
    async with a_consumer(loop, auto_offset_reset="earliest", max_poll_records=5) as (
        cluster,
        consumer,
    ):
        (partition,) = cluster.create_topic("t", 1)
        fill(partition, 50)
        consumer.assign([T0])
        assert (await read(consumer, 5))[0].offset == 0
        consumer.seek(T0, 40)
        assert (await read(consumer, 5))[0].offset == 40
        consumer.seek(T0, 4)  # in the middle of a batch
        assert (await read(consumer, 5))[0].offset == 4


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 20), ("latest", 30)])
async def test_an_offset_out_of_range_is_reset(
    loop: SimulatedLoop, reset: OffsetReset, offset: int
) -> None:
    async with a_consumer(loop, auto_offset_reset=reset, max_poll_records=1) as (cluster, consumer):
        (partition,) = cluster.create_topic("t", 1)
        partition.log_start_offset = 20
        fill(partition, 10)
        consumer.assign([T0])
        consumer.seek(T0, 3)
        found = await consumer.poll(1000)
        fill(partition, 10)
        assert (found or await read(consumer, 1))[0].offset == offset


async def test_without_a_reset_an_offset_out_of_range_is_an_error(loop: SimulatedLoop) -> None:
    async with a_consumer(loop, auto_offset_reset="none") as (cluster, consumer):
        cluster.create_topic("t", 1)
        consumer.assign([T0])
        consumer.seek(T0, 3)
        with pytest.raises(KafkaError) as refusal:
            await read(consumer, 1)
        assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_paused_partition_waits_and_the_others_do_not(loop: SimulatedLoop) -> None:
    async with a_consumer(loop, auto_offset_reset="earliest") as (cluster, consumer):
        for partition in cluster.create_topic("t", 2):
            fill(partition, 10)
        consumer.assign([T0, T1])
        consumer.pause([T0])
        assert {record.partition for record in await read(consumer, 10)} == {1}
        assert await consumer.poll(500) == []
        consumer.resume([T0])
        assert {record.partition for record in await read(consumer, 10)} == {0}


async def test_a_short_poll_gets_what_a_long_preparation_brings(loop: SimulatedLoop) -> None:
    """Looking up the position takes longer than one poll has; the polls after it find it done."""
    async with a_consumer(loop, auto_offset_reset="earliest") as (cluster, consumer):
        (partition,) = cluster.create_topic("t", 1)
        fill(partition, 3)
        consumer.assign([T0])
        polls = 0
        while not await consumer.poll(0):
            polls += 1
            await asyncio.sleep(0.000_1)
        assert polls > 3


async def test_polls_go_on_quietly_while_no_broker_answers(loop: SimulatedLoop) -> None:
    async with a_consumer(loop, auto_offset_reset="earliest") as (cluster, consumer):
        (partition,) = cluster.create_topic("t", 1)
        fill(partition, 3)
        cluster.brokers[0].crash()
        consumer.assign([T0])
        started = loop.time()
        assert await consumer.poll(5000) == []
        assert loop.time() - started == pytest.approx(5, abs=0.1)
        await cluster.start()
        assert len(await read(consumer, 3)) == 3


async def test_an_error_that_came_between_polls_is_raised_by_the_next_one(
    loop: SimulatedLoop,
) -> None:
    async with a_consumer(loop) as (cluster, consumer):

        def control(_: ModelBroker, request: Message) -> Message | None:
            if isinstance(request, MetadataRequest):
                return MetadataResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return None

        cluster.control = control
        consumer.assign([T0])
        assert await consumer.poll(0) == []
        await asyncio.sleep(10)
        with pytest.raises(KafkaError) as refusal:
            await consumer.poll(0)
        assert refusal.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_position_is_found_or_the_time_is_over(loop: SimulatedLoop) -> None:
    async with a_consumer(loop, default_api_timeout_ms=3000) as (cluster, consumer):
        (partition,) = cluster.create_topic("t", 1)
        fill(partition, 3)
        consumer.assign([T0])
        assert await consumer.position(T0) == 3
        consumer.assign([T1])
        with pytest.raises(KafkaError) as refusal:
            await consumer.position(T1)
        assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_offsets_are_returned_without_reading(loop: SimulatedLoop) -> None:
    async with a_consumer(loop, broker_count=2) as (cluster, consumer):
        first, second = cluster.create_topic("t", 2)
        first.log_start_offset = 5
        fill(first, 4)
        fill(second, 2)
        assert await consumer.partitions_for("t") == [T0, T1]
        assert await consumer.beginning_offsets([T0, T1]) == {T0: 5, T1: 0}
        assert await consumer.end_offsets([T0, T1]) == {T0: 9, T1: 2}


async def test_spoilt_bytes_are_an_error_and_not_a_record(loop: SimulatedLoop) -> None:
    async with a_consumer(loop, auto_offset_reset="earliest") as (cluster, consumer):
        (partition,) = cluster.create_topic("t", 1)
        fill(partition, 3)
        partition.stored[0].view[-2] ^= 1
        consumer.assign([T0])
        with pytest.raises(KafkaError) as refusal:
            await read(consumer, 1)
        assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


async def test_spoilt_bytes_of_one_partition_cost_no_record_of_another_and_can_be_stepped_over(
    loop: SimulatedLoop,
) -> None:
    async with a_consumer(loop, auto_offset_reset="earliest") as (cluster, consumer):
        first, second = cluster.create_topic("t", 2)
        fill(first, 3)
        fill(second, 6)
        second.stored[0].view[-2] ^= 1
        consumer.assign([T0, T1])
        found: list[tuple[int, int]] = []
        errors: list[UndecodableRecordsError] = []
        while len(found) < 6:
            try:
                found += [(each.partition, each.offset) for each in await consumer.poll(1000)]
            except UndecodableRecordsError as error:
                errors.append(error)
                consumer.seek(error.partition, error.next_offset)
        assert [(each.partition, each.offset, each.next_offset) for each in errors] == [(T1, 0, 3)]
        assert sorted(found) == [(0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (1, 5)]


async def test_a_log_that_its_leader_finds_damaged_is_an_error_and_can_be_stepped_over(
    loop: SimulatedLoop,
) -> None:
    async with a_consumer(loop, auto_offset_reset="earliest") as (cluster, consumer):
        (partition,) = cluster.create_topic("t", 1)
        fill(partition, 6)
        partition.unreadable = frozenset((0, 1, 2))
        consumer.assign([T0])
        found: list[int] = []
        positions: list[int] = []
        while len(found) < 3:
            try:
                found += [each.offset for each in await consumer.poll(1000)]
            except UndecodableRecordsError as error:
                positions.append(error.offset)
                consumer.seek(error.partition, error.next_offset)
        assert (positions, found) == ([0, 1, 2], [3, 4, 5])


async def test_what_needs_a_group_or_an_assignment_says_so(loop: SimulatedLoop) -> None:
    async with a_consumer(loop) as (_, consumer):
        with pytest.raises(KafkaError, match="needs a group id"):
            consumer.subscribe(["t"])
        with pytest.raises(KafkaError, match="need a group id"):
            await consumer.commit()
        with pytest.raises(KafkaError, match="t-0 is not assigned"):
            consumer.seek(T0, 1)


@given(seed=st.integers(0, 2**32), batch_bytes=st.sampled_from([1, 300, 1 << 20]))
@settings(max_examples=15, deadline=None)
def test_whatever_breaks_every_record_is_read_once_and_in_order(
    seed: int, batch_bytes: int
) -> None:
    """Connections are cut, brokers hang up and leaders move while the log grows."""

    async def story(loop: SimulatedLoop) -> None:
        async with a_consumer(loop, 2, fetch=fetch, auto_offset_reset="earliest") as (
            cluster,
            consumer,
        ):
            partitions = cluster.create_topic("t", 2)

            def control(_: ModelBroker, request: Message) -> None:
                if isinstance(request, FetchRequest) and loop.random.random() < 0.1:
                    raise HangUpError

            cluster.control = control
            consumer.assign([T0, T1])
            found: dict[int, list[int]] = {0: [], 1: []}
            for _round in range(60):
                fill(loop.random.choice(partitions), loop.random.randint(1, 10))
                chance = loop.random.random()
                if chance < 0.1:
                    cluster.network.cut()
                elif chance < 0.2:
                    moved = loop.random.choice(partitions)
                    moved.leader, moved.epoch = 1 - moved.leader, moved.epoch + 1
                for record in await consumer.poll(loop.random.randint(0, 100)):
                    found[record.partition].append(record.offset)
            for number, partition in enumerate(partitions):
                consumer.pause([TopicPartition("t", 1 - number)])
                consumer.resume([TopicPartition("t", number)])
                missing = partition.end_offset - len(found[number])
                found[number] += [record.offset for record in await read(consumer, missing)]
                assert found[number] == list(range(partition.end_offset))

    fetch = FetchConfig(max_partition_fetch_bytes=batch_bytes)
    simulate(story, seed, time_limit_s=3600)
