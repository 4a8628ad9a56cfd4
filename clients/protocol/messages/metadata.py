"""Metadata (key 3): brokers, controller, topics and the leaders of their partitions.

Versions: 0 an empty topic list means all topics (null from 1 on); 1 rack, controller, internal
topics; 2 cluster id; 3 throttle time; 4 topic auto-creation can be disabled; 5 offline
replicas; 7 leader epochs; 8 authorised operations; 9 flexible; 10 topic ids
(KIP-516); 12 requests by topic id; 13 a top-level error (KIP-1102).
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32


class MetadataRequestTopic(Struct):
    """One topic, by name or by id."""

    topic_id: Uuid = field("10+", ignorable=True)
    name: str | None = field("0+", nullable="10+")


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    """The topics to describe; null means all, an empty list none."""

    topics: list[MetadataRequestTopic] | None = field("0+", nullable="1+")
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10")
    include_topic_authorized_operations: bool = field("8+")


class MetadataResponseBroker(Struct):
    """One broker and its address."""

    node_id: int32 = field("0+")
    host: str = field("0+")
    port: int32 = field("0+")
    rack: str | None = field("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """A partition's leader and replicas."""

    error_code: int16 = field("0+")
    partition_index: int32 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[int32] = field("0+")
    isr_nodes: list[int32] = field("0+")
    offline_replicas: list[int32] = field("5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """One topic and its partitions, or an error."""

    error_code: int16 = field("0+")
    name: str | None = field("0+", nullable="12+")
    topic_id: Uuid = field("10+", ignorable=True)
    is_internal: bool = field("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = field("0+")
    topic_authorized_operations: int32 = field("8+", default=-2147483648)


class MetadataResponse(Message, key=3, versions="0-13", flexible="9+"):
    """The cluster as this broker knows it."""

    throttle_time_ms: int32 = field("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field("0+")
    cluster_id: str | None = field("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field("0+")
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)
    error_code: int16 = field("13+", ignorable=True)
