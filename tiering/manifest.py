"""The manifest beside each segment in the tier: its metadata, and the size and CRC of each part.

It is written last, so a segment with a manifest is whole, and one without is an attempt that failed
or is still going on. The metadata topic stays the truth about which segments count; the manifests
are what is left to rebuild it from when the topic is lost, and what a scrub compares objects with.

It also tells what its topic was configured to be when it was copied. Nobody reads that but
`tierlog tier rebuild`, which has nothing else to learn it from.

The format is msgpack, a map with short text keys and a version, because Kafka has no format for it.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from ..clients.kafka_uuid import Uuid
from ..clients.topic_partition import TopicIdPartition
from ..storage.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from .remote_storage import RemoteStorageError

VERSION = 1


class Part(NamedTuple):
    """One object of a segment. The checksum is CRC32C over all its bytes."""

    size: int
    crc: int


class TopicDescription(NamedTuple):
    """A topic as it was when a segment of it was copied."""

    partitions: int
    config: Mapping[str, str]
    """Its own settings, by Kafka's names."""


class Manifest(NamedTuple):
    """A segment's metadata as of COPY_SEGMENT_STARTED, and its parts by the suffix of their key."""

    metadata: RemoteLogSegmentMetadata
    parts: dict[str, Part]
    topic: TopicDescription | None = None
    """None where the copier did not know."""


class _Msgpack(Protocol):
    def packb(self, content: object, /) -> bytes: ...

    def unpackb(self, content: bytes, /) -> object: ...


def _msgpack() -> _Msgpack:
    """Imported at the first copy: a broker that never copies should not pay for it at start."""
    return cast("_Msgpack", import_module("msgpack"))


def encode_manifest(manifest: Manifest) -> bytes:
    """The content of the manifest object."""
    metadata = manifest.metadata
    partition = metadata.topic_id_partition
    content: dict[str, object] = {
        "version": VERSION,
        "topic": partition.topic,
        "topic_id": bytes(partition.topic_id),
        "partition": partition.partition,
        "segment_id": bytes(metadata.id),
        "start_offset": metadata.start_offset,
        "end_offset": metadata.end_offset,
        "max_timestamp_ms": metadata.max_timestamp_ms,
        "broker_id": metadata.broker_id,
        "event_timestamp_ms": metadata.event_timestamp_ms,
        "leader_epochs": [list(entry) for entry in metadata.segment_leader_epochs],
        "txn_index_empty": metadata.txn_index_empty,
        "parts": {suffix: [part.size, part.crc] for suffix, part in manifest.parts.items()},
    }
    if manifest.topic is not None:
        content["topic_partitions"] = manifest.topic.partitions
        content["topic_config"] = dict(manifest.topic.config)
    return _msgpack().packb(content)


def decode_manifest(content: bytes) -> Manifest:
    """Raises RemoteStorageError for anything that `encode_manifest` did not write."""
    try:
        fields = cast("dict[str, object]", _msgpack().unpackb(content))
        if fields["version"] != VERSION:
            raise RemoteStorageError(f"A manifest of version {fields['version']} is not known here")
        parts = {
            suffix: Part(size, crc)
            for suffix, (size, crc) in cast("dict[str, list[int]]", fields["parts"]).items()
        }
        return Manifest(_metadata(fields, parts["log"].size), parts, _topic(fields))
    except RemoteStorageError:
        raise
    except Exception as error:
        # Bytes from a store: whatever is wrong with them is one and the same thing to the caller.
        raise RemoteStorageError(f"A manifest in the tier cannot be read: {error}") from error


def _topic(fields: dict[str, object]) -> TopicDescription | None:
    if "topic_partitions" not in fields:
        return None
    config = cast("dict[str, str]", fields["topic_config"])
    return TopicDescription(
        int(cast("int", fields["topic_partitions"])),
        {str(name): str(value) for name, value in config.items()},
    )


def _metadata(fields: dict[str, object], size: int) -> RemoteLogSegmentMetadata:
    def integer(name: str) -> int:
        return int(cast("int", fields[name]))

    partition = TopicIdPartition(
        Uuid(cast("bytes", fields["topic_id"])), str(fields["topic"]), integer("partition")
    )
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, Uuid(cast("bytes", fields["segment_id"]))),
        start_offset=integer("start_offset"),
        end_offset=integer("end_offset"),
        max_timestamp_ms=integer("max_timestamp_ms"),
        broker_id=integer("broker_id"),
        event_timestamp_ms=integer("event_timestamp_ms"),
        segment_size_bytes=size,
        segment_leader_epochs=tuple(
            (epoch, offset) for epoch, offset in cast("list[list[int]]", fields["leader_epochs"])
        ),
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        txn_index_empty=bool(fields["txn_index_empty"]),
    )
