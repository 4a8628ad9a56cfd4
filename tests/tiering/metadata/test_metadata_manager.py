"""The topic-based metadata manager: what is published comes back, and is not believed before."""

import asyncio
import logging
from dataclasses import replace

import pytest

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.storage.remote.remote_segment import RemoteLogSegmentState
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.tiered_broker import until
from tierlog.tiering.config import MetadataManagerConfig
from tierlog.tiering.metadata.metadata_events import metadata_partition
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager

from .managed_metadata import FIRST, PARTITIONS, finished, in_partition, started


def manager(
    loop: SimulatedLoop, topic: SharedTopic, consume_wait_ms: int = 120_000
) -> TopicBasedRemoteLogMetadataManager:
    config = MetadataManagerConfig(topic_partitions=PARTITIONS, consume_wait_ms=consume_wait_ms)
    return TopicBasedRemoteLogMetadataManager(
        config, MemoryMetadataTopic(topic), SimulatedEnvironment(loop)
    )


async def test_a_publication_returns_when_this_broker_knows_it(loop: SimulatedLoop) -> None:
    metadata = manager(loop, SharedTopic(PARTITIONS))
    await metadata.start()
    await metadata.publish(started(FIRST))
    assert len(metadata.remote_log(FIRST)) == 1
    await metadata.publish(finished(FIRST))
    assert metadata.remote_log(FIRST).segment_for(0, 50) is not None
    await metadata.stop()


async def test_brokers_see_one_anothers_events(loop: SimulatedLoop) -> None:
    topic = SharedTopic(PARTITIONS)
    one, two = manager(loop, topic), manager(loop, topic)
    for each in (one, two):
        await each.start()
        each.assign([FIRST])
    await one.publish(started(FIRST))
    await two.publish(finished(FIRST))
    await until(lambda: one.remote_log(FIRST).segment_for(0, 50) is not None)
    for each in (one, two):
        await each.stop()


@pytest.mark.scenario("4.9")
async def test_a_partition_is_ready_only_when_its_past_is_read(loop: SimulatedLoop) -> None:
    topic = SharedTopic(PARTITIONS)
    number = metadata_partition(FIRST, PARTITIONS)
    topic.write_event(number, started(FIRST))
    topic.write_event(number, finished(FIRST))
    topic.holds_back_reads = True
    metadata = manager(loop, topic)
    assert not metadata.is_ready(FIRST)
    await metadata.start()
    metadata.assign([FIRST])
    await asyncio.sleep(60)
    assert not metadata.is_ready(FIRST)
    topic.holds_back_reads = False
    await until(lambda: metadata.is_ready(FIRST))
    assert metadata.remote_log(FIRST).segment_for(0, 50) is not None
    await metadata.stop()


@pytest.mark.scenario("4.9")
async def test_at_each_new_term_all_that_was_published_before_it_is_waited_for(
    loop: SimulatedLoop,
) -> None:
    """The leader before may have finished a copy a moment ago."""
    topic = SharedTopic(PARTITIONS)
    number = metadata_partition(FIRST, PARTITIONS)
    metadata = manager(loop, topic)
    await metadata.start()
    metadata.assign([FIRST])
    await until(lambda: metadata.is_ready(FIRST))
    topic.holds_back_reads = True
    topic.write_event(number, started(FIRST))
    topic.write_event(number, finished(FIRST))
    assert metadata.is_ready(FIRST), "nothing new begins"
    metadata.assign([FIRST])
    await asyncio.sleep(60)
    assert not metadata.is_ready(FIRST)
    topic.holds_back_reads = False
    await until(lambda: metadata.is_ready(FIRST))
    assert metadata.remote_log(FIRST).segment_for(0, 50) is not None
    await metadata.stop()


@pytest.mark.scenario("4.9")
async def test_a_partition_assigned_later_finds_its_past(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    topic = SharedTopic(PARTITIONS)
    early, late = in_partition(3, count=2)
    (elsewhere,) = in_partition(4)
    for partition in (early, late, elsewhere):
        number = metadata_partition(partition, PARTITIONS)
        topic.write_event(number, started(partition))
        topic.write_event(number, finished(partition))
    metadata = manager(loop, topic)
    await metadata.start()
    metadata.assign([early])
    await until(lambda: metadata.is_ready(early))
    assert metadata.is_ready(late)
    assert not metadata.is_ready(elsewhere)
    metadata.assign([late, elsewhere])
    assert metadata.remote_log(late).segment_for(0, 5) is not None
    await until(lambda: metadata.is_ready(elsewhere))
    assert metadata.remote_log(elsewhere).segment_for(0, 5) is not None
    await metadata.stop()
    assert caplog.records == []


async def test_an_event_that_does_not_come_back_in_time_is_an_error(loop: SimulatedLoop) -> None:
    topic = SharedTopic(PARTITIONS)
    metadata = manager(loop, topic, consume_wait_ms=5000)
    await metadata.start()
    topic.holds_back_reads = True
    began = loop.time()
    with pytest.raises(KafkaError) as late:
        await metadata.publish(started(FIRST))
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert loop.time() - began == pytest.approx(5, abs=0.1)
    topic.holds_back_reads = False
    await metadata.publish(started(FIRST))
    assert len(metadata.remote_log(FIRST)) == 1
    assert len(topic.events()) == 2
    await metadata.stop()


async def test_it_tries_for_ever_with_longer_and_longer_waits(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    topic = SharedTopic(PARTITIONS)
    topic.is_down = True
    client = MemoryMetadataTopic(topic)
    config = MetadataManagerConfig(topic_partitions=PARTITIONS)
    metadata = TopicBasedRemoteLogMetadataManager(config, client, SimulatedEnvironment(loop))
    await metadata.start()
    assert client.opened == 0
    metadata.assign([FIRST])
    await asyncio.sleep(6 * 3600)
    assert 2000 < client.opened < 3000
    topic.is_down = False
    await metadata.publish(started(FIRST))
    assert metadata.status == ""
    await metadata.stop()
    assert client.is_closed
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_what_somebody_else_wrote_is_skipped_and_said(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    topic = SharedTopic(PARTITIONS)
    number = metadata_partition(FIRST, PARTITIONS)
    topic.write(number, b"hello")
    topic.write_event(number, finished(FIRST, 9))
    metadata = manager(loop, topic)
    await metadata.start()
    await metadata.publish(started(FIRST))
    assert len(metadata.remote_log(FIRST)) == 1
    await metadata.stop()
    assert any("Skipped the record at offset 0" in record.getMessage() for record in caplog.records)


async def test_the_topic_is_believed_where_the_configuration_differs(loop: SimulatedLoop) -> None:
    metadata = manager(loop, SharedTopic(3))
    await metadata.start()
    for number in range(9):
        await metadata.publish(started(FIRST._replace(partition=number)))
    assert metadata.is_ready(FIRST)
    await metadata.stop()


async def test_a_topic_whose_beginning_was_deleted_becomes_ready(loop: SimulatedLoop) -> None:
    topic = SharedTopic(PARTITIONS)
    number = metadata_partition(FIRST, PARTITIONS)
    topic.write_event(number, started(FIRST))
    topic.start_offsets[number] = 1
    metadata = manager(loop, topic)
    await metadata.start()
    metadata.assign([FIRST])
    await until(lambda: metadata.is_ready(FIRST))
    assert len(metadata.remote_log(FIRST)) == 0
    await metadata.stop()


async def test_a_topic_that_ends_in_no_record_becomes_ready(loop: SimulatedLoop) -> None:
    topic = SharedTopic(PARTITIONS)
    number = metadata_partition(FIRST, PARTITIONS)
    topic.write_event(number, started(FIRST))
    topic.markers.add((number, topic.write(number, b"the end of somebody's transaction")))
    metadata = manager(loop, topic)
    await metadata.start()
    for _ in range(2):
        metadata.assign([FIRST])
        await until(lambda: metadata.is_ready(FIRST))
        assert len(metadata.remote_log(FIRST)) == 1
        # The next term waits for another such end.
        topic.markers.add((number, topic.write(number, b"and of another")))
    await metadata.stop()


async def test_whoever_watches_all_learns_of_partitions_that_nobody_assigned(
    loop: SimulatedLoop,
) -> None:
    topic = SharedTopic(PARTITIONS)
    everywhere = [in_partition(number)[0] for number in range(PARTITIONS)]
    for number, partition in enumerate(everywhere):
        topic.write_event(number, started(partition))
    metadata = manager(loop, topic)
    await metadata.start()
    assert list(metadata.remote_logs()) == []
    metadata.watch_all()
    await until(lambda: all(map(metadata.is_ready, everywhere)))
    known = {remote.topic_id_partition: len(remote) for remote in metadata.remote_logs()}
    assert known == dict.fromkeys(everywhere, 1)
    await metadata.stop()


async def test_a_partition_that_was_only_requested_is_not_reported(loop: SimulatedLoop) -> None:
    metadata = manager(loop, SharedTopic(PARTITIONS))
    metadata.remote_log(FIRST)
    assert list(metadata.remote_logs()) == []
    await metadata.start()
    await metadata.publish(started(FIRST))
    assert [remote.topic_id_partition for remote in metadata.remote_logs()] == [FIRST]
    await metadata.stop()


@pytest.mark.scenario("4.9")
async def test_a_forgotten_partition_that_comes_back_finds_its_past(loop: SimulatedLoop) -> None:
    """(KAFKA-16105)"""
    topic = SharedTopic(PARTITIONS)
    metadata = manager(loop, topic)
    await metadata.start()
    await metadata.publish(started(FIRST))
    metadata.forget([FIRST])
    topic.write_event(metadata_partition(FIRST, PARTITIONS), finished(FIRST))
    await until(lambda: metadata.remote_log(FIRST).segment_for(0, 50) is not None)
    metadata.assign([FIRST])
    await until(lambda: metadata.is_ready(FIRST))
    await metadata.stop()


@pytest.mark.scenario("4.9")
async def test_a_deposed_leaders_late_event_changes_nothing_on_any_broker(
    loop: SimulatedLoop,
) -> None:
    """Its copy was given up by the new leader before its COPY_SEGMENT_FINISHED came."""
    topic = SharedTopic(PARTITIONS)
    old, new = manager(loop, topic), manager(loop, topic)
    for each in (old, new):
        await each.start()
        each.assign([FIRST])
    await old.publish(started(FIRST))
    await new.publish(started(FIRST, 2))
    given_up = finished(FIRST)
    for state in (
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
        RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
    ):
        await new.publish(replace(given_up, state=state))
    await old.publish(finished(FIRST))
    await new.publish(finished(FIRST, 2))
    await until(lambda: old.remote_log(FIRST).segment_for(0, 50) is not None)
    for each in (old, new):
        assert each.remote_log(FIRST).segments() == new.remote_log(FIRST).segments()
        assert len(each.remote_log(FIRST)) == 1
        await each.stop()


@pytest.mark.scenario("4.9")
async def test_an_event_whose_acknowledgement_was_lost_may_be_published_again(
    loop: SimulatedLoop,
) -> None:
    topic = SharedTopic(PARTITIONS)
    metadata = manager(loop, topic)
    await metadata.start()
    for event in (started(FIRST), finished(FIRST)):
        topic.loses_acknowledgements = 2
        for _ in range(2):
            with pytest.raises(KafkaError):
                await metadata.publish(event)
        await metadata.publish(event)
    assert len(topic.events()) == 6
    remote = metadata.remote_log(FIRST)
    assert len(remote) == 1
    assert remote.finished_bytes == started(FIRST).segment_size_bytes
    await metadata.stop()


@pytest.mark.scenario("2.12")
async def test_thousands_of_partitions_come_and_go_while_the_topic_is_read(
    loop: SimulatedLoop,
) -> None:
    """(KAFKA-15181, KAFKA-15272, KAFKA-15267)"""
    topic = SharedTopic(PARTITIONS)
    everyone = [FIRST._replace(partition=number) for number in range(3000)]
    for partition in everyone:
        number = metadata_partition(partition, PARTITIONS)
        topic.write_event(number, started(partition))
        topic.write_event(number, finished(partition))
    metadata = manager(loop, topic)
    await metadata.start()
    for first in range(0, 3000, 500):
        metadata.assign(everyone[first : first + 500])
        metadata.forget(everyone[first : first + 250])
        await asyncio.sleep(loop.random.uniform(0, 0.3))
    await until(lambda: all(map(metadata.is_ready, everyone)))
    assert all(metadata.remote_log(each).segment_for(0, 50) for each in everyone)
    await metadata.stop()
