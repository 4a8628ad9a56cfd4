"""Distinguishes a topic from one that was created again under its name.

Offsets mean nothing without the topic that they belong to. So what keeps offsets between runs (a
table, a checkpoint, a group) keeps the ids with them, and goes on only if the tier has the same.
States that an earlier version saved have no ids: then those in the tier are taken on.
"""

from typing import NamedTuple

from ...clients.kafka_uuid import Uuid, uuid_to_string
from .scan_options import TopicIds


class RecreatedTopic(NamedTuple):
    """A topic whose id is not the expected one: it was deleted and created again."""

    topic: str
    expected_id: Uuid
    current_id: Uuid

    def __str__(self) -> str:
        """What is the case, as the first part of a sentence for the user."""
        return (
            f"topic {self.topic!r} was deleted and created again: its id was "
            f"{uuid_to_string(self.expected_id)} and is {uuid_to_string(self.current_id)} now"
        )


def recreated_topic(expected: TopicIds, current: TopicIds) -> RecreatedTopic | None:
    """The first topic that has another id than expected; one with an unknown id never has."""
    for topic, topic_id in sorted(current.items()):
        before = expected.get(topic, topic_id)
        if before != topic_id:
            return RecreatedTopic(topic, before, topic_id)
    return None
