"""DeleteTopics (key 20): topics to delete, by name or by id.

Versions: 1 throttle time; 4 flexible; 5 error messages; 6 topic ids, which moves the names into a
separate struct.
"""

from ...kafka_uuid import Uuid
from ..schema import Message, Struct, field, int16, int32


class DeleteTopicState(Struct):
    """One topic, by name or by id."""

    name: str | None = field("6+", nullable="6+", default=None)
    topic_id: Uuid = field("6+")


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    """The topics to delete."""

    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[str] = field("0-5", ignorable=True)
    timeout_ms: int32 = field("0+")


class DeletableTopicResult(Struct):
    """The result for one topic."""

    name: str | None = field("0+", nullable="6+")
    topic_id: Uuid = field("6+", ignorable=True)
    error_code: int16 = field("0+")
    error_message: str | None = field("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, key=20, versions="1-6", flexible="4+"):
    """The result for each topic."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    responses: list[DeletableTopicResult] = field("0+")
