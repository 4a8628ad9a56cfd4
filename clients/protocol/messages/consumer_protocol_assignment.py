"""What the leader of a group gives each member inside SyncGroup: its partitions.

An opaque value to the broker. It is written behind its own version, an int16. All versions have the
same fields.
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
