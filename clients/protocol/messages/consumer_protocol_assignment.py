"""A member's assignment from the group leader, carried in SyncGroup: its partitions.

Opaque to the broker. It is prefixed with its own version, an int16. All versions have the same
fields.
"""

from ..schema import Message, Struct, field, int32


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """One member's partitions."""

    assigned_partitions: list[TopicPartition] = field("0+")
    user_data: bytes | None = field("0+", nullable="0+", default=None)
