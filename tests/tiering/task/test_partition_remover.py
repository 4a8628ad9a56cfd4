"""The remote data of a deleted topic goes, whoever is killed, whatever fails, and exactly once."""

import asyncio
import logging

import pytest

from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicIdPartition
from tierlog.storage.remote.remote_segment import (
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.memory_tier import BROKEN, DELETE, MemoryTier, StoredSegment
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tests.tiering.tiered_broker import PARTITION, until
from tierlog.tiering.metadata.metadata_events import metadata_partition

from .remover import Remover, Topics, store

MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
STARTED = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
HOUR = 3600.0


def mark(
    topic: SharedTopic,
    broker_id: int,
    state: RemotePartitionDeleteState = MARKED,
    partition: TopicIdPartition = PARTITION,
) -> None:
    topic.write_event(
        metadata_partition(partition, len(topic.partitions)),
        RemotePartitionDeleteMetadata(
            topic_id_partition=partition, state=state, event_timestamp_ms=1, broker_id=broker_id
        ),
    )


@pytest.mark.scenario("2.8")
async def test_a_marked_partition_goes_through_every_state_and_each_segment_is_deleted_once(
    loop: SimulatedLoop,
) -> None:
    """(KAFKA-15313)"""
    tier, topic = MemoryTier(), SharedTopic()
    segments = store(tier, topic, PARTITION, 5)
    mark(topic, 0)
    broker = await Remover(loop, tier, topic, Topics()).start()
    await until(lambda: broker.state() is FINISHED)
    assert sorted(tier.asked(DELETE)) == [0, 1, 2, 3, 4]
    assert not tier.segments
    assert tier.partitions_cleared == [PARTITION] * 2
    event_states = [
        event.state for event in topic.events() if isinstance(event, RemotePartitionDeleteMetadata)
    ]
    assert event_states == [MARKED, STARTED, FINISHED]
    for segment in segments:
        states = [
            event.state
            for event in topic.events()
            if not isinstance(event, RemotePartitionDeleteMetadata)
            and event.segment_id == segment.segment_id
        ]
        assert states == [0, 1, 2, 3]
    statistics = broker.statistics
    assert statistics.remote_delete_requests["orders"] == 5
    assert statistics.remote_delete_errors["orders"] == 0
    await broker.stop()


@pytest.mark.scenario("2.8")
async def test_of_two_brokers_each_removes_what_it_has_marked(loop: SimulatedLoop) -> None:
    """Each segment is deleted once, by the broker that led it."""
    tiers, topic = (MemoryTier(), MemoryTier()), SharedTopic()
    partitions = PARTITION, PARTITION._replace(partition=1)
    for number, partition in enumerate(partitions):
        for tier in tiers:
            store(tier, SharedTopic(), partition, 2)
        store(MemoryTier(), topic, partition, 2)
        mark(topic, number, partition=partition)
    brokers = [
        await Remover(loop, tiers[number], topic, Topics(), number).start() for number in (0, 1)
    ]
    await until(lambda: all(brokers[0].state(each) is FINISHED for each in partitions))
    await asyncio.sleep(3 * HOUR)
    for number, tier in enumerate(tiers):
        assert sorted(tier.asked(DELETE)) == [0, 1]
        assert tier.partitions_cleared == [partitions[number]] * 2
    for broker in brokers:
        await broker.stop()


@pytest.mark.parametrize("kills", range(1, 14))
async def test_a_kill_at_every_point_leaves_a_removal_that_goes_on(
    loop: SimulatedLoop, kills: int
) -> None:
    """The remover is stopped after each number of events that it told."""
    tier, topic = MemoryTier(), SharedTopic()
    tier.latency_seconds = 0.1
    store(tier, topic, PARTITION, 3)
    mark(topic, 0)
    already = len(topic.events())
    broker = await Remover(loop, tier, topic, Topics()).start()
    event_count = already + kills
    await until(lambda: len(topic.events()) >= event_count or broker.state() is FINISHED)
    await broker.stop()
    again = await Remover(loop, tier, topic, Topics()).start()
    await until(lambda: again.state() is FINISHED)
    assert not tier.segments
    assert len(again.metadata.remote_log(PARTITION)) == 0
    # Only what was under way is asked for twice.
    assert all(tier.asked(DELETE).count(offset) <= 2 for offset in range(3))
    await again.stop()


async def test_another_broker_goes_on_where_one_died_for_good(loop: SimulatedLoop) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 3)
    mark(topic, 7)
    mark(topic, 7, STARTED)
    one, two = [await Remover(loop, tier, topic, Topics(), number).start() for number in (1, 2)]
    await asyncio.sleep(HOUR / 4)
    assert tier.asked(DELETE) == []
    await until(lambda: one.state() is FINISHED, 3 * HOUR)
    await asyncio.sleep(3 * HOUR)
    assert sorted(tier.asked(DELETE)) == [0, 1, 2], "one of the two has taken over"
    for broker in (one, two):
        await broker.stop()


async def test_a_leader_that_died_before_it_could_mark_is_made_up_for(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    living = PARTITION._replace(topic_id=Uuid(b"another id, 16b."))
    store(tier, topic, PARTITION, 2)
    store(tier, topic, living, 2)
    brokers = [
        await Remover(loop, tier, topic, Topics(living.topic_id), number).start()
        for number in (0, 1)
    ]
    await asyncio.sleep(30)
    assert brokers[0].state() is None
    await until(lambda: brokers[0].state() is FINISHED)
    await asyncio.sleep(3 * HOUR)
    assert sorted(tier.asked(DELETE)) == [0, 1], "the first to mark removes, alone"
    assert brokers[0].state(living) is None
    assert len(tier.segments) == 2
    for broker in brokers:
        await broker.stop()
    assert any("no longer exists" in record.getMessage() for record in caplog.records)


@pytest.mark.scenario("4.9")
async def test_what_a_late_copy_tells_after_the_end_is_swept_up(loop: SimulatedLoop) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 1)
    mark(topic, 0)
    broker = await Remover(loop, tier, topic, Topics()).start()
    await until(lambda: broker.state() is FINISHED)
    (late,) = store(tier, topic, PARTITION, 1)
    # The id of a deleted segment may come again as a new one: the state machine forgot it.
    await asyncio.sleep(60)
    assert late.id in tier.segments, "it might still be on its way up"
    await until(lambda: not tier.segments, 5 * HOUR)
    await until(lambda: len(broker.metadata.remote_log(PARTITION)) == 0)
    await broker.stop()


@pytest.mark.parametrize("is_on_record", [True, False])
@pytest.mark.parametrize("is_killed", [False, True])
async def test_an_upload_that_could_not_be_stopped_leaves_nothing(
    loop: SimulatedLoop, is_on_record: bool, is_killed: bool
) -> None:
    """A thread goes on writing after its copy was given up, and perhaps forgotten by its leader.

    Seed 1401 of the simulated cluster: the store answers a manifest's upload with a time-out and
    stores it eight seconds later, and the remover is killed in between.
    """
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 2)
    number = metadata_partition(PARTITION, len(topic.partitions))
    on_its_way = segment_metadata(77, partition=PARTITION)
    if is_on_record:
        topic.write_event(number, on_its_way)
    mark(topic, 0)
    broker = await Remover(loop, tier, topic, Topics()).start()
    await until(lambda: tier.partitions_cleared == [PARTITION])
    tier.segments[on_its_way.id] = StoredSegment(on_its_way, b"", {})
    if is_killed:
        await broker.stop()
        broker = await Remover(loop, tier, topic, Topics()).start()
    await until(lambda: broker.state() is FINISHED, 180)
    assert not tier.segments
    assert len(tier.asked(DELETE)) == 2 + is_on_record
    await broker.stop()


async def test_failures_are_counted_and_tried_again_and_hold_up_nobody_else(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """(KAFKA-15166; one failing segment keeps no other from being deleted)"""
    caplog.set_level(logging.WARNING)
    tier, topic = MemoryTier(), SharedTopic()
    other = PARTITION._replace(partition=1)
    for partition in (PARTITION, other):
        store(tier, topic, partition, 4)
        mark(topic, 0, partition=partition)
    tier.faults[DELETE] = [BROKEN] * 3
    broker = await Remover(loop, tier, topic, Topics()).start()
    await until(lambda: all(broker.state(each) is FINISHED for each in (PARTITION, other)))
    assert not tier.segments
    assert broker.statistics.remote_delete_errors["orders"] == 3
    assert len(tier.asked(DELETE)) == 8 + 3
    await broker.stop()
    assert 1 <= len(caplog.records) <= 2


async def test_an_outage_of_hours_is_said_once_and_asks_the_store_rarely(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 100)
    mark(topic, 0)
    tier.is_down = True
    broker = await Remover(loop, tier, topic, Topics()).start()
    await asyncio.sleep(HOUR)
    # Eight at a time, every half minute.
    assert len(tier.asked(DELETE)) < 8 * 120 * 1.5
    assert broker.state() is STARTED
    tier.is_down = False
    await until(lambda: broker.state() is FINISHED)
    assert not tier.segments
    await broker.stop()
    assert len(caplog.records) == 1


async def test_deletions_are_paced(loop: SimulatedLoop) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 60)
    mark(topic, 0)
    began = loop.time()
    broker = await Remover(loop, tier, topic, Topics(), segments_per_second=2).start()
    await until(lambda: tier.partitions_cleared == [PARTITION])
    assert 29 <= loop.time() - began <= 33
    await broker.stop()


async def test_a_metadata_topic_that_is_down_is_waited_for(loop: SimulatedLoop) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 3)
    mark(topic, 0)
    topic.is_down = True
    broker = await Remover(loop, tier, topic, Topics()).start()
    await asyncio.sleep(HOUR)
    assert tier.asked(DELETE) == []
    topic.is_down = False
    await until(lambda: broker.state() is FINISHED, 2 * HOUR)
    assert sorted(tier.asked(DELETE)) == [0, 1, 2]
    await broker.stop()


async def test_forged_events_take_nothing_from_a_living_topic(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 3)
    mark(topic, 0)
    mark(topic, 0, STARTED)
    broker = await Remover(loop, tier, topic, Topics(PARTITION.topic_id)).start()
    await until(lambda: broker.state() is STARTED)
    await asyncio.sleep(3 * HOUR)
    assert len(tier.segments) == 3
    assert not tier.partitions_cleared
    await broker.stop()
    assert len([each for each in caplog.records if "nothing is removed" in each.message]) == 1


@pytest.mark.scenario("2.8")
async def test_the_next_leader_of_the_metadata_partition_ends_the_removal_of_a_broker_that_is_gone(
    loop: SimulatedLoop,
) -> None:
    """Each broker of a cluster reads a part of the metadata, and so does the next leader of it."""
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 3)
    number = metadata_partition(PARTITION, len(topic.partitions))
    mark(topic, broker_id=7)
    mark(topic, broker_id=7, state=STARTED)
    others = [each for each in range(len(topic.partitions)) if each != number]
    topics = Topics(led=others)
    broker = await Remover(loop, tier, topic, topics).start()
    await asyncio.sleep(3 * HOUR)
    assert broker.metadata.remote_logs() == []
    topics.led = [number]
    await until(lambda: not tier.segments, 5 * HOUR)
    await until(lambda: broker.state() is FINISHED, HOUR)
    topics.led = others
    await until(lambda: broker.metadata.remote_logs() == [], 2 * HOUR)
    await broker.stop()


@pytest.mark.scenario("2.8")
async def test_a_removal_goes_on_when_the_metadata_partition_has_another_leader(
    loop: SimulatedLoop,
) -> None:
    tier, topic = MemoryTier(), SharedTopic()
    store(tier, topic, PARTITION, 40)
    number = metadata_partition(PARTITION, len(topic.partitions))
    topics = Topics(led=[number])
    broker = Remover(loop, tier, topic, topics, segments_per_second=1)
    mark(topic, broker_id=0)
    await broker.start()
    await until(lambda: len(tier.segments) < 39, HOUR)
    topics.led = []
    for _ in range(20):
        broker.remover.wake()
        await asyncio.sleep(1)
    await until(lambda: not tier.segments, HOUR)
    await until(lambda: broker.state() is FINISHED, HOUR)
    broker.remover.wake()
    await until(lambda: broker.metadata.remote_logs() == [], HOUR)
    await broker.stop()
