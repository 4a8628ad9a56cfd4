"""What anybody may write to the metadata topic: it is stepped over, and everything else goes on."""

import asyncio
import logging
from dataclasses import dataclass, replace
from struct import Struct
from typing import TypedDict, Unpack

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tierlog.clients.consumer.completed_fetch import ConsumerRecord
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.clients.record.batch import Record, stamp_crc
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.varint import encode_unsigned_varint
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.remote.remote_segment import RemoteLogMetadata, RemoteLogSegmentState
from tierlog.tests.simulation.broker import SimulatedBroker
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.loop import SimulatedLoop, simulate
from tierlog.tests.simulation.network import on_host
from tierlog.tests.tiering.memory_metadata_topic import SharedTopic
from tierlog.tests.tiering.metadata_event_strategies import EVENTS, UUIDS
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tests.tiering.tiered_broker import until
from tierlog.tests.tiering.whole_broker import (
    RECORDS,
    check_all,
    consume,
    create_topic,
    produce,
    segments_in_tier,
    tiered_broker,
)
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC, encode_event
from tierlog.tiering.metadata.skipped_events import SkippedEvents
from tierlog.tiering.tools.read_metadata import metadata_of_cluster

from .hostile_metadata import NUMBER, PARTITIONS, USER, finished, reader, started

INT32, INT64, EPOCH = Struct(">i"), Struct(">q"), Struct(">iqB")


def entry(name: bytes, topic_id: bytes, partition: int) -> bytes:
    """A partition as the format has it, whatever the name holds."""
    size = encode_unsigned_varint(len(name) + 1)
    return size + name + topic_id + INT32.pack(partition) + b"\0"


class SegmentFields(TypedDict, total=False):
    """What may be said of a segment."""

    name: bytes
    topic_id: bytes
    partition: int
    segment_id: bytes
    offsets: tuple[int, int]
    epochs: tuple[tuple[int, int], ...]
    epoch_count: int
    size: int
    state: int


@dataclass(frozen=True, kw_only=True)
class HostileSegment:
    """COPY_SEGMENT_STARTED with any values, in order or not."""

    name: bytes = b"orders"
    topic_id: bytes = USER.topic_id
    partition: int = 0
    segment_id: bytes = b"one of segments!"
    offsets: tuple[int, int] = (900, 999)
    epochs: tuple[tuple[int, int], ...] = ((0, 900),)
    epoch_count: int | None = None
    size: int = 100
    state: int = 0

    def value(self) -> bytes:
        count = len(self.epochs) if self.epoch_count is None else self.epoch_count
        return b"".join(
            (
                b"\x01\x00\x00",
                entry(self.name, self.topic_id, self.partition) + self.segment_id + b"\0",
                INT64.pack(self.offsets[0]) + INT64.pack(self.offsets[1]) + INT32.pack(1),
                INT64.pack(1) + INT64.pack(1) + encode_unsigned_varint(count + 1),
                b"".join(EPOCH.pack(epoch, offset, 0) for epoch, offset in self.epochs),
                INT32.pack(self.size) + b"\0" + self.state.to_bytes(1, "big") + b"\0",
            )
        )


def segment_event(**fields: Unpack[SegmentFields]) -> bytes:
    return HostileSegment(**fields).value()


MANY = 200_000
HOSTILE = {
    "nothing": b"",
    "an unknown frame version": b"\x07\x00\x00",
    "an unknown kind": b"\x01\x63\x00",
    "an unknown version": b"\x01\x00\x63",
    "an endless varint": b"\xff" * 40,
    "a start below zero": segment_event(offsets=(-5, 999)),
    "an end before the start": segment_event(offsets=(900, 899)),
    "a size below zero": segment_event(size=-1),
    "epochs out of order": segment_event(epochs=((5, 900), (4, 950))),
    "offsets of epochs out of order": segment_event(epochs=((4, 950), (5, 900))),
    "an epoch below zero": segment_event(epochs=((-7, 900),)),
    "no epoch": segment_event(epochs=()),
    "two thousand million epochs": segment_event(epoch_count=2**31 - 1),
    "many epochs": segment_event(epochs=tuple((each, 900) for each in range(MANY))),
    "an unknown state": segment_event(state=77),
    "a state that nothing begins with": segment_event(state=3),
    "a name that is no text": segment_event(name=b"\xff\xfe/../x"),
    "a name of other bytes": segment_event(name=b"or\nders"),
    "an empty name": segment_event(name=b""),
    "the zero topic id": segment_event(topic_id=ZERO_UUID),
    "a partition below zero": segment_event(partition=-3),
    "a segment that is known, of another partition": segment_event(
        partition=7, segment_id=started(1).id
    ),
    "a segment that is known, announced again": segment_event(segment_id=started(1).id),
    "the end of a copy nobody began": encode_event(finished(70)),
    "the deletion of a segment nobody knows": encode_event(
        replace(finished(71), state=RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
    ),
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
async def test_an_event_that_cannot_be_is_stepped_over(loop: SimulatedLoop, value: bytes) -> None:
    topic = SharedTopic(PARTITIONS)
    metadata = reader(loop, topic)
    await metadata.start()
    await metadata.publish(started(1))
    await metadata.publish(finished(1))
    topic.write(NUMBER, value)
    await metadata.publish(started(2))
    await metadata.publish(finished(2))
    for number in (1, 2):
        segment = metadata.remote_log(USER).segment_for(0, number * 100 + 50)
        assert segment is not None
        assert segment.id == started(number).id
    assert not metadata.status
    await metadata.stop()


async def test_a_copy_with_very_many_epochs_costs_a_moment(loop: SimulatedLoop) -> None:
    """Each epoch's end is looked for once, not once for each other epoch."""
    topic = SharedTopic(PARTITIONS)
    metadata = reader(loop, topic)
    await metadata.start()
    segment_id = started(3).id
    epochs = tuple((each, 900) for each in range(MANY))
    topic.write(NUMBER, segment_event(epochs=epochs, segment_id=segment_id))
    await metadata.publish(finished(3))
    assert metadata.remote_log(USER).segment_for(MANY - 1, 950) is not None
    await metadata.stop()


def flipped(event: RemoteLogMetadata, at: int, bits: int) -> bytes:
    """An event with bits of one of its bytes flipped."""
    changed = bytearray(encode_event(event))
    changed[at % len(changed)] ^= bits
    return bytes(changed)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.builds(encode_event, EVENTS),
            st.builds(flipped, EVENTS, st.integers(0, 10_000), st.integers(1, 255)),
            st.builds(
                segment_event,
                offsets=st.tuples(st.integers(-5, 1000), st.integers(-5, 1000)),
                epochs=st.lists(
                    st.tuples(st.integers(-2, 3), st.integers(-1, 1000)), max_size=4
                ).map(tuple),
                size=st.integers(-(2**31), 2**31 - 1),
                state=st.integers(0, 255),
                segment_id=st.one_of(UUIDS, st.sampled_from([started(1).id, started(2).id])),
            ),
        ),
        max_size=12,
    )
)
def test_whatever_is_written_good_events_are_known(values: list[bytes]) -> None:
    async def story(loop: SimulatedLoop) -> None:
        topic = SharedTopic(PARTITIONS)
        metadata = reader(loop, topic)
        await metadata.start()
        for value in values:
            topic.write(NUMBER, value)
        partition = USER._replace(topic_id=Uuid(b"another topic id"))
        there = segment_metadata(1, partition=partition)
        await metadata.publish(there)
        assert metadata.remote_log(partition).segment(there.id) is not None
        assert not metadata.status
        await metadata.stop()

    simulate(story)


async def test_a_batch_that_cannot_be_decoded_is_stepped_over_reported_once_and_counted(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    topic = SharedTopic(PARTITIONS)
    topic.write_event(NUMBER, started(1))
    topic.write_undecodable(NUMBER, 3)
    topic.write_event(NUMBER, finished(1))
    topic.write_undecodable(NUMBER)
    metadata = reader(loop, topic)
    await metadata.start()
    metadata.assign([USER])
    await until(lambda: metadata.is_ready(USER))
    assert metadata.remote_log(USER).segment_for(0, 150) is not None
    assert metadata.skipped.count == 2
    await metadata.publish(started(2))
    await metadata.stop()
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith(
        f"Skipped the record at offset 1 of {METADATA_TOPIC}-{NUMBER}: garbage."
    )
    assert second.startswith(f"Skipped the record at offset 5 of {METADATA_TOPIC}-{NUMBER}")


async def test_a_flood_of_bad_records_fills_no_log(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    topic = SharedTopic(PARTITIONS)
    metadata = reader(loop, topic)
    await metadata.start()
    for _ in range(5000):
        topic.write(NUMBER, b"bad\n" * 1000)
    await metadata.publish(started(1))
    assert metadata.skipped.count == 5000
    await metadata.stop()
    assert len(caplog.records) < 25
    assert all("\n" not in record.getMessage() for record in caplog.records)


def garbage() -> memoryview:
    batch = build_batch([Record(0, 0, None, bytes(50))], leader_epoch=0)
    batch[61:] = b"\xff" * (len(batch) - 61)
    with memoryview(batch) as view:
        stamp_crc(view, 0, len(batch))
    return memoryview(batch)


async def write_garbage(broker: SimulatedBroker) -> None:
    """A batch with a right CRC whose records are none, in each metadata partition."""
    for number in range(3):
        write_batch(broker, number, garbage())
    await asyncio.sleep(5)


def write_batch(broker: SimulatedBroker, number: int, batch: memoryview) -> None:
    assert broker.logs is not None
    log = broker.logs.get_log(TopicPartition(METADATA_TOPIC, number))
    assert log is not None
    batch[:8] = log.log_end_offset.to_bytes(8, "big")
    log.append_as_follower(batch, 0)
    log.update_high_watermark(log.log_end_offset)


async def test_garbage_in_the_metadata_topic_ends_neither_copying_nor_reading(
    loop: SimulatedLoop,
) -> None:
    broker = tiered_broker(loop, "garbage")
    await broker.start()
    records: list[ConsumerRecord] = []
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, RECORDS // 2)
        await until(lambda: len(segments_in_tier("garbage")) > 5)
    await write_garbage(broker)
    with on_host("client"):
        before = len(segments_in_tier("garbage"))
        await produce(loop, broker, RECORDS // 2, RECORDS // 2)
        await until(lambda: len(segments_in_tier("garbage")) > before + 5)
    for _ in range(2):
        with on_host("client"):
            await asyncio.sleep(5)
            records = await consume(loop, broker)
        check_all(records, RECORDS)
        broker.kill()
        await broker.start()
    await broker.stop()


async def test_who_only_looks_steps_over_what_a_broker_steps_over(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    broker = tiered_broker(loop, "looked-at")
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, RECORDS // 2)
        await until(lambda: len(segments_in_tier("looked-at")) > 5)
    await write_garbage(broker)
    skipped, before = SkippedEvents(), len(segments_in_tier("looked-at"))
    with on_host("client"):
        await produce(loop, broker, RECORDS // 2, RECORDS // 2)
    write_batch(broker, 1, memoryview(build_batch([Record(0, 0, None, b"no event")])))
    with on_host("client"):
        await until(lambda: len(segments_in_tier("looked-at")) > before + 5)
        await asyncio.sleep(5)
        caplog.clear()
        environment = SimulatedEnvironment(loop, "looker")
        await metadata_of_cluster(broker.bootstrap, environment, skipped)
        known = await metadata_of_cluster(broker.bootstrap, environment, skipped)
    (remote,) = known.values()
    offsets = sorted(each.start_offset for each in remote.segments())
    assert offsets == segments_in_tier("looked-at")
    # Each is told once, however often somebody looks.
    assert skipped.count == 4
    assert len([each for each in caplog.messages if "Skipped the record" in each]) == 4
    await broker.stop()
