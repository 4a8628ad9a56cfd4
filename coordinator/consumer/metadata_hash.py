"""The metadata hash of a group's topics (KIP-1101; Kafka's `Utils` of the group coordinator).

A group needs a new assignment when a subscribed topic is created or deleted, or when its partitions
or their racks change. To detect this, the group stores one hash instead of all metadata. The hash
of a topic covers its id, name, partition count and the racks of its replicas. The group's hash
covers the hashes of its topics, sorted by topic name. Both hashes are the same as in Kafka.
"""

import struct
from collections.abc import Iterable

from ...clients.xxh3 import xxh3_64
from ...replication.metadata.cluster_image import ClusterImage, TopicImage

NO_TOPICS = 0
"""The hash of a group if none of its topics exist."""

_MAGIC = b"\0"
_int32 = struct.Struct("<i")
_uint64 = struct.Struct("<Q")
_int64 = struct.Struct("<q")
_id_halves = struct.Struct(">QQ")

# A full cache is cleared before the next topic is added.
_REMEMBERED_TOPICS = 10_000


class MetadataHashes:
    """Computes the hashes of groups. Caches the hash of each topic until its metadata changes."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[TopicImage, int]] = {}

    def group_hash(self, topics: Iterable[str], image: ClusterImage) -> int:
        """The hash of those topics that exist, as a signed 64-bit integer."""
        hashed = bytearray()
        for name in sorted(topics):
            topic = image.topics_by_name.get(name)
            if topic is not None:
                hashed += _uint64.pack(self._topic_hash(topic, image))
        if not hashed:
            return NO_TOPICS
        signed: int = _int64.unpack(_uint64.pack(xxh3_64(bytes(hashed))))[0]
        return signed

    def _topic_hash(self, topic: TopicImage, image: ClusterImage) -> int:
        cached = self._topics.get(topic.name)
        if cached is not None and cached[0] is topic:
            return cached[1]
        if len(self._topics) >= _REMEMBERED_TOPICS:
            self._topics.clear()
        topic_hash = xxh3_64(_encode_topic(topic, image))
        self._topics[topic.name] = (topic, topic_hash)
        return topic_hash


def _encode_topic(topic: TopicImage, image: ClusterImage) -> bytes:
    high, low = _id_halves.unpack(topic.topic_id)
    count = len(topic.partitions)
    parts = [_MAGIC, _uint64.pack(high), _uint64.pack(low), _string(topic.name), _int32.pack(count)]
    for partition in range(count):
        parts.append(_int32.pack(partition))
        for rack in _racks(topic, partition, image):
            parts.append(_int32.pack(_utf16_length(rack)))
            parts.append(_string(rack))
    return b"".join(parts)


def _racks(topic: TopicImage, partition: int, image: ClusterImage) -> list[str]:
    replicas = topic.partitions[partition].replicas
    brokers = [image.brokers[replica] for replica in replicas if replica in image.brokers]
    return sorted(broker.rack for broker in brokers if broker.rack is not None)


def _string(text: str) -> bytes:
    return text.encode("utf-16-le") + _int32.pack(_utf16_length(text))


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
