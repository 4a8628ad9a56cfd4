"""What a test does as a client of the cluster that it tests against, however that was started."""

import asyncio
from collections.abc import Mapping
from typing import Final

from ..clients.admin import Admin, NewTopic
from ..clients.consumer.completed_fetch import ConsumerRecord
from ..clients.consumer.consumer import Consumer
from ..clients.consumer.fetcher import FetchConfig
from ..clients.errors import ErrorCode, KafkaError
from ..clients.topic_partition import TopicPartition
from .broker_error import BrokerError

CLIENT_ID: Final = "tierlog-testing"
"""The client id of all that is done here: it meets no faults."""
RECORDS_MAX: Final = 1_000_000
"""Records that one call returns at most."""
DONE_WITHIN_S: Final = 60.0
"""How long any of these may take."""

_POLL_MS = 500
_TOPIC_CHECK_S = 0.1
_READ_COMMITTED = 1


class ClusterAccess:
    """An admin client, and consumers as they are needed. Belongs to one event loop."""

    def __init__(self, bootstrap_servers: str, topic_wait_s: float) -> None:
        """`topic_wait_s`: how long a topic that is not there is waited for."""
        self._bootstrap = bootstrap_servers
        self._topic_wait_s = topic_wait_s
        self._admin = Admin(bootstrap_servers, client_id=CLIENT_ID)

    async def stop(self) -> None:
        """Close the connections."""
        await self._admin.stop()

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic. Raises KafkaError."""
        await self._admin.create_topics([NewTopic(name, partitions, configs=configs)])

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; does nothing where there is none. Raises KafkaError."""
        try:
            await self._admin.delete_topics([name])
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise

    async def records(self, topic: str) -> list[ConsumerRecord]:
        """The committed records from the start to the present end, partition after partition.

        Raises KafkaError, and BrokerError for more than `RECORDS_MAX`.
        """
        await self._check_topic(topic)
        fetch = FetchConfig(isolation_level=_READ_COMMITTED, fetch_max_wait_ms=_POLL_MS)
        consumer = Consumer(self._bootstrap, fetch=fetch, auto_offset_reset="earliest")
        async with consumer, asyncio.timeout(DONE_WITHIN_S):
            partitions = await consumer.partitions_for(topic)
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            consumer.seek_to_beginning(partitions)
            records: list[ConsumerRecord] = []
            while not await _are_reached(consumer, ends):
                records += await consumer.poll(_POLL_MS)
                if len(records) > RECORDS_MAX:
                    raise BrokerError(f"Topic {topic} has more than {RECORDS_MAX} records.")
        return sorted(
            (record for record in records if record.offset < ends[_partition_of(record)]),
            key=lambda each: (each.partition, each.offset),
        )

    async def _check_topic(self, topic: str) -> None:
        """Raise BrokerError if there is no such topic."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._topic_wait_s
        while topic not in await self._admin.list_topics(include_internal=True):
            if loop.time() >= deadline:
                raise BrokerError(f"There is no topic {topic}.")
            await asyncio.sleep(_TOPIC_CHECK_S)


def _partition_of(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


async def _are_reached(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    for partition, end in ends.items():
        if await consumer.position(partition) < end:
            return False
    return True
