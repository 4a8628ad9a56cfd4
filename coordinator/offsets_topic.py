"""The internal topic `__consumer_offsets`: the partition of a group, and the topic's configs."""

from functools import lru_cache

from ..clients.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from .group_config import GroupCoordinatorConfig

OFFSETS_TOPIC = "__consumer_offsets"


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: a polynomial in 31 over UTF-16 units, as a signed 32-bit number."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(encoded), 2):
        unit = encoded[position] << 8 | encoded[position + 1]
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@lru_cache(maxsize=256)
def partition_for(group_id: str, partition_count: int) -> int:
    """The partition whose leader coordinates a group (Utils.abs of the hash, modulo).

    Kafka's abs turns the one value without a positive counterpart, -2^31, into 0. Cached, because
    every timer of a group calls this and hashing a name of 32,767 characters takes 5 ms.
    """
    value = java_string_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def creatable_internal_topic(name: str, config: GroupCoordinatorConfig) -> CreatableTopic:
    """How to create an internal topic (GroupCoordinatorService.groupMetadataTopicConfigs).

    Topics other than `__consumer_offsets` are also compacted, but use the broker's defaults.
    """
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    configs = {"cleanup.policy": "compact", "compression.type": "producer"}
    if name == OFFSETS_TOPIC:
        topic.num_partitions = config.offsets_topic_num_partitions
        topic.replication_factor = config.offsets_topic_replication_factor
        configs["segment.bytes"] = str(config.offsets_topic_segment_bytes)
    topic.configs = [
        CreatableTopicConfig(name=each, value=value) for each, value in configs.items()
    ]
    return topic
