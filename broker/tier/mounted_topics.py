"""Decides, without I/O, on the metadata records that add, change and remove mounted topics.

A mounted topic keeps the topic id that it has in the other cluster, because the keys of its objects
contain it. Its leader epochs are never below those of its records: clients remember the newest
epoch that they have seen, and would ignore metadata with an older one as stale.

A topic is refused if this cluster already has a topic with that name.
"""

from collections.abc import Mapping, Set as AbstractSet
from typing import NamedTuple

from ...clients.errors import KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.schema import Message
from ...clients.topic_partition import TopicIdPartition
from ...replication.control.partition_control import new_partition
from ...replication.metadata.cluster_image import ClusterImage, ConfigResourceType, TopicImage
from ...replication.metadata.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ...replication.topic_names import colliding_topic, validate_topic_name
from ...tiering.tools.mounted_lineages import MountedTopic, MountedView

_RECORDS_MAX = 5_000
"""A decision with more records than this ends early; the next refresh adds the other topics."""

_CONFIG = {
    "remote.log.copy.disable": "true",
    "remote.storage.enable": "true",
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
"""Nothing is copied, and nothing expires: the other cluster takes care of both."""


class MountDecision(NamedTuple):
    """The changes that make the metadata match a view."""

    records: list[Message]
    refused: dict[str, str]
    """Topics that cannot be served, each with the reason."""


def decide_topics(
    image: ClusterImage, node_id: int, view: MountedView, mounted: AbstractSet[Uuid]
) -> MountDecision:
    """Decide how to make the metadata match a view. `mounted`: the topic ids of this mount."""
    decision = MountDecision([], {})
    for topic in view.topics.values():
        if len(decision.records) > _RECORDS_MAX:
            return decision
        existing = image.topics_by_name.get(topic.name)
        epochs = _epochs(topic, view)
        if existing is None:
            reason = _refusal(image, topic.name)
            if reason:
                decision.refused[topic.name] = reason
            else:
                decision.records.extend(_new_topic(image, node_id, topic, epochs))
        elif existing.topic_id != topic.topic_id or topic.topic_id not in mounted:
            decision.refused[topic.name] = "this cluster already has a topic of that name"
        else:
            decision.records.extend(_changes(image, node_id, existing, topic, epochs))
    for topic_id in mounted:
        existing = image.topics_by_id.get(topic_id)
        if existing is None:
            continue
        shown = view.topics.get(existing.name)
        if shown is None or shown.topic_id != topic_id:
            decision.records.append(RemoveTopicRecord(topic_id=topic_id))
    return decision


def removals(image: ClusterImage, topic_ids: AbstractSet[Uuid]) -> list[Message]:
    """Removals of the topics of former mounts; their tier is not touched."""
    return [RemoveTopicRecord(topic_id=each) for each in topic_ids if each in image.topics_by_id]


def _refusal(image: ClusterImage, name: str) -> str:
    try:
        validate_topic_name(name)
    except KafkaError as error:
        return error.message
    if name.startswith("__"):
        return "names that begin with __ are reserved for internal topics"
    collision = colliding_topic(name, image.topics_by_name)
    return "" if collision is None else f"its name collides with that of {collision}"


def _epochs(topic: MountedTopic, view: MountedView) -> dict[int, int]:
    """The highest leader epoch in the tier, by partition."""
    epochs: dict[int, int] = {}
    for number in range(topic.partitions):
        partition = TopicIdPartition(topic.topic_id, topic.name, number)
        mounted = view.partitions.get(partition)
        epochs[number] = 0 if mounted is None else mounted.lineage.highest_epoch
    return epochs


def _new_topic(
    image: ClusterImage, node_id: int, topic: MountedTopic, epochs: Mapping[int, int]
) -> list[Message]:
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic.topic_id)]
    records += [
        ConfigRecord(
            resource_type=ConfigResourceType.TOPIC,
            resource_name=topic.name,
            name=name,
            value=value,
        )
        for name, value in _CONFIG.items()
    ]
    records += _new_partitions(image, node_id, topic, epochs)
    return records


def _new_partitions(
    image: ClusterImage, node_id: int, topic: MountedTopic, epochs: Mapping[int, int]
) -> list[Message]:
    records: list[Message] = []
    for number, epoch in epochs.items():
        record = new_partition(image, topic.topic_id, number, [node_id])
        record.leader_epoch = epoch
        records.append(record)
    return records


def _changes(
    image: ClusterImage,
    node_id: int,
    existing: TopicImage,
    topic: MountedTopic,
    epochs: Mapping[int, int],
) -> list[Message]:
    new = {number: epochs[number] for number in epochs if number not in existing.partitions}
    records = _new_partitions(image, node_id, topic, new)
    for number, partition in existing.partitions.items():
        # Each leader change raises the epoch by one, even one to the same leader.
        behind = min(epochs.get(number, 0) - partition.leader_epoch, _RECORDS_MAX)
        records += [
            PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id, leader=node_id)
            for _ in range(behind)
        ]
    return records
