"""Snapshots of the metadata: the same state, less to read, and never believed where it is wrong."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.storage.remote.remote_log import Applied, RemoteLog
from tierlog.storage.remote.remote_segment import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierlog.tests.simulation.disk import SimulatedDisk
from tierlog.tests.simulation.environment import SimulatedEnvironment
from tierlog.tests.simulation.files import SimulatedFiles
from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.network import on_host
from tierlog.tests.tiering.memory_metadata_topic import MemoryMetadataTopic, SharedTopic
from tierlog.tests.tiering.segments import segment_metadata
from tierlog.tests.tiering.tiered_broker import PARTITION, until
from tierlog.tests.tiering.whole_broker import (
    check_all,
    consume,
    create_topic,
    produce,
    segments_in_tier,
    tiered_broker,
)
from tierlog.tiering.blocking_pool import ThreadedPool
from tierlog.tiering.config import MetadataManagerConfig
from tierlog.tiering.metadata.metadata_events import metadata_partition
from tierlog.tiering.metadata.metadata_manager import TopicBasedRemoteLogMetadataManager
from tierlog.tiering.metadata.metadata_snapshot import (
    BadSnapshotError,
    Snapshot,
    SnapshotFiles,
    TopicIdentity,
    decode_snapshot,
    encode_snapshot,
)
from tierlog.tiering.metadata.snapshot_keeper import SnapshotKeeper

PARTITIONS = 3
NUMBER = metadata_partition(PARTITION, PARTITIONS)
PATH = f"/data/remote-log-metadata-{NUMBER}.snapshot"
STATE = RemoteLogSegmentState


def moved(
    segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState, custom: bytes | None = None
) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        segment_id=segment.segment_id,
        event_timestamp_ms=7,
        state=state,
        broker_id=4,
        custom_metadata=custom,
    )


def fill(topic: SharedTopic, segments: int) -> None:
    """Segments of which every third is deleted again."""
    for number in range(1, segments + 1):
        segment = segment_metadata(number, offsets=(number, number), partition=PARTITION)
        topic.write_event(NUMBER, segment)
        topic.write_event(NUMBER, moved(segment, STATE.COPY_SEGMENT_FINISHED))
        if number % 3 == 0:
            topic.write_event(NUMBER, moved(segment, STATE.DELETE_SEGMENT_STARTED))
            topic.write_event(NUMBER, moved(segment, STATE.DELETE_SEGMENT_FINISHED))


class Reader:
    """One life of a broker that reads the metadata."""

    def __init__(
        self, loop: SimulatedLoop, topic: SharedTopic, files: SimulatedFiles, events_each: int
    ) -> None:
        self.client = MemoryMetadataTopic(topic)
        keeper = SnapshotKeeper(SnapshotFiles(files, "/data"), ThreadedPool(1, "t"), events_each)
        self.metadata = TopicBasedRemoteLogMetadataManager(
            MetadataManagerConfig(topic_partitions=PARTITIONS),
            self.client,
            SimulatedEnvironment(loop, f"reader of {loop.time()}"),
            keeper,
        )

    @property
    def remote(self) -> RemoteLog:
        return self.metadata.remote_log(PARTITION)

    async def start(self) -> "Reader":
        await self.metadata.start()
        self.metadata.assign([PARTITION])
        await until(lambda: self.metadata.is_ready(PARTITION))
        return self


class Disk:
    """What outlives the readers."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.topic = SharedTopic(PARTITIONS)
        self.files = SimulatedFiles(SimulatedDisk())
        self.files.mkdirs("/data")

    async def reader(self, events_each: int = 10_000) -> Reader:
        return await Reader(self.loop, self.topic, self.files, events_each).start()

    async def read_and_stop(self) -> None:
        reader = await self.reader()
        await reader.metadata.stop()


async def test_a_start_reads_what_came_since_the_last_stop(loop: SimulatedLoop) -> None:
    """Counted: 2,666 events the first time, then one that is known and those that are new."""
    disk = Disk(loop)
    fill(disk.topic, 1000)
    first = await disk.reader()
    assert first.client.events_read == 2_666
    image = first.remote.image()
    await first.metadata.stop()
    second = await disk.reader()
    assert second.client.events_read == 1
    assert second.remote.image() == image
    assert second.remote.finished_bytes == first.remote.finished_bytes
    await second.metadata.publish(segment_metadata(5000, partition=PARTITION))
    await second.metadata.stop()
    third = await disk.reader()
    assert third.client.events_read == 1
    assert len(third.remote) == len(image.segments) + 1
    await third.metadata.stop()


async def test_a_killed_broker_goes_on_from_the_last_that_was_saved(loop: SimulatedLoop) -> None:
    disk = Disk(loop)
    fill(disk.topic, 30)
    await disk.reader(events_each=50)
    # It is not stopped.
    fill(disk.topic, 2)
    again = await disk.reader()
    assert again.client.events_read == 1 + 4
    await again.metadata.stop()


Damage = Callable[[Disk], None]


def damaged(disk: Disk) -> None:
    content = bytearray(disk.files.read(PATH))
    content[len(content) // 2] ^= 1
    disk.files.atomic_replace(PATH, bytes(content))


def cut_short(disk: Disk) -> None:
    disk.files.atomic_replace(PATH, disk.files.read(PATH)[:-1])


def of_a_later_version(disk: Disk) -> None:
    content = bytearray(disk.files.read(PATH))
    content[3] += 1
    disk.files.atomic_replace(PATH, bytes(content))


def empty(disk: Disk) -> None:
    disk.files.atomic_replace(PATH, b"")


def of_another_topic(disk: Disk) -> None:
    disk.topic.topic_id = Uuid(b"made once again!")


def topic_truncated(disk: Disk) -> None:
    del disk.topic.partitions[NUMBER][10:]


def topic_truncated_and_written_anew(disk: Disk) -> None:
    topic_truncated(disk)
    for number in range(2000, 2100):
        disk.topic.write_event(NUMBER, segment_metadata(number, partition=PARTITION))


def beginning_of_the_topic_deleted(disk: Disk) -> None:
    disk.topic.start_offsets[NUMBER] = len(disk.topic.partitions[NUMBER])


@pytest.mark.parametrize(
    "damage",
    [
        damaged,
        cut_short,
        of_a_later_version,
        empty,
        of_another_topic,
        topic_truncated,
        topic_truncated_and_written_anew,
        beginning_of_the_topic_deleted,
    ],
)
async def test_a_snapshot_of_no_use_is_dropped_with_one_line(
    loop: SimulatedLoop, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    disk = Disk(loop)
    fill(disk.topic, 20)
    await disk.read_and_stop()
    damage(disk)
    again = await disk.reader()
    other = Disk(loop)
    other.topic.partitions = disk.topic.partitions
    other.topic.start_offsets = disk.topic.start_offsets
    expected = await other.reader()
    assert again.remote.image() == expected.remote.image()
    for reader in (again, expected):
        await reader.metadata.stop()
    # The next one is of use again, unless there is nothing that it could end with.
    if damage is not beginning_of_the_topic_deleted:
        third = await disk.reader()
        assert third.client.events_read == 1
        await third.metadata.stop()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"Discarding the snapshot of __remote_log_metadata-{NUMBER} and")


async def test_a_disk_that_is_full_costs_a_line_and_nothing_else(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(loop)
    fill(disk.topic, 20)

    def full(path: str, content: bytes, *, durable: bool = True) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(disk.files, "atomic_replace", full)
    await disk.read_and_stop()
    again = await disk.reader()
    assert again.client.events_read > 20
    await again.metadata.stop()
    assert any("Could not write the snapshot" in record.getMessage() for record in caplog.records)


EVENTS = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from(STATE),
        st.integers(0, 40),
        st.integers(0, 20),
        st.integers(0, 2),
    ),
    max_size=40,
)


@given(EVENTS, EVENTS)
def test_a_restored_log_equals_the_one_that_was_saved(
    before: list[tuple[int, RemoteLogSegmentState, int, int, int]],
    after: list[tuple[int, RemoteLogSegmentState, int, int, int]],
) -> None:
    def apply(
        remote: RemoteLog, events: list[tuple[int, RemoteLogSegmentState, int, int, int]]
    ) -> list[Applied]:
        found: list[Applied] = []
        for number, state, start, length, epoch in events:
            segment = segment_metadata(
                number,
                offsets=(start, start + length),
                epochs=((epoch, start),),
                partition=PARTITION,
                txn_index_empty=number % 2 == 0,
            )
            if state is STATE.COPY_SEGMENT_STARTED:
                found.append(remote.apply_copy_started(segment))
            else:
                found.append(remote.apply_update(moved(segment, state, bytes([number]))))
        return found

    saved = RemoteLog(PARTITION)
    apply(saved, before)
    if len(before) % 5 == 4:
        saved.apply_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 3)
    identity = TopicIdentity("cluster", Uuid(b"topic id, 16 by."))
    content = encode_snapshot(Snapshot(identity, 1, 2, 3, ((PARTITION, saved.image()),)))
    ((_, image),) = decode_snapshot(content).logs
    restored = RemoteLog(PARTITION)
    restored.restore(image)
    assert apply(restored, after) == apply(saved, after)
    assert restored.image() == saved.image()
    assert restored.finished_bytes == saved.finished_bytes
    assert set(restored.unfinished_segments()) == set(saved.unfinished_segments())
    for epoch in range(3):
        assert restored.segments_for_epoch(epoch) == saved.segments_for_epoch(epoch)
        for offset in range(62):
            assert restored.segment_for(epoch, offset) == saved.segment_for(epoch, offset)


@given(st.binary(max_size=60))
def test_whatever_bytes_there_are_they_are_a_snapshot_or_refused(content: bytes) -> None:
    for candidate in (content, b"RLM\x01" + content):
        with pytest.raises(BadSnapshotError):
            decode_snapshot(candidate)


async def test_a_whole_broker_goes_on_from_where_it_stopped(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """Twice, so that what was read from a snapshot is written into the next one."""
    caplog.set_level(logging.WARNING)
    name = "snapshots-of-a-broker"
    broker = tiered_broker(loop, name)
    await broker.start()
    with on_host("client"):
        await create_topic(loop, broker)
        await produce(loop, broker, 0, 40)
        await until(lambda: len(segments_in_tier(name)) > 4)
        for first in (40, 60):
            await broker.stop()
            await broker.start()
            check_all(await consume(loop, broker), first)
            await produce(loop, broker, first, 20)
            await asyncio.sleep(10)
        check_all(await consume(loop, broker), 80)
    await broker.stop()
    assert not [line for line in caplog.messages if "snapshot" in line]
