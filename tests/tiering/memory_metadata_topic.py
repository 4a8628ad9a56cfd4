"""The metadata topic in memory: the log is one object, each broker sees it through a client."""

import asyncio
from collections.abc import Collection, Mapping

from tierlog.clients.consumer.completed_fetch import ConsumerRecord, UndecodableRecordsError
from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.remote.remote_segment import RemoteLogMetadata
from tierlog.tiering.metadata.metadata_events import METADATA_TOPIC, decode_event, encode_event
from tierlog.tiering.metadata.metadata_snapshot import TopicIdentity

UNREACHABLE = KafkaError(ErrorCode.NETWORK_EXCEPTION, "The broker cannot be reached")


class SharedTopic:
    """The records of all partitions."""

    def __init__(self, partitions: int = 5) -> None:
        self.partitions: list[list[bytes]] = [[] for _ in range(partitions)]
        self.is_down = False
        self.loses_acknowledgements = 0
        """How many of the next writes are written and answered with an error."""
        self.holds_back_reads = False
        self.start_offsets = [0] * partitions
        self.leaderless: set[int] = set()
        """Partitions without a leader: nobody writes to them, reads them or has their ends."""
        self.fails_to_sync = False
        self.durable_ends = [0] * partitions
        """By partition, what a broker has been told is on the disk."""
        self.undecodable: dict[tuple[int, int], int] = {}
        """By partition and offset, how many records a batch claims that cannot be decoded."""
        self.markers: set[tuple[int, int]] = set()
        """Partitions and offsets of what is no record for a reader."""
        self.topic_id = Uuid(b"metadata topic 1")
        self._changed = asyncio.Event()

    def write(self, partition: int, value: bytes) -> int:
        self.partitions[partition].append(value)
        self._changed.set()
        self._changed = asyncio.Event()
        return len(self.partitions[partition]) - 1

    def write_undecodable(self, partition: int, count: int = 1) -> int:
        """A batch whose records are none; its first offset."""
        first = len(self.partitions[partition])
        self.undecodable[partition, first] = count
        for _ in range(count):
            self.write(partition, b"never seen")
        return first

    def write_event(self, partition: int, event: RemoteLogMetadata) -> int:
        return self.write(partition, encode_event(event))

    async def wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return

    def events(self) -> list[RemoteLogMetadata]:
        """Everything ever written."""
        return [decode_event(value) for partition in self.partitions for value in partition]


class MemoryMetadataTopic:
    """`MetadataTopic` over a `SharedTopic`."""

    def __init__(self, shared: SharedTopic) -> None:
        self._shared = shared
        self._positions: dict[int, int] = {}
        self.opened = 0
        self.events_read = 0
        self.is_closed = False

    @property
    def identity(self) -> TopicIdentity:
        return TopicIdentity("cluster", self._shared.topic_id)

    def _require(self, partitions: Collection[int] = ()) -> None:
        if self._shared.is_down or not self._shared.leaderless.isdisjoint(partitions):
            raise UNREACHABLE

    async def open(self) -> int:
        self.opened += 1
        self._require()
        return len(self._shared.partitions)

    async def append(self, partition: int, value: bytes) -> int:
        self._require([partition])
        await asyncio.sleep(0.001)
        offset = self._shared.write(partition, value)
        if self._shared.loses_acknowledgements:
            self._shared.loses_acknowledgements -= 1
            raise UNREACHABLE
        return offset

    def assign(self, partitions: Collection[int]) -> None:
        self._positions = {
            each: self._positions.get(each, self._shared.start_offsets[each]) for each in partitions
        }

    def seek(self, partition: int, offset: int | None) -> None:
        start = self._shared.start_offsets[partition]
        self._positions[partition] = start if offset is None else max(start, offset)

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        self._require()
        found = [] if self._shared.holds_back_reads else self._take()
        if not found:
            await self._shared.wait(timeout_ms / 1000)
            found = [] if self._shared.holds_back_reads else self._take()
        return found

    def _take(self) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        for partition in self._positions.keys() - self._shared.leaderless:
            found += self._take_from(partition, is_first=not found)
        self.events_read += len(found)
        return found

    async def make_durable(self, ends: Mapping[int, int]) -> None:
        if self._shared.fails_to_sync:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The log directory is offline")
        for partition, end in ends.items():
            self._shared.durable_ends[partition] = end

    def _take_from(self, partition: int, *, is_first: bool) -> list[ConsumerRecord]:
        values, position = self._shared.partitions[partition], self._positions[partition]
        undecodable = self._shared.undecodable
        if is_first and (count := undecodable.get((partition, position))):
            name = TopicPartition(METADATA_TOPIC, partition)
            raise UndecodableRecordsError(
                ErrorCode.INVALID_RECORD, "garbage.", name, position, position + count
            )
        found: list[ConsumerRecord] = []
        while position < len(values) and (partition, position) not in undecodable:
            value = values[position]
            if (partition, position) not in self._shared.markers:
                found.append(ConsumerRecord(METADATA_TOPIC, partition, position, 0, None, value))
            position += 1
        self._positions[partition] = position
        return found

    async def positions(self, partitions: Collection[int]) -> Mapping[int, int]:
        self._require()
        return {each: self._positions[each] for each in partitions}

    async def end_offsets(self, partitions: Collection[int]) -> Mapping[int, int]:
        self._require(partitions)
        return {each: len(self._shared.partitions[each]) for each in partitions}

    async def close(self) -> None:
        self.is_closed = True
