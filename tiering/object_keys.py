"""Names of the objects in the tier.

    <topic>-<partition>-<topic id>/<start offset>-<leader epoch>-<segment id>.<suffix>

A key alone says whose it is and how old: the topic id keeps two topics of one name apart, the start
offset (20 digits, so that a listing is in offset order) and the newest leader epoch in the segment
say where it belongs, and the segment id, new for each attempt to copy, keeps one attempt from
overwriting another. A sweep for orphans can thus decide from keys, and so can a person.

Ids are in Kafka's text form, which may contain a dash: keys are taken apart by length, not by dash.
"""

from typing import NamedTuple

from ..clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ..clients.topic_partition import TopicIdPartition
from ..storage.remote_segment import RemoteLogSegmentMetadata

LOG_SUFFIX = "log"
MANIFEST_SUFFIX = "manifest"

_ID_LENGTH = 22
_OFFSET_DIGITS = 20


class ObjectKey(NamedTuple):
    """What the key of an object says."""

    topic_id_partition: TopicIdPartition
    start_offset: int
    leader_epoch: int
    segment_id: Uuid
    suffix: str


def partition_prefix(partition: TopicIdPartition) -> str:
    """The folder of all segments of one partition of one incarnation of a topic."""
    return f"{partition.topic}-{partition.partition}-{uuid_to_string(partition.topic_id)}"


def object_key(metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
    """The key of one part of a segment, relative to the root of the tier."""
    newest_epoch = metadata.segment_leader_epochs[-1][0]
    return (
        f"{partition_prefix(metadata.topic_id_partition)}/"
        f"{metadata.start_offset:0{_OFFSET_DIGITS}d}-{newest_epoch}-"
        f"{uuid_to_string(metadata.id)}.{suffix}"
    )


def parse_object_key(key: str) -> ObjectKey | None:
    """What a key says, or None if it is not one of ours."""
    folder, slash, name = key.rpartition("/")
    stem, dot, suffix = name.partition(".")
    folder = folder.rpartition("/")[2]
    head, topic_id = folder[: -_ID_LENGTH - 1], folder[-_ID_LENGTH:]
    topic, dash, partition = head.rpartition("-")
    start_offset, epoch = stem[:_OFFSET_DIGITS], stem[_OFFSET_DIGITS + 1 : -_ID_LENGTH - 1]
    if not (slash and dot and dash and topic):
        return None
    try:
        found = ObjectKey(
            TopicIdPartition(uuid_from_string(topic_id), topic, int(partition)),
            int(start_offset),
            int(epoch),
            uuid_from_string(stem[-_ID_LENGTH:]),
            suffix,
        )
    except ValueError:
        return None
    return found if _key_of(found) == f"{folder}/{name}" else None


def _key_of(key: ObjectKey) -> str:
    return (
        f"{partition_prefix(key.topic_id_partition)}/"
        f"{key.start_offset:0{_OFFSET_DIGITS}d}-{key.leader_epoch}-"
        f"{uuid_to_string(key.segment_id)}.{key.suffix}"
    )
