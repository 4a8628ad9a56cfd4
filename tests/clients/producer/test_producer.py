"""The producer delivers in order, batches what it can, and repeats without repeating itself."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Unpack

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.producer.partitioner import partition_for_key
from tierlog.clients.producer.producer import Producer
from tierlog.clients.producer.sender import ProducerOptions
from tierlog.clients.protocol.schema import Message
from tierlog.clients.record.compression import CompressionType
from tierlog.tests import wire
from tierlog.tests.clients.model_cluster import (
    HangUpError,
    ModelBroker,
    ModelCluster,
    ModelPartition,
    SilenceError,
)
from tierlog.tests.simulation.environment import EPOCH_MS, SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import SimulatedNetwork

pytestmark = pytest.mark.simulated(time_limit_s=3600)


@asynccontextmanager
async def a_producer(
    loop: SimulatedLoop, broker_count: int = 1, **options: Unpack[ProducerOptions]
) -> AsyncGenerator[tuple[ModelCluster, Producer]]:
    cluster = ModelCluster(SimulatedNetwork(loop), broker_count)
    await cluster.start()
    options["environment"] = SimulatedEnvironment(loop)
    async with Producer(cluster.bootstrap, **options) as producer:
        yield cluster, producer


def values(partition: ModelPartition) -> list[bytes | None]:
    return [record.value for record in partition.records()]


def refusing(code: ErrorCode, times: int) -> Callable[[ModelBroker, Message], Message | None]:
    """Refuse the first so many Produce requests."""
    left = times

    def control(_: ModelBroker, request: Message) -> Message | None:
        nonlocal left
        if not isinstance(request, wire.ProduceRequest) or not left:
            return None
        left -= 1
        return wire.ProduceResponse(
            responses=[
                wire.TopicProduceResponse(
                    topic_id=topic.topic_id,
                    partition_responses=[
                        wire.PartitionProduceResponse(index=data.index, error_code=code)
                        for data in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    return control


async def test_a_record_is_where_the_answer_says(loop: SimulatedLoop) -> None:
    async with a_producer(loop) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)
        await producer.send("t", b"zero")
        metadata = await producer.send("t", b"one", b"key", headers=[("h", b"x")], timestamp_ms=7)
        assert metadata == ("t", 0, 1, 7)
        zero, one = partition.records()
        assert zero.timestamp >= EPOCH_MS
        assert one[1:] == (7, b"key", b"one", (("h", b"x"),))


@pytest.mark.parametrize("compression", CompressionType)
async def test_records_sent_together_travel_together(
    loop: SimulatedLoop, compression: CompressionType
) -> None:
    async with a_producer(loop, linger_ms=5, compression=compression) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)
        sent = [producer.send_nowait("t", b"%d" % number) for number in range(1000)]
        results = await asyncio.gather(*sent)
        assert [metadata.offset for metadata in results] == list(range(1000))
        assert values(partition) == [b"%d" % number for number in range(1000)]
        assert len(partition.stored) < 10
        assert partition.stored[-1].compression_type is compression


async def test_linger_waits_for_company_and_a_flush_does_not(loop: SimulatedLoop) -> None:
    async with a_producer(loop, linger_ms=500) as (cluster, producer):
        cluster.create_topic("t", 1)
        await producer.send("t", b"metadata is known after this")
        started = loop.time()
        await producer.send("t", b"lingers")
        assert loop.time() - started >= 0.5
        started = loop.time()
        lingering = producer.send_nowait("t", b"flushed")
        await producer.flush()
        assert lingering.done()
        assert loop.time() - started < 0.1


async def test_a_key_goes_to_the_partition_that_every_client_chooses(loop: SimulatedLoop) -> None:
    async with a_producer(loop, broker_count=3) as (cluster, producer):
        partitions = cluster.create_topic("t", 5)
        keys = [b"key-%d" % number for number in range(50)]
        await asyncio.gather(*(producer.send_nowait("t", key, key) for key in keys))
        for number, partition in enumerate(partitions):
            expected = [key for key in keys if partition_for_key(key, 5) == number]
            assert values(partition) == expected


async def test_a_new_leader_is_found_and_nothing_is_lost_or_reordered(loop: SimulatedLoop) -> None:
    async with a_producer(loop, broker_count=2) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)
        sent = [producer.send_nowait("t", b"%d" % number) for number in range(10)]
        await asyncio.gather(*sent)
        partition.leader, partition.epoch = 1, 1
        sent = [producer.send_nowait("t", b"%d" % number) for number in range(10, 20)]
        await asyncio.gather(*sent)
        assert values(partition) == [b"%d" % number for number in range(20)]


async def test_a_broker_that_lags_and_denies_the_topic_does_not_strand_what_is_queued(
    loop: SimulatedLoop,
) -> None:
    """The batch stays queued, and nobody sends another record that would bring the topic back."""
    async with a_producer(loop) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)
        await producer.send("t", b"first")
        topics, refuse = dict(cluster.topics), refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
        denials = 0

        def lag(broker: ModelBroker, request: Message) -> Message | None:
            nonlocal denials
            cluster.topics = dict(topics)
            if isinstance(request, wire.MetadataRequest) and not denials:
                denials += 1
                cluster.topics.clear()
            return refuse(broker, request)

        cluster.control = lag
        async with asyncio.timeout(5):
            await producer.send("t", b"second")
        assert denials == 1
        assert values(partition) == [b"first", b"second"]


async def test_retriable_errors_are_retried_until_the_delivery_timeout(loop: SimulatedLoop) -> None:
    async with a_producer(loop, delivery_timeout_ms=10_000) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)
        cluster.control = refusing(ErrorCode.NOT_ENOUGH_REPLICAS, 3)
        await producer.send("t", b"at last")
        assert values(partition) == [b"at last"]
        cluster.control = refusing(ErrorCode.NOT_ENOUGH_REPLICAS, 1000)
        started = loop.time()
        with pytest.raises(KafkaError):
            await producer.send("t", b"never")
        assert loop.time() - started == pytest.approx(10, abs=2.1)


async def test_other_errors_are_reported_at_once(loop: SimulatedLoop) -> None:
    async with a_producer(loop) as (cluster, producer):
        cluster.create_topic("t", 1)
        cluster.control = refusing(ErrorCode.MESSAGE_TOO_LARGE, 1)
        with pytest.raises(KafkaError) as refusal:
            await producer.send("t", b"x")
        assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
        await producer.send("t", b"the next one is well")


async def test_a_topic_that_does_not_come_to_be_is_an_error_after_max_block(
    loop: SimulatedLoop,
) -> None:
    async with a_producer(loop, max_block_ms=3000) as (cluster, producer):
        with pytest.raises(KafkaError) as refusal:
            await producer.send("absent", b"x")
        assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        waiting = producer.send_nowait("late", b"x")
        await asyncio.sleep(0.5)
        (partition,) = cluster.create_topic("late", 1)
        await waiting
        assert values(partition) == [b"x"]
        with pytest.raises(KafkaError, match="late has no partition 1: it has 1, from 0 on"):
            await producer.send("late", b"x", partition=1)


async def test_a_retry_after_a_lost_answer_writes_once_with_idempotence(
    loop: SimulatedLoop,
) -> None:
    async with a_producer(loop, enable_idempotence=True) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)
        lost = 0

        def control(broker: ModelBroker, request: Message) -> None:
            nonlocal lost
            if isinstance(request, wire.ProduceRequest) and lost < 2:
                lost += 1
                cluster.control = lambda _broker, _request: None
                broker.answer(request)  # written, but nobody is told
                cluster.control = control
                raise HangUpError

        cluster.control = control
        results = await asyncio.gather(*(producer.send_nowait("t", b"%d" % n) for n in range(5)))
        assert [metadata.offset for metadata in results] == [0, 1, 2, 3, 4]
        assert lost == 2
        assert values(partition) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_batch_that_was_given_up_costs_the_producer_its_id(loop: SimulatedLoop) -> None:
    async with a_producer(loop, enable_idempotence=True) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)
        await producer.send("t", b"first")
        cluster.control = refusing(ErrorCode.INVALID_RECORD, 1)
        with pytest.raises(KafkaError):
            await producer.send("t", b"refused")
        await producer.send("t", b"second")
        assert values(partition) == [b"first", b"second"]
        assert cluster.count(wire.InitProducerIdRequest) == 2
        assert partition.stored[0].producer_id != partition.stored[1].producer_id


async def test_without_a_word_about_it_a_producer_is_idempotent_where_acks_allow_it(
    loop: SimulatedLoop,
) -> None:
    has_id: list[bool] = []
    stated: list[ProducerOptions] = [{}, {"acks": -1}, {"acks": 1}, {"enable_idempotence": False}]
    for options in stated:
        async with a_producer(loop, **options) as (cluster, producer):
            (partition,) = cluster.create_topic("t", 1)
            await producer.send("t", b"x")
            has_id.append(partition.stored[0].has_producer_id)
            assert cluster.count(wire.InitProducerIdRequest) == has_id[-1]
    assert has_id == [True, True, False, False]


@pytest.mark.parametrize("acks", [0, 1])
def test_idempotence_that_was_asked_for_needs_all_acks(acks: int) -> None:
    with pytest.raises(KafkaError, match="Must set acks to all") as refused:
        Producer("broker:9092", acks=acks, enable_idempotence=True)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


async def test_a_full_buffer_refuses_at_once_or_makes_the_sender_wait(loop: SimulatedLoop) -> None:
    async with a_producer(loop, buffer_memory=1000, max_block_ms=2000, linger_ms=10) as (
        cluster,
        producer,
    ):
        cluster.create_topic("t", 1)
        await producer.send("t", b"")
        held = [producer.send_nowait("t", bytes(400)) for _ in range(2)]
        with pytest.raises(KafkaError, match="buffer of 1000 bytes is full"):
            producer.send_nowait("t", bytes(400))
        await producer.send("t", bytes(400))  # waits for room
        assert all(future.done() for future in held)

        def silent(_: ModelBroker, request: Message) -> None:
            if isinstance(request, wire.ProduceRequest):
                raise SilenceError

        cluster.control = silent
        held = [producer.send_nowait("t", bytes(400)) for _ in range(2)]
        with pytest.raises(KafkaError, match="buffer of 1000 bytes is full"):
            await producer.send("t", bytes(400))
        cluster.control = lambda _broker, _request: None
        await asyncio.gather(*held)


async def test_a_record_beyond_the_request_size_is_refused(loop: SimulatedLoop) -> None:
    async with a_producer(loop) as (_, producer):
        with pytest.raises(KafkaError) as refusal:
            await producer.send("t", bytes(2_000_000))
        assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


async def test_with_acks_0_nobody_is_asked(loop: SimulatedLoop) -> None:
    async with a_producer(loop, acks=0) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)

        def write_unanswered(broker: ModelBroker, request: Message) -> None:
            if isinstance(request, wire.ProduceRequest):
                cluster.control = lambda _broker, _request: None
                broker.answer(request)
                cluster.control = write_unanswered
                raise SilenceError

        cluster.control = write_unanswered
        metadata = await producer.send("t", b"x")
        assert metadata.offset == -1
        await asyncio.sleep(1)
        assert values(partition) == [b"x"]


async def test_stop_sends_what_is_left_and_refuses_what_comes_after(loop: SimulatedLoop) -> None:
    async with a_producer(loop, linger_ms=60_000) as (cluster, producer):
        (partition,) = cluster.create_topic("t", 1)
        left = [producer.send_nowait("t", b"%d" % number) for number in range(10)]
        await producer.stop()
        assert [(await future).offset for future in left] == list(range(10))
        assert len(values(partition)) == 10
        with pytest.raises(KafkaError):
            producer.send_nowait("t", b"late")


async def test_a_broker_that_is_gone_delays_stop_no_longer_than_it_may(loop: SimulatedLoop) -> None:
    async with a_producer(loop) as (cluster, producer):
        cluster.create_topic("t", 1)
        await producer.send("t", b"x")
        cluster.brokers[0].crash()
        lost = producer.send_nowait("t", b"y")
        started = loop.time()
        await producer.stop(timeout_ms=1500)
        assert loop.time() - started == pytest.approx(1.5, abs=0.1)
        with pytest.raises(KafkaError, match="producer was closed"):
            await lost


@pytest.mark.parametrize("is_written", [True, False])
def test_an_answer_about_a_topic_that_was_made_again_meanwhile_is_understood(
    is_written: bool,
) -> None:
    """Broker 0 answers late; meanwhile broker 1 has the client learn the topic's new id.

    The client may happen to ask broker 0 for it, and then learns of both in their order.
    """

    async def story(loop: SimulatedLoop) -> None:
        async with a_producer(loop, 2) as (cluster, producer):
            old, _ = cluster.create_topic("t", 2)
            for partition in (0, 1):
                await producer.send("t", b"metadata and connections", partition=partition)
            cluster.answer_delay_s = lambda broker, request: (
                3 if broker.node_id == 0 and isinstance(request, wire.ProduceRequest) else 0
            )
            if not is_written:
                cluster.control = refusing(ErrorCode.UNKNOWN_TOPIC_ID, 1)
            first = producer.send_nowait("t", b"first", partition=0)
            await asyncio.sleep(1)
            new, _ = cluster.create_topic("t", 2)
            await producer.send("t", b"the old id is unknown now", partition=1)
            was_late.append(not first.done())
            cluster.answer_delay_s = lambda _broker, _request: 0
            assert (await first).offset == (1 if is_written else 0)
            assert values(old if is_written else new)[-1] == b"first"
            assert (await producer.send("t", b"second", partition=0)).offset == (not is_written)

    was_late: list[bool] = []
    for seed in range(8):
        simulate(story, seed, time_limit_s=3600)
    assert any(was_late)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_whatever_breaks_every_record_arrives_once_and_in_order(seed: int) -> None:
    """Connections are cut and leaders move at random; the idempotent producer does not mind."""

    async def story(loop: SimulatedLoop) -> None:
        async with a_producer(loop, 2, enable_idempotence=True, linger_ms=3) as (cluster, producer):
            partitions = cluster.create_topic("t", 2)
            sent: list[asyncio.Future[Any]] = []
            for number in range(200):
                sent.append(producer.send_nowait("t", b"%d" % number, partition=number % 2))
                await asyncio.sleep(loop.random.uniform(0, 0.01))
                chance = loop.random.random()
                if chance < 0.05:
                    cluster.network.cut()
                elif chance < 0.1:
                    moved = loop.random.choice(partitions)
                    moved.leader, moved.epoch = 1 - moved.leader, moved.epoch + 1
            await asyncio.gather(*sent)
            assert values(partitions[0]) == [b"%d" % number for number in range(0, 200, 2)]
            assert values(partitions[1]) == [b"%d" % number for number in range(1, 200, 2)]

    simulate(story, seed, time_limit_s=3600)
