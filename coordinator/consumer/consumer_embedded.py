"""Encode and decode ConsumerProtocol: the subscriptions and assignments of classic members.

Each message starts with its version. A classic group treats these messages as opaque bytes. A
group of the consumer protocol decodes and encodes them for its classic protocol members.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.codec import decode, encode_bytes
from ...clients.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from ...clients.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from ...replication.metadata.cluster_image import ClusterImage
from .consumer_records import by_topic
from .topic_partitions import NOTHING, Partitions

_VERSION = struct.Struct(">h")
_NEWEST_VERSION = 3


class EmbeddedSubscription(NamedTuple):
    """A member's subscribed topics, sorted, with the partitions and the rack that it reports."""

    topics: tuple[str, ...]
    owned: Partitions
    rack_id: str | None


def version_of(data: bytes) -> int:
    """The version of an encoded message, capped at the newest supported version.

    Raises KafkaError(CORRUPT_MESSAGE).
    """
    version: int = _VERSION.unpack_from(data)[0] if len(data) >= _VERSION.size else -1
    if version < 0:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, "The ConsumerProtocol message has no valid version."
        )
    return min(version, _NEWEST_VERSION)


def read_subscription(data: bytes, image: ClusterImage) -> EmbeddedSubscription:
    """Decode a subscription, without the owned partitions of deleted topics.

    Raises KafkaError.
    """
    view = memoryview(data)
    parsed, _ = decode(ConsumerProtocolSubscription, version_of(data), view, _VERSION.size)
    return EmbeddedSubscription(
        tuple(sorted(set(parsed.topics))),
        _partitions(
            ((partition.topic, partition.partitions) for partition in parsed.owned_partitions),
            image,
        ),
        parsed.rack_id or None,
    )


def read_assignment(data: bytes, image: ClusterImage) -> tuple[Partitions, bytes]:
    """Decode an assignment: the partitions and the assignor's user data. Raises KafkaError.

    `data` is empty for a member that has just joined, because it has no assignment yet.
    """
    if not data:
        return NOTHING, b""
    view = memoryview(data)
    parsed, _ = decode(ConsumerProtocolAssignment, version_of(data), view, _VERSION.size)
    assigned = ((partition.topic, partition.partitions) for partition in parsed.assigned_partitions)
    return _partitions(assigned, image), bytes(parsed.user_data or b"")


def assignment_bytes(assigned: Partitions, image: ClusterImage, version: int) -> bytes:
    """Encode an assignment, without deleted topics."""
    topics = image.topics_by_id
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topics[topic_id].name, partitions=numbers)
            for topic_id, numbers in by_topic(assigned).items()
            if topic_id in topics
        ]
    )
    return _VERSION.pack(version) + encode_bytes(message, version)


def _partitions(topics: Iterable[tuple[str, Iterable[int]]], image: ClusterImage) -> Partitions:
    by_name = image.topics_by_name
    return frozenset(
        (by_name[name].topic_id, number)
        for name, numbers in topics
        if name in by_name
        for number in numbers
    )
