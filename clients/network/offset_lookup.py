"""Looks up offsets by timestamp or by name at the leaders (ListOffsets), for consumers and tools.

Named offsets are passed as the negative timestamps that stand for them on the wire
(`offset_names.py`).
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ..errors import ErrorCode, KafkaError
from ..protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..runtime.environment import Environment
from ..topic_partition import TopicPartition
from .metadata import Metadata
from .network import NetworkClient
from .refusal import refusal
from .retries import retry_until

CONSUMER_REPLICA_ID = -1


class OffsetAndTimestamp(NamedTuple):
    """An offset with its record's timestamp and leader epoch; all -1 if nothing was found."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetLookup:
    """Looks up offsets at the leaders; retries retriable errors until the timeout."""

    def __init__(
        self, network: NetworkClient, metadata: Metadata, environment: Environment
    ) -> None:
        self._network = network
        self._metadata = metadata
        self._random = environment.random

    async def look_up(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: int = 0,
        timeout_ms: int = 30_000,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The offset for each partition's timestamp. Raises the last `KafkaError` on timeout."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        results: dict[TopicPartition, OffsetAndTimestamp] = {}

        async def attempt() -> None:
            missing = {tp: at for tp, at in timestamps.items() if tp not in results}
            await self._ask_leaders(missing, isolation_level, results)

        mark_stale = self._metadata.mark_stale
        await retry_until(attempt, deadline, self._random, on_failure=mark_stale)
        return results

    async def _ask_leaders(
        self,
        timestamps: Mapping[TopicPartition, int],
        isolation_level: int,
        results: dict[TopicPartition, OffsetAndTimestamp],
    ) -> None:
        """Fill `results`; after all leaders have answered, raises the last partition error."""
        await self._metadata.ensure({partition.topic for partition in timestamps})
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, timestamp in timestamps.items():
            leader = self._metadata.leader(partition)
            if leader is None:
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"No leader of {partition} is known."
                )
            by_leader.setdefault(leader.leader_id, {})[partition] = timestamp
        failure: KafkaError | None = None
        for node_id, targets in by_leader.items():
            request = self._request(targets, isolation_level)
            response = await self._network.request(node_id, request, ListOffsetsResponse)
            for topic in response.topics:
                for answer in topic.partitions:
                    partition = TopicPartition(topic.name, answer.partition_index)
                    if answer.error_code:
                        failure = _refusal(partition, answer)
                    else:
                        results[partition] = OffsetAndTimestamp(
                            answer.offset, answer.timestamp, answer.leader_epoch
                        )
        if failure is not None:
            raise failure

    def _request(
        self, targets: Mapping[TopicPartition, int], isolation_level: int
    ) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, timestamp in targets.items():
            leader = self._metadata.leader(partition)
            topic = topics.setdefault(
                partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[])
            )
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=-1 if leader is None else leader.leader_epoch,
                    timestamp=timestamp,
                )
            )
        return ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID,
            isolation_level=isolation_level,
            topics=list(topics.values()),
            timeout_ms=self._network.request_timeout_ms,
        )


def _refusal(partition: TopicPartition, answer: ListOffsetsPartitionResponse) -> KafkaError:
    return refusal(answer.error_code, f"The offset of {partition} cannot be looked up.")
