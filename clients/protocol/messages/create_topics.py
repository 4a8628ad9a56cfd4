"""CreateTopics (key 19): new topics, by count or by explicit assignment.

Versions: 2 throttle time; 4 defaults from the broker (-1, KIP-464); 5 flexible, and the response
shows what was created (KIP-525); 6 THROTTLING_QUOTA_EXCEEDED (KIP-599); 7 topic ids.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int8, int16, int32


class CreatableReplicaAssignment(Struct):
    """The brokers of one partition, its preferred leader first."""

    partition_index: int32 = field("0+")
    broker_ids: list[int32] = field("0+")


class CreatableTopicConfig(Struct):
    """A config to set on the topic."""

    name: str = field("0+")
    value: str | None = field("0+", nullable="0+")


class CreatableTopic(Struct):
    """One topic: its counts, or an assignment and counts of -1."""

    name: str = field("0+")
    num_partitions: int32 = field("0+")
    replication_factor: int16 = field("0+")
    assignments: list[CreatableReplicaAssignment] = field("0+")
    configs: list[CreatableTopicConfig] = field("0+")


class CreateTopicsRequest(Message, key=19, versions="2-7", flexible="5+"):
    """The topics to create."""

    topics: list[CreatableTopic] = field("0+")
    timeout_ms: int32 = field("0+", default=60000)
    validate_only: bool = field("1+")


class CreatableTopicConfigs(Struct):
    """A config that the new topic has, and where it comes from."""

    name: str = field("5+")
    value: str | None = field("5+", nullable="5+")
    read_only: bool = field("5+")
    config_source: int8 = field("5+", default=-1, ignorable=True)
    is_sensitive: bool = field("5+")


class CreatableTopicResult(Struct):
    """One topic as created, or its error."""

    name: str = field("0+")
    topic_id: Uuid = field("7+", ignorable=True)
    error_code: int16 = field("0+")
    error_message: str | None = field("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int16 = field("5+", tag=0, ignorable=True)
    num_partitions: int32 = field("5+", default=-1, ignorable=True)
    replication_factor: int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", nullable="5+", ignorable=True)


class CreateTopicsResponse(Message, key=19, versions="2-7", flexible="5+"):
    """The result for each topic."""

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[CreatableTopicResult] = field("0+")
