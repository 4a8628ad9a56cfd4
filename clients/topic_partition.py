"""Kafka's two partition identifiers: by topic name, and by topic id and name (KIP-516)."""

from typing import NamedTuple

from .kafka_uuid import Uuid, uuid_to_string


class TopicPartition(NamedTuple):
    """A partition by topic name. The partitions of a recreated topic equal the old ones."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by topic id, which is never reused. The name is only for people."""

    topic_id: Uuid
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{uuid_to_string(self.topic_id)}:{self.topic}-{self.partition}"
