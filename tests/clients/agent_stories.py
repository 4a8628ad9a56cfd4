"""What the agents do with a whole broker: told once, run against ours and against Apache Kafka."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tierlog.clients.admin import Admin, ConfigResourceType, NewTopic
from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.consumer.consumer import Consumer
from tierlog.clients.consumer.group import GroupConfig
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.offset_names import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP
from tierlog.clients.producer.producer import Producer
from tierlog.clients.record.compression import CompressionType
from tierlog.clients.topic_partition import TopicPartition

PATIENCE_S = 60

Story = Callable[[str], Awaitable[None]]


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until so many records have come."""
    found: list[ConsumerRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await consumer.poll(1000)
    return found


async def create(bootstrap: str, name: str, partitions: int = 1) -> list[TopicPartition]:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1)])
    return [TopicPartition(name, number) for number in range(partitions)]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so: metadata reaches a broker a little after the controller's answer."""
    for _ in range(20 * PATIENCE_S):
        if await condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("It did not become so.")


async def has_partitions(admin: Admin, topic: str, count: int) -> bool:
    topics = await admin.list_topics()
    return len(topics[topic].partitions if topic in topics else ()) == count


async def records_of_every_codec_come_back_as_they_were_sent(bootstrap: str) -> None:
    (partition,) = await create(bootstrap, "codecs")
    sent = 0
    for codec in CompressionType:
        for idempotent in (False, True):
            async with Producer(
                bootstrap, compression=codec, enable_idempotence=idempotent, linger_ms=2
            ) as producer:
                futures = [
                    producer.send_nowait(
                        "codecs",
                        b"value %d " % number * 20,
                        b"key",
                        headers=[("codec", codec.name.encode()), ("none", None)],
                        timestamp_ms=1_000_000 + number,
                    )
                    for number in range(sent, sent + 200)
                ]
                results = await asyncio.gather(*futures)
                assert [metadata.offset for metadata in results] == list(range(sent, sent + 200))
                sent += 200
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        for number, record in enumerate(await read(consumer, sent)):
            assert record.offset == number
            assert record.timestamp == 1_000_000 + number
            assert (record.key, record.value) == (b"key", b"value %d " % number * 20)
            assert record.headers[1] == ("none", None)


async def a_manual_reader_follows_a_writer_from_the_beginning(bootstrap: str) -> None:
    """As the remote log metadata manager does: acks=all, manual assignment, one loop."""
    partitions = await create(bootstrap, "followed", 3)
    async with (
        Producer(bootstrap, acks=-1) as producer,
        Consumer(bootstrap) as consumer,
    ):
        await producer.send("followed", b"before", partition=1)
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        assert [record.value for record in await read(consumer, 1)] == [b"before"]
        for number in range(20):
            metadata = await producer.send("followed", b"%d" % number, partition=number % 3)
            (record,) = await read(consumer, 1)
            assert (record.partition, record.offset) == (metadata.partition, metadata.offset)
            assert record.value == b"%d" % number
        ends = await consumer.end_offsets(partitions)
        assert sum(ends.values()) == 21
        for partition in partitions:
            assert await consumer.position(partition) == ends[partition]


async def a_group_shares_partitions_and_hands_them_on(bootstrap: str) -> None:
    partitions = await create(bootstrap, "shared", 4)
    async with Producer(bootstrap, linger_ms=2) as producer:
        for number in range(40):
            producer.send_nowait("shared", b"%d" % number, partition=number % 4)
    group = GroupConfig("sharers", heartbeat_interval_ms=100)
    async with (
        Consumer(bootstrap, group=group, auto_offset_reset="earliest") as first,
        Consumer(bootstrap, group=group, auto_offset_reset="earliest") as second,
    ):
        first.subscribe(["shared"])
        assert len(await read(first, 40)) == 40
        assert sorted(first.assignment) == partitions
        await first.commit()
        second.subscribe(["shared"])
        async with asyncio.timeout(PATIENCE_S):
            while len(second.assignment) != 2 or len(first.assignment) != 2:
                for records in await asyncio.gather(first.poll(200), second.poll(200)):
                    assert records == []  # all was committed before the second came
        assert sorted((*first.assignment, *second.assignment)) == partitions
        await second.stop()
        async with asyncio.timeout(PATIENCE_S):
            while len(first.assignment) != 4:
                assert await first.poll(200) == []
        assert await first.committed(partitions) == dict.fromkeys(partitions, 10)


async def offsets_committed_without_a_group_are_where_the_next_reader_begins(
    bootstrap: str,
) -> None:
    (partition,) = await create(bootstrap, "resumed")
    async with Producer(bootstrap) as producer:
        await asyncio.gather(*(producer.send("resumed", b"%d" % n) for n in range(10)))
    async with Consumer(bootstrap, group_id="resumers", auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        with pytest.raises(KafkaError) as refusal:
            await read(consumer, 1)
        assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        await consumer.commit({partition: 7})
    async with Consumer(bootstrap, group_id="resumers", auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        assert [record.offset for record in await read(consumer, 3)] == [7, 8, 9]


async def an_administrator_makes_and_unmakes_topics(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        new = NewTopic("made", 2, 1, {"retention.ms": "123456"})
        assert await admin.create_topics([new], validate_only=True)
        topic_id = (await admin.create_topics([new]))["made"]
        with pytest.raises(KafkaError) as refusal:
            await admin.create_topics([new])
        assert refusal.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        await admin.create_partitions({"made": 5})
        await until(lambda: has_partitions(admin, "made", 5))
        assert (await admin.list_topics())["made"].topic_id == topic_id
        configs = await admin.describe_configs(ConfigResourceType.TOPIC, "made", ["retention.ms"])
        assert configs == {"retention.ms": "123456"}
        cluster = await admin.describe_cluster()
        assert cluster.controller_id in cluster.brokers
        await admin.delete_topics(["made"])
        await until(lambda: has_partitions(admin, "made", 0))
        with pytest.raises(KafkaError) as refusal:
            await admin.delete_topics(["made"])
        assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def offsets_are_found_by_place_and_by_time(bootstrap: str) -> None:
    (partition,) = await create(bootstrap, "timed")
    async with Producer(bootstrap) as producer:
        for time in (1000, 3000, 2000):
            await producer.send("timed", b"x", timestamp_ms=time)
    async with Admin(bootstrap) as admin:
        expected = {
            EARLIEST_TIMESTAMP: 0,
            LATEST_TIMESTAMP: 3,
            MAX_TIMESTAMP: 1,
            500: 0,
            1500: 1,
            3000: 1,
            3001: -1,
        }
        for timestamp, offset in expected.items():
            assert (await admin.list_offsets({partition: timestamp}))[partition].offset == offset


STORIES: tuple[Story, ...] = (
    records_of_every_codec_come_back_as_they_were_sent,
    a_manual_reader_follows_a_writer_from_the_beginning,
    a_group_shares_partitions_and_hands_them_on,
    offsets_committed_without_a_group_are_where_the_next_reader_begins,
    an_administrator_makes_and_unmakes_topics,
    offsets_are_found_by_place_and_by_time,
)


def run_story(story: Story, bootstrap: str) -> None:
    """Run a story to its end, on an event loop of its own."""

    async def within_patience() -> None:
        async with asyncio.timeout(4 * PATIENCE_S):
            await story(bootstrap)

    asyncio.run(within_patience())
