"""The input of an assignor: the members and the sizes of their topics."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ...clients.kafka_uuid import Uuid
from .topic_partitions import Partition, Partitions


class AssignorMember(NamedTuple):
    """A member as an assignor sees it.

    `topic_ids` are the existing topics that it subscribes to; `target` is its previous target.
    """

    instance_id: str | None
    topic_ids: frozenset[Uuid]
    target: Partitions


Members: TypeAlias = Mapping[str, AssignorMember]
TopicSizes: TypeAlias = Mapping[Uuid, int]
"""The number of partitions of every subscribed topic."""


def kept(member: AssignorMember, sizes: TopicSizes) -> list[Partition]:
    """The partitions of a member's previous target that it still subscribes to, in order."""
    return sorted(
        (topic_id, partition)
        for topic_id, partition in member.target
        if topic_id in member.topic_ids and partition < sizes[topic_id]
    )
