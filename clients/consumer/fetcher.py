"""Fetches records ahead of the consumer (`Fetcher` in Kafka).

Each leader gets one request at a time, for those of its partitions that have no fetched records
left to consume; so at most one response per partition is buffered. After a seek or a change of
assignment, responses to earlier fetches are out of date: their offset differs from the position,
and they are dropped.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import cast

from ..errors import ErrorCode, KafkaError
from ..kafka_uuid import ZERO_UUID
from ..network.metadata import Metadata
from ..network.network import NetworkClient
from ..network.refusal import raise_for, topic_refusal
from ..protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ..protocol.schema import NEWEST
from ..runtime.backoff import Backoff
from ..runtime.task_owner import TaskOwner
from ..topic_partition import TopicPartition
from .completed_fetch import CompletedFetch, ConsumerRecord, UndecodableRecordsError

_LAST_VERSION_WITH_TOPIC_NAMES = 12
_READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """How much to fetch, under Kafka's names."""

    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1024 * 1024
    isolation_level: int = 0
    check_crcs: bool = True
    client_rack: str = ""


@dataclass(slots=True)
class PartitionPosition:
    """The consumer's position in one partition."""

    # None until it is determined from a committed offset or a reset.
    offset: int | None = None
    high_watermark: int = -1
    is_paused: bool = False
    failures: int = 0
    retry_at: float = 0.0
    # The named offset (`offset_names.py`) that a seek asked for, until it is looked up.
    reset_to: int | None = None
    # What keeps its records from coming, though the fetch is tried again; None if they come.
    trouble: KafkaError | None = None
    # Whether there was a position before, so that the committed offset is out of date.
    had_position: bool = False

    @property
    def is_sought(self) -> bool:
        """Whether the position is still to be determined."""
        return self.offset is None or self.reset_to is not None

    @property
    def is_fresh(self) -> bool:
        """Whether to start from the committed offset, if there is one."""
        return self.reset_to is None and not self.had_position

    def find(self, offset: int) -> None:
        """Set the position to this offset."""
        self.offset = offset
        self.had_position = True
        self.reset_to = None


class Fetcher:
    """Fetches and buffers records of a consumer's partitions."""

    def __init__(
        self, network: NetworkClient, metadata: Metadata, config: FetchConfig, random: Random
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._config = config
        self._random = random
        self._backoff = Backoff(100, 1000)
        self._completed: deque[CompletedFetch] = deque()
        # The nodes that are asked, and since when.
        self._fetching_nodes: dict[int, float] = {}
        self._failure: KafkaError | None = None
        self.positions: dict[TopicPartition, PartitionPosition] = {}
        # Set whenever a response arrives or a request fails.
        self.changed = asyncio.Event()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Consume exactly these partitions; those that stay keep their positions."""
        self.positions = {
            partition: self.positions.get(partition) or PartitionPosition()
            for partition in partitions
        }

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Take buffered records, in order within each partition.

        If a fetch failed, the records before the failure are returned first; the next call raises
        its `KafkaError`.
        """
        records: list[ConsumerRecord] = []
        for fetch in tuple(self._completed):
            position = self.positions.get(fetch.partition)
            if position is None or position.is_sought or position.offset != fetch.next_offset:
                self._completed.remove(fetch)
                continue
            if position.is_paused:
                continue
            try:
                records += fetch.take(max_records - len(records))
            except UndecodableRecordsError:
                if records:
                    break
                self._completed.remove(fetch)
                raise
            position.offset = fetch.next_offset
            if not fetch.is_drained:
                break
            self._completed.remove(fetch)
        if not records and self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return records

    def send_fetches(self, tasks: TaskOwner) -> float | None:
        """Send a fetch to each idle leader; returns the time at which the next back-off ends."""
        now = asyncio.get_running_loop().time()
        buffered = {fetch.partition for fetch in self._completed}
        offsets_by_node: dict[int, dict[TopicPartition, int]] = {}
        retry_at: float | None = None
        for partition, position in self.positions.items():
            offset = None if position.reset_to is not None else position.offset
            if offset is None or position.is_paused or partition in buffered:
                continue
            if position.retry_at > now:
                retry_at = min(retry_at or position.retry_at, position.retry_at)
                continue
            leader = self._metadata.leader(partition)
            if leader is None:
                position.trouble = KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader."
                )
                self._metadata.mark_stale()
            elif leader.leader_id not in self._fetching_nodes:
                offsets_by_node.setdefault(leader.leader_id, {})[partition] = offset
        for node_id, offsets in offsets_by_node.items():
            self._fetching_nodes[node_id] = now
            tasks.start(self._fetch(node_id, offsets), f"fetch from {node_id}")
        return retry_at

    def troubles(self) -> list[KafkaError]:
        """What keeps records from coming now, by partition and by node; it may pass."""
        late = asyncio.get_running_loop().time() - self._config.fetch_max_wait_ms / 1000
        return [
            *(
                position.trouble
                for position in self.positions.values()
                if position.trouble is not None
            ),
            *(
                KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Node {node_id} does not answer a fetch.")
                for node_id, since in self._fetching_nodes.items()
                if since < late
            ),
        ]

    async def _fetch(self, node_id: int, offsets: dict[TopicPartition, int]) -> None:
        by_id = all(self._metadata.topic_id(tp.topic) != ZERO_UUID for tp in offsets)
        try:
            response = await self._network.request(
                node_id,
                self._request(offsets),
                FetchResponse,
                timeout_ms=self._network.request_timeout_ms + self._config.fetch_max_wait_ms,
                version_max=NEWEST if by_id else _LAST_VERSION_WITH_TOPIC_NAMES,
            )
            raise_for(response.error_code, "The fetch was refused.")
            self._on_response(offsets, response)
        except KafkaError as error:
            for partition in offsets:
                self._on_failure(partition, error)
        finally:
            del self._fetching_nodes[node_id]
            self.changed.set()

    def _request(self, offsets: dict[TopicPartition, int]) -> FetchRequest:
        config = self._config
        topics: dict[str, FetchTopic] = {}
        for partition, offset in offsets.items():
            name = partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(
                    topic=name, topic_id=self._metadata.topic_id(name), partitions=[]
                )
            leader = self._metadata.leader(partition)
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=-1 if leader is None else leader.leader_epoch,
                    fetch_offset=offset,
                    partition_max_bytes=config.max_partition_fetch_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=config.isolation_level,
            topics=list(topics.values()),
            rack_id=config.client_rack,
        )

    def _on_response(self, offsets: dict[TopicPartition, int], response: FetchResponse) -> None:
        for topic in response.responses:
            name = topic.topic or self._metadata.topic_names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                position = self.positions.get(partition)
                fetch_offset = offsets.get(partition)
                if position is None or fetch_offset is None or position.offset != fetch_offset:
                    continue
                if data.error_code == ErrorCode.CORRUPT_MESSAGE:
                    # A retry would not help, so the consumer raises the error, as in Kafka.
                    self._failure = UndecodableRecordsError(
                        ErrorCode.CORRUPT_MESSAGE,
                        "The leader's log is damaged there.",
                        partition,
                        fetch_offset,
                        fetch_offset + 1,
                    )
                elif data.error_code:
                    message = f"{partition} cannot be read at offset {fetch_offset}."
                    self._on_failure(partition, topic_refusal(data.error_code, name, message))
                else:
                    self._on_data(partition, position, fetch_offset, data)

    def _on_data(
        self,
        partition: TopicPartition,
        position: PartitionPosition,
        fetch_offset: int,
        data: PartitionData,
    ) -> None:
        position.failures = 0
        position.high_watermark = data.high_watermark
        position.trouble = None
        if not cast("memoryview | None", data.records):
            is_committed = self._config.isolation_level == _READ_COMMITTED
            end = data.last_stable_offset if is_committed else data.high_watermark
            if fetch_offset < end:
                # Its read from a tier, for example, takes longer than the broker waits for it.
                position.trouble = KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{partition} has records from offset {fetch_offset} on, but none come.",
                )
        else:
            self._completed.append(
                CompletedFetch(partition, fetch_offset, data, check_crcs=self._config.check_crcs)
            )

    def _on_failure(self, partition: TopicPartition, error: KafkaError) -> None:
        position = self.positions.get(partition)
        if position is None:
            return
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            position.offset = None
        elif error.is_retriable:
            position.trouble = error
            position.failures += 1
            delay = self._backoff.delay_seconds(position.failures, self._random)
            position.retry_at = asyncio.get_running_loop().time() + delay
            self._metadata.mark_stale()
        else:
            self._failure = error
