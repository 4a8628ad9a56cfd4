"""The producer client (`KafkaProducer` in Kafka).

`send` puts a record into the accumulator and waits for the broker's response; `send_nowait` returns
a future instead. Records of topics that are not known yet are held back, in order, until metadata
lists their partitions. `sender.py` sends the batches.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Self, Unpack

from ..errors import ErrorCode, KafkaError
from ..network.metadata import Metadata
from ..network.network import NetworkClient, NetworkConfig
from ..record.builder import Headers
from ..runtime.environment import SystemEnvironment
from ..runtime.task_owner import TaskOwner
from ..topic_partition import TopicPartition
from .accumulator import ProducerRecord, RecordAccumulator, RecordMetadata
from .partitioner import StickyPartitioner
from .sender import ProducerConfig, ProducerOptions, Sender


class _Unassigned(NamedTuple):
    """A record of a topic whose partitions are not known yet."""

    partition: int | None
    record: ProducerRecord
    future: asyncio.Future[RecordMetadata]


_TASKS_MAX = 1024


class Producer:
    """Sends records. Use as an async context manager, or `start` and `stop` it."""

    def __init__(self, bootstrap: str | Sequence[str], **options: Unpack[ProducerOptions]) -> None:
        config = self._config = ProducerConfig(**options)
        environment = config.environment or SystemEnvironment()
        self._environment = environment
        self._network = NetworkClient(
            bootstrap,
            environment,
            config.network
            or NetworkConfig(
                client_id=config.client_id, request_timeout_ms=config.request_timeout_ms
            ),
        )
        self._metadata = Metadata(self._network, environment, allow_auto_topic_creation=True)
        self._partitioner = StickyPartitioner(environment.random)
        self._accumulator = RecordAccumulator(
            batch_bytes=config.batch_size,
            linger_seconds=config.linger_ms / 1000,
            buffer_bytes_max=config.buffer_memory,
        )
        self._has_room = asyncio.Event()
        self._tasks = TaskOwner(_TASKS_MAX)
        self._sender = Sender(
            self._network, self._metadata, self._accumulator, config, environment, self._has_room
        )
        self._unassigned: dict[str, list[_Unassigned]] = {}
        self._unassigned_bytes = 0
        self._is_running = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start; connections are opened when the first record is sent."""
        assert not self._is_running, "a producer starts once"
        self._is_running = True
        self._tasks.start(self._sender.run(self._tasks), "producer sender")

    async def stop(self, timeout_ms: int | None = None) -> None:
        """Flush, and close the connections.

        Records not acknowledged after `timeout_ms` (by default the delivery timeout) are dropped,
        and their futures fail.
        """
        if not self._is_running:
            return
        if timeout_ms is None:
            timeout_ms = self._config.delivery_timeout_ms
        try:
            await self.flush(timeout_ms)
        finally:
            self._is_running = False
            closed = KafkaError(ErrorCode.NETWORK_EXCEPTION, "The producer was closed.")
            for topic in list(self._unassigned):
                self._fail_unassigned(topic, closed)
            for batch in self._accumulator.clear():
                batch.fail(closed)
            await self._network.close()
            await self._tasks.stop()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until it is acknowledged. Raises `KafkaError`.

        If the buffer is full, waits up to `max_block_ms` for room first.
        """
        record = self._record(value, key, headers, timestamp_ms)
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                while not self._takes(record):
                    self._has_room.clear()
                    await self._has_room.wait()
        except TimeoutError:
            raise _no_room(self._config.buffer_memory) from None
        return await self._enqueue(topic, partition, record)

    def send_nowait(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Send a record; the future returns its metadata, or raises `KafkaError`.

        Raises `KafkaError(REQUEST_TIMED_OUT)` at once if the buffer is full.
        """
        record = self._record(value, key, headers, timestamp_ms)
        if not self._takes(record):
            raise _no_room(self._config.buffer_memory)
        return self._enqueue(topic, partition, record)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Wait until every record sent so far is acknowledged or failed, or until the timeout."""
        self._accumulator.begin_flush()
        self._sender.wake()
        try:
            waiting = self._accumulator.incomplete | {
                entry.future for entries in self._unassigned.values() for entry in entries
            }
            if waiting:
                await asyncio.wait(
                    waiting, timeout=None if timeout_ms is None else timeout_ms / 1000
                )
        finally:
            self._accumulator.end_flush()

    def _record(
        self, value: bytes | None, key: bytes | None, headers: Headers, timestamp_ms: int | None
    ) -> ProducerRecord:
        if not self._is_running:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The producer is not running.")
        if timestamp_ms is None:
            timestamp_ms = self._environment.wall_clock_ms()
        record = ProducerRecord(timestamp_ms, key, value, headers)
        if record.size_bytes > self._config.max_request_size:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The record may take {record.size_bytes} bytes, more than max.request.size.",
            )
        return record

    def _takes(self, record: ProducerRecord) -> bool:
        held = self._unassigned_bytes + record.size_bytes
        return self._accumulator.has_room(record) and (
            not self._unassigned_bytes or held <= self._config.buffer_memory
        )

    def _enqueue(
        self, topic: str, partition: int | None, record: ProducerRecord
    ) -> asyncio.Future[RecordMetadata]:
        if not self._is_running:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The producer was closed.")
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        entry = _Unassigned(partition, record, future)
        if topic in self._metadata.topics and topic not in self._unassigned:
            self._assign(topic, entry)
            return future
        if topic not in self._unassigned:
            self._unassigned[topic] = []
            self._tasks.start(self._resolve(topic), f"producer metadata of {topic}")
        self._unassigned[topic].append(entry)
        self._unassigned_bytes += record.size_bytes
        return future

    def _assign(self, topic: str, entry: _Unassigned) -> None:
        """Put a record of a known topic into the accumulator."""
        partition, record, future = entry
        count = len(self._metadata.topics[topic].partitions)
        if partition is None:
            partition = self._partitioner.partition(topic, record.key, count)
        elif not 0 <= partition < count:
            future.set_exception(
                KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"{topic} has no partition {partition}: it has {count}, from 0 on.",
                )
            )
            return
        now = asyncio.get_running_loop().time()
        was_first = self._accumulator.buffered_bytes == 0
        is_full = self._accumulator.append(TopicPartition(topic, partition), record, future, now)
        if is_full:
            self._partitioner.on_batch_full(topic, partition)
        if is_full or was_first or not self._config.linger_ms:
            self._sender.wake()

    async def _resolve(self, topic: str) -> None:
        """Look up a topic's partitions and assign the records that wait for them."""
        try:
            await self._metadata.partition_count(topic, self._config.max_block_ms)
        except KafkaError as error:
            self._fail_unassigned(topic, error)
            return
        for entry in self._take_unassigned(topic):
            self._assign(topic, entry)
        self._sender.wake()

    def _take_unassigned(self, topic: str) -> list[_Unassigned]:
        entries = self._unassigned.pop(topic, [])
        self._unassigned_bytes -= sum(entry.record.size_bytes for entry in entries)
        self._has_room.set()
        return entries

    def _fail_unassigned(self, topic: str, error: KafkaError) -> None:
        for entry in self._take_unassigned(topic):
            if not entry.future.done():
                entry.future.set_exception(error)


def _no_room(buffer_memory: int) -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"The buffer of {buffer_memory} bytes is full of records that are not acknowledged yet.",
    )
