"""The input of an assignor: its members, and how large their topics are."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ....clients.kafka_uuid import Uuid
from .topic_partitions import Partition, Partitions


class AssignorMember(NamedTuple):
    """A member as an assignor sees it.

    `topic_ids` are subscribed to and exist; `target` is what the member was to have until now.
    """

    instance_id: str | None
    topic_ids: frozenset[Uuid]
    target: Partitions


Members: TypeAlias = Mapping[str, AssignorMember]
TopicSizes: TypeAlias = Mapping[Uuid, int]
"""The number of partitions of every topic that anybody subscribes to."""


def kept(member: AssignorMember, sizes: TopicSizes) -> list[Partition]:
    """What a member was to have and still subscribes to, in order."""
    return sorted(
        (topic_id, partition)
        for topic_id, partition in member.target
        if topic_id in member.topic_ids and partition < sizes[topic_id]
    )
