"""Expiry of committed offsets (KIP-211; Kafka's OffsetExpirationCondition).

An offset with its own expire timestamp (OffsetCommit v2-v4) expires at that time. For other
offsets, `offsets.retention.minutes` is counted from when the group became empty, or, in a simple
group, from the commit. In a stable classic consumer group and in a group of the consumer protocol,
the retention is also counted from the commit, and offsets of topics with a subscriber don't expire.
A classic group keeps all offsets during a rebalance.
"""

import struct
from collections.abc import Callable

from ..classic.classic_group import ClassicGroup
from ..classic.group_state import GroupState
from ..consumer.consumer_group import ConsumerGroup
from ..group_actions import CONSUMER_PROTOCOL_TYPE
from ..group_records import CommittedOffset


def expiry_rule(
    group: ClassicGroup, retention_ms: int, now_ms: int
) -> Callable[[str, CommittedOffset], bool] | None:
    """The test for expired offsets of a group; None if it keeps all offsets for now."""
    since_empty = group.protocol_type is not None and group.state is GroupState.EMPTY
    subscribed: set[str] = set()
    if group.protocol_type is not None and not since_empty:
        if group.state is not GroupState.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics = subscribed_topics(group)
        if topics is None:
            return None
        subscribed = topics

    def is_expired(topic: str, committed: CommittedOffset) -> bool:
        if topic in subscribed:
            return False
        if committed.expire_timestamp_ms is not None:
            return now_ms >= committed.expire_timestamp_ms
        since_ms = committed.commit_timestamp_ms
        if since_empty and group.state_timestamp_ms != -1:
            since_ms = group.state_timestamp_ms
        return now_ms - since_ms >= retention_ms

    return is_expired


def consumer_expiry_rule(
    group: ConsumerGroup, retention_ms: int, now_ms: int
) -> Callable[[str, CommittedOffset], bool]:
    """The test for a group of the consumer protocol, whose subscriptions are always known."""

    def is_expired(topic: str, committed: CommittedOffset) -> bool:
        if group.subscribes_to(topic):
            return False
        if committed.expire_timestamp_ms is not None:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - committed.commit_timestamp_ms >= retention_ms

    return is_expired


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """The topics that the members of a consumer group subscribe to; None if unknown.

    Reads the beginning of ConsumerProtocolSubscription, which is the same in all its versions.
    """
    topics: set[str] = set()
    for member in group.members.by_id.values():
        try:
            topics.update(_subscription_topics(member.metadata(group.protocol_name)))
        except (struct.error, UnicodeDecodeError, ValueError):
            # A custom format: the topics are unknown, so no offset may expire.
            return None
    return topics


def _subscription_topics(metadata: bytes) -> list[str]:
    _, count = struct.unpack_from(">hi", metadata)
    position = struct.calcsize(">hi")
    # Each name takes at least two bytes: reject an impossible count before reading names.
    if not 0 <= count <= len(metadata) // 2:
        raise ValueError("the number of topics is impossible")
    topics: list[str] = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", metadata, position)
        position += 2
        if not 0 <= length <= len(metadata) - position:
            raise ValueError("a topic name extends past the end of the subscription")
        topics.append(metadata[position : position + length].decode())
        position += length
    return topics
