"""A client's view of its cluster: brokers, topics, and the leader of each partition.

The view may be out of date: it is refreshed when it is old, when a topic is missing, and when a
broker's response contradicts it. Only one refresh runs at a time; callers that need a refresh in
the meantime wait for that one. A response with an older leader epoch than the known one is ignored
for that partition (KIP-320), since brokers learn of elections at different times.
"""

import asyncio
from collections.abc import Collection
from typing import NamedTuple

from ..errors import ErrorCode, KafkaError
from ..kafka_uuid import ZERO_UUID, Uuid
from ..protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ..runtime.environment import Environment
from ..topic_partition import TopicPartition
from .network import Address, NetworkClient
from .refusal import raise_for, topic_refusal
from .retries import retry_until

NO_LEADER = -1


class PartitionMetadata(NamedTuple):
    """A partition's leader and replicas, as far as this client knows."""

    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    """A topic's id and its partitions by number."""

    topic_id: Uuid
    partitions: dict[int, PartitionMetadata]
    is_internal: bool = False


class Metadata:
    """The cached view, shared by the parts of one client."""

    def __init__(
        self,
        network: NetworkClient,
        environment: Environment,
        *,
        max_age_ms: int = 300_000,
        allow_auto_topic_creation: bool = False,
    ) -> None:
        self._network = network
        self._environment = environment
        self._max_age_seconds = max_age_ms / 1000
        self._allow_auto_topic_creation = allow_auto_topic_creation
        self._refreshing = asyncio.Lock()
        self._refreshes = 0
        self._refreshed_at: float | None = None
        self._is_stale = False
        self._topic_errors: dict[str, KafkaError] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.topic_names: dict[Uuid, str] = {}
        self.controller_id = NO_LEADER
        self.cluster_id: str | None = None

    def mark_stale(self) -> None:
        """Mark this view as contradicted by a response; the next `ensure` refreshes it."""
        self._is_stale = True

    @property
    def is_stale(self) -> bool:
        """Whether the view was contradicted, is older than `max_age_ms` or was never fetched."""
        if self._is_stale or self._refreshed_at is None:
            return True
        return asyncio.get_running_loop().time() - self._refreshed_at > self._max_age_seconds

    def leader(self, partition: TopicPartition) -> PartitionMetadata | None:
        """The partition's leader, or None if there is none or it is not known."""
        topic = self.topics.get(partition.topic)
        leader = topic.partitions.get(partition.partition) if topic is not None else None
        return leader if leader is not None and leader.leader_id != NO_LEADER else None

    def topic_id(self, topic: str) -> Uuid:
        """The topic's id, or the zero id if the topic is not known or the broker sent none."""
        metadata = self.topics.get(topic)
        return metadata.topic_id if metadata is not None else ZERO_UUID

    async def ensure(self, topics: Collection[str]) -> None:
        """Refresh if the view is stale or lacks one of these topics.

        Raises `KafkaError` when no broker answers. A topic that does not exist is left out of the
        view; `partition_count` raises its error.
        """
        if self.is_stale or any(topic not in self.topics for topic in topics):
            await self.refresh(topics)

    async def refresh(self, topics: Collection[str]) -> None:
        """Request the metadata of these topics and of those in the view. Raises `KafkaError`."""
        refreshes = self._refreshes
        async with self._refreshing:
            if self._refreshes != refreshes and all(topic in self.topics for topic in topics):
                return
            names = sorted({*topics, *self.topics})
            response = await self._network.request_any(
                MetadataRequest(
                    topics=[MetadataRequestTopic(name=name) for name in names],
                    allow_auto_topic_creation=self._allow_auto_topic_creation,
                ),
                MetadataResponse,
            )
            raise_for(response.error_code, "Metadata was refused.")
            self.apply(response)

    async def partition_count(self, topic: str, timeout_ms: int) -> int:
        """How many partitions a topic has; refreshes until the topic is found.

        Raises the topic's `KafkaError` if it is not retriable, or at the timeout.
        """
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000

        async def attempt() -> int:
            if topic not in self.topics:
                await self.refresh([topic])
            if topic not in self.topics:
                error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No topic {topic}.")
                raise self._topic_errors.get(topic, error)
            return len(self.topics[topic].partitions)

        return await retry_until(attempt, deadline, self._environment.random)

    def apply(self, response: MetadataResponse) -> None:
        """Update the view from a response."""
        self._refreshes += 1
        self._refreshed_at = asyncio.get_running_loop().time()
        self._is_stale = False
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        self._network.update_nodes(
            {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        )
        for topic in response.topics:
            if topic.name is not None:
                self._apply_topic(topic.name, topic)

    def _apply_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        current = self.topics.get(name)
        if topic.error_code:
            self._topic_errors[name] = topic_refusal(
                topic.error_code, name, f"No broker serves topic {name}."
            )
            is_deleted = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if current is not None and is_deleted:
                del self.topics[name]
                self.topic_names.pop(current.topic_id, None)
            return
        self._topic_errors.pop(name, None)
        if current is not None and current.topic_id != topic.topic_id:
            self.topic_names.pop(current.topic_id, None)
            current = None  # recreated: its leader epochs start over
        partitions: dict[int, PartitionMetadata] = {}
        for partition in topic.partitions:
            received = PartitionMetadata(
                partition.leader_id,
                partition.leader_epoch,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
            )
            before = current.partitions.get(partition.partition_index) if current else None
            is_older = before is not None and 0 <= received.leader_epoch < before.leader_epoch
            partitions[partition.partition_index] = before if before and is_older else received
        self.topics[name] = TopicMetadata(topic.topic_id, partitions, topic.is_internal)
        if topic.topic_id != ZERO_UUID:
            self.topic_names[topic.topic_id] = name
