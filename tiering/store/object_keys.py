"""Names of the objects in the tier.

    <topic>-<partition>-<topic id>/<start offset>-<leader epoch>-<segment id>.<suffix>

A key alone identifies its partition and position: the topic id distinguishes topics of the same
name, the start offset (20 digits, so that a listing is in offset order) and the newest leader epoch
in the segment say where it belongs, and the segment id, new for each copy attempt, keeps one
attempt from overwriting another. So a scan for orphans, or a person, can tell from the key what an
object is.

Ids are in Kafka's text form, which may contain a dash: keys are parsed by length, not by dash.

A topic's name comes from events and manifests that anyone may have written, so it is validated
before it becomes part of a key: no name leads out of the tier.
"""

import re
from typing import NamedTuple

from ...clients.kafka_uuid import Uuid, uuid_from_string, uuid_to_string
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_segment import RemoteLogSegmentMetadata
from ..remote_storage import RemoteStorageError

LOG_SUFFIX = "log"
MANIFEST_SUFFIX = "manifest"

_ID_LENGTH = 22
_OFFSET_DIGITS = 20
_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
_SHOWN = 60
"""The most characters shown of a refused name."""


class ObjectKey(NamedTuple):
    """The fields of an object's key."""

    topic_id_partition: TopicIdPartition
    start_offset: int
    leader_epoch: int
    segment_id: Uuid
    suffix: str


def is_partition_name(topic: str, partition: int) -> bool:
    """Whether a topic may have this name and a partition of this number (`topic_names.py`)."""
    return partition >= 0 and _TOPIC_NAME.fullmatch(topic) is not None


def partition_prefix(partition: TopicIdPartition) -> str:
    """The folder of all segments of one partition of one incarnation of a topic.

    Raises RemoteStorageError for a name that no topic can have.
    """
    if not is_partition_name(partition.topic, partition.partition):
        raise RemoteStorageError(
            f"{partition.topic[:_SHOWN]!a}-{partition.partition} is not a valid partition: its "
            "objects are not read, written or removed"
        )
    return f"{partition.topic}-{partition.partition}-{uuid_to_string(partition.topic_id)}"


def object_key(metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
    """The key of one part of a segment, relative to the root of the tier."""
    return f"{object_stem(metadata)}.{suffix}"


def object_stem(metadata: RemoteLogSegmentMetadata) -> str:
    """The common prefix of the keys of all parts of a segment, up to the dot."""
    newest_epoch = metadata.segment_leader_epochs[-1][0]
    return (
        f"{partition_prefix(metadata.topic_id_partition)}/"
        f"{metadata.start_offset:0{_OFFSET_DIGITS}d}-{newest_epoch}-"
        f"{uuid_to_string(metadata.id)}"
    )


def parse_partition_folder(folder: str) -> TopicIdPartition | None:
    """The partition whose `partition_prefix` this is, or None if it is none's."""
    topic, _, partition = folder[: -_ID_LENGTH - 1].rpartition("-")
    try:
        candidate = TopicIdPartition(uuid_from_string(folder[-_ID_LENGTH:]), topic, int(partition))
        return candidate if partition_prefix(candidate) == folder else None
    except (ValueError, RemoteStorageError):
        return None


def parse_object_key(key: str) -> ObjectKey | None:
    """The fields of a key, or None if it is not one of ours."""
    folder, slash, name = key.rpartition("/")
    stem, dot, suffix = name.partition(".")
    folder = folder.rpartition("/")[2]
    head, topic_id = folder[: -_ID_LENGTH - 1], folder[-_ID_LENGTH:]
    topic, dash, partition = head.rpartition("-")
    start_offset, epoch = stem[:_OFFSET_DIGITS], stem[_OFFSET_DIGITS + 1 : -_ID_LENGTH - 1]
    if not (slash and dot and dash and topic):
        return None
    try:
        candidate = ObjectKey(
            TopicIdPartition(uuid_from_string(topic_id), topic, int(partition)),
            int(start_offset),
            int(epoch),
            uuid_from_string(stem[-_ID_LENGTH:]),
            suffix,
        )
        return candidate if _key_of(candidate) == f"{folder}/{name}" else None
    except (ValueError, RemoteStorageError):
        return None


def _key_of(key: ObjectKey) -> str:
    return (
        f"{partition_prefix(key.topic_id_partition)}/"
        f"{key.start_offset:0{_OFFSET_DIGITS}d}-{key.leader_epoch}-"
        f"{uuid_to_string(key.segment_id)}.{key.suffix}"
    )
