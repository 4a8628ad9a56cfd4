"""Sends a producer's batches and handles the responses (`Sender` in Kafka).

One task decides which batches to send, whenever something changes or a linger time is over; each
request has a task that waits for the response. A batch is retried as long as its error is retriable
and `delivery_timeout_ms` has not passed.

With idempotence (KIP-98) the broker drops duplicates from retries. If a batch that may have been
written is abandoned, its sequence numbers leave a gap; the producer then requests a new producer id
and resets its sequences. It does the same if the broker no longer has the producer id.
"""

import asyncio
from dataclasses import dataclass
from typing import TypedDict

from ..errors import ErrorCode, KafkaError
from ..kafka_uuid import ZERO_UUID
from ..network.metadata import Metadata
from ..network.network import NetworkClient, NetworkConfig
from ..network.refusal import raise_for, refusal
from ..protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ..protocol.schema import NEWEST
from ..record.compression import CompressionType
from ..runtime.backoff import Backoff
from ..runtime.environment import Environment
from ..runtime.task_owner import TaskOwner
from ..topic_partition import TopicPartition
from .accumulator import ProducerBatch, ProducerIdAndEpoch, RecordAccumulator


class ProducerOptions(TypedDict, total=False):
    """The keyword arguments of `Producer`, described in `ProducerConfig`."""

    client_id: str
    acks: int
    linger_ms: int
    batch_size: int
    compression: CompressionType
    enable_idempotence: bool | None
    buffer_memory: int
    max_request_size: int
    max_block_ms: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    network: NetworkConfig | None
    environment: Environment | None


_ALL_ACKS = -1


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """A producer's settings under Kafka's names; the defaults are Kafka's, except for linger.

    Unless `enable_idempotence` is set, a producer is idempotent if `acks` is -1 (all). Enabling
    idempotence with other `acks` raises `KafkaError(INVALID_CONFIG)`.
    """

    client_id: str = "tierlog-producer"
    acks: int = _ALL_ACKS
    linger_ms: int = 0
    batch_size: int = 16_384
    compression: CompressionType = CompressionType.NONE
    enable_idempotence: bool | None = None
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1024 * 1024
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    network: NetworkConfig | None = None
    environment: Environment | None = None

    def __post_init__(self) -> None:
        if self.enable_idempotence and self.acks != _ALL_ACKS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "Must set acks to all in order to use the idempotent producer: otherwise a record "
                "may be lost after it was acknowledged.",
            )

    @property
    def is_idempotent(self) -> bool:
        """Whether records are written exactly once and in order despite retries (KIP-679)."""
        if self.enable_idempotence is None:
            return self.acks == _ALL_ACKS
        return self.enable_idempotence


_IN_FLIGHT_MAX = 128
_RETRY_BACKOFF_MAX_MS = 1_000
_EXPIRY_CHECK_SECONDS = 1.0
_LAST_VERSION_WITH_TOPIC_NAMES = 12
_ERRORS_THAT_NEED_NEW_ID = frozenset(
    (
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)


class Sender:
    """Sends the accumulator's batches to the leaders of their partitions."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        config: ProducerConfig,
        environment: Environment,
        has_room: asyncio.Event,
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._accumulator = accumulator
        self._config = config
        self._random = environment.random
        # Set whenever a batch leaves the accumulator.
        self._has_room = has_room
        self._backoff = Backoff(config.retry_backoff_ms, _RETRY_BACKOFF_MAX_MS)
        self._identity: ProducerIdAndEpoch | None = None
        self._last_failure: KafkaError | None = None
        self._changed = asyncio.Event()
        self._in_flight = 0
        self._is_refreshing = False
        self._is_identifying = False

    def wake(self) -> None:
        """Wake `run` after a change: a batch is full, a flush began, a topic became known."""
        self._changed.set()

    async def run(self, tasks: TaskOwner) -> None:
        """Send ready batches, then wait for a change or a linger time to expire; runs forever."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            now = loop.time()
            self._expire(now)
            partitions, next_at = self._accumulator.ready(now)
            if partitions and self._ensure_identity(tasks):
                self._send_ready(partitions, tasks)
            wait: float | None = None
            if self._accumulator.buffered_bytes:
                # Check for expired batches even if nothing else happens.
                wait = min(_EXPIRY_CHECK_SECONDS, (next_at or now + _EXPIRY_CHECK_SECONDS) - now)
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _expire(self, now: float) -> None:
        for batch in self._accumulator.expire(now - self._config.delivery_timeout_ms / 1000):
            reason = f" Last failure: {self._last_failure}" if self._last_failure else ""
            error = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"A batch for {batch.partition} was not delivered in time.{reason}",
            )
            self._let_go(batch, error)

    def _send_ready(self, partitions: list[TopicPartition], tasks: TaskOwner) -> None:
        by_leader: dict[int, list[TopicPartition]] = {}
        leaderless: set[str] = set()
        for partition in partitions:
            leader = self._metadata.leader(partition)
            if leader is None:
                self._metadata.mark_stale()
                leaderless.add(partition.topic)
            else:
                by_leader.setdefault(leader.leader_id, []).append(partition)
        if self._metadata.is_stale and not self._is_refreshing:
            self._is_refreshing = True
            tasks.start(self._refresh(leaderless), "producer metadata")
        for node_id, led in by_leader.items():
            if self._in_flight >= _IN_FLIGHT_MAX:
                return  # the next response wakes the sender
            self._in_flight += 1
            batches = [self._accumulator.take(partition, self._identity) for partition in led]
            tasks.start(self._produce(node_id, batches), f"produce to {node_id}")

    def _ensure_identity(self, tasks: TaskOwner) -> bool:
        """Whether there is a producer id, if one is needed; requests one if there is none."""
        if not self._config.is_idempotent or self._identity is not None:
            return True
        if not self._is_identifying:
            self._is_identifying = True
            tasks.start(self._identify(), "producer id")
        return False

    async def _identify(self) -> None:
        try:
            response = await self._network.request_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF),
                InitProducerIdResponse,
            )
            raise_for(response.error_code, "No producer id was assigned.")
            self._accumulator.forget_sequences()
            self._identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        except KafkaError as error:
            await self._pause_after(error)
        finally:
            self._is_identifying = False
            self.wake()

    async def _refresh(self, leaderless: set[str]) -> None:
        """Refresh the metadata, and name the topics of batches whose partitions have no leader.

        A broker with stale metadata may have reported such a topic as unknown, which removed it
        (`Sender.sendProducerData` in Kafka names it again, too).
        """
        try:
            await self._metadata.refresh(leaderless)
            # Pause, or a partition that still has no leader would cause another refresh at once.
            await asyncio.sleep(self._backoff.delay_seconds(1, self._random))
        except KafkaError as error:
            await self._pause_after(error)
        finally:
            self._is_refreshing = False
            self.wake()

    async def _pause_after(self, error: KafkaError) -> None:
        """Remember a failure, to report it when batches expire; wait before the next attempt."""
        self._last_failure = error
        await asyncio.sleep(self._backoff.delay_seconds(3, self._random))

    async def _produce(self, node_id: int, batches: list[ProducerBatch]) -> None:
        try:
            # Use topic ids (version 13) only if every topic has one.
            has_ids = all(
                self._metadata.topic_id(batch.partition.topic) != ZERO_UUID for batch in batches
            )
            request = self._request(batches)
            if self._config.acks == 0:
                await self._network.send_unanswered(node_id, request)
                for batch in batches:
                    self._acknowledge(batch, -1, -1)
                return
            response = await self._network.request(
                node_id,
                request,
                ProduceResponse,
                version_max=NEWEST if has_ids else _LAST_VERSION_WITH_TOPIC_NAMES,
            )
            self._on_response(batches, request, response)
        except KafkaError as error:
            for batch in batches:
                self._on_failure(batch, error)
        finally:
            self._in_flight -= 1
            self.wake()

    def _request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name = batch.partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData(
                    name=name, topic_id=self._metadata.topic_id(name), partition_data=[]
                )
            topic.partition_data.append(
                PartitionProduceData(
                    index=batch.partition.partition,
                    records=batch.build(self._config.compression),
                )
            )
        return ProduceRequest(
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _on_response(
        self, batches: list[ProducerBatch], request: ProduceRequest, response: ProduceResponse
    ) -> None:
        # Use the ids in the request: a topic may have been recreated since.
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id, "")
            for answer in topic.partition_responses:
                answers[TopicPartition(name, answer.index)] = answer
        for batch in batches:
            if batch.partition not in answers:
                silent = KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "The response has no result for the batch."
                )
                self._on_failure(batch, silent)
                continue
            answer = answers[batch.partition]
            if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._acknowledge(batch, answer.base_offset, answer.log_append_time_ms)
            else:
                self._on_failure(batch, refusal(answer.error_code, answer.error_message or ""))

    def _acknowledge(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        if self._accumulator.finish(batch):
            batch.complete(base_offset, append_time_ms)
            self._has_room.set()

    def _on_failure(self, batch: ProducerBatch, error: KafkaError) -> None:
        now = asyncio.get_running_loop().time()
        self._last_failure = error
        new_identity = batch.identity is not None and error.code in _ERRORS_THAT_NEED_NEW_ID
        if new_identity:
            self._reset_identity(batch)
        if error.is_retriable:
            self._metadata.mark_stale()
        is_over = now - batch.created_at >= self._config.delivery_timeout_ms / 1000
        if (error.is_retriable or new_identity) and not is_over:
            delay = self._backoff.delay_seconds(batch.attempts, self._random)
            self._accumulator.requeue(batch, now + delay)
        elif self._accumulator.finish(batch):
            self._let_go(batch, error)

    def _let_go(self, batch: ProducerBatch, error: KafkaError) -> None:
        if batch.attempts:
            self._reset_identity(batch)
        batch.fail(error)
        self._has_room.set()

    def _reset_identity(self, batch: ProducerBatch) -> None:
        """Request a new producer id, unless it has changed since the batch was sent."""
        if batch.identity == self._identity:
            self._identity = None
