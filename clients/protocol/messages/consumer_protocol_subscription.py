"""A consumer's subscription for the group leader, carried in JoinGroup: its topics.

Opaque to the broker. It is prefixed with its own version, an int16. Versions: 1 owned partitions
(KIP-429); 2 generation (KIP-792); 3 rack (KIP-881).
"""

from ..schema import Message, Struct, field, int32


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = field("1+")
    partitions: list[int32] = field("1+")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """One member's subscription."""

    topics: list[str] = field("0+")
    user_data: bytes | None = field("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = field("1+", ignorable=True)
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    rack_id: str | None = field("3+", nullable="3+", default=None, ignorable=True)
