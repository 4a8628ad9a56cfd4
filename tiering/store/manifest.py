"""The manifest beside each segment in the tier: its metadata, and the size and CRC of each part.

It is written last, so a segment with a manifest is complete, and one without is an attempt that
failed or is still running. The metadata topic decides which segments count; the manifests serve to
rebuild that topic if it is lost, and a scrub compares the objects with them.

It also holds the topic's configuration at the time of the copy. Only `tierlog tier rebuild`, which
has no other source for it, reads that.

The format is msgpack, a map with short text keys and a version, because Kafka has no format for it.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from ...clients.kafka_uuid import Uuid
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_segment import (
    MAX_SEGMENT_BYTES,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from ..remote_storage import RemoteStorageError
from .object_keys import is_partition_name

VERSION = 1

MANIFEST_BYTES_MAX = 4 << 20
"""A larger object is no manifest, which has some hundred bytes and a few per leader epoch."""

PART_BYTES_MAX = 128 << 20
"""The largest part other than the log; such a part is read into memory as a whole."""

PARTITIONS_MAX = 100_000
"""The most partitions of one topic: a broker creates or returns as many as a manifest says."""

_ID_BYTES = 16
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_UINT32_MAX = 2**32 - 1
_REASON_CHARACTERS = 200
_SHOWN = 60
_SUFFIX = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class Part(NamedTuple):
    """One object of a segment. The checksum is CRC32C over all its bytes."""

    size: int
    crc: int


class TopicDescription(NamedTuple):
    """A topic as it was when a segment of it was copied."""

    partitions: int
    config: Mapping[str, str]
    """The topic's own settings, under Kafka's names."""


class Manifest(NamedTuple):
    """A segment's metadata as of COPY_SEGMENT_STARTED, and its parts by key suffix."""

    metadata: RemoteLogSegmentMetadata
    parts: dict[str, Part]
    topic: TopicDescription | None = None
    """None if the copier did not know it."""


class _Msgpack(Protocol):
    def packb(self, content: object, /) -> bytes: ...

    def unpackb(self, content: bytes, /) -> object: ...


def _msgpack() -> _Msgpack:
    """msgpack, imported at the first copy, not at the start."""
    return cast("_Msgpack", import_module("msgpack"))


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest object."""
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
    """Decode a manifest. Raises RemoteStorageError if `encode_manifest` did not write it."""
    try:
        fields = _map(_msgpack().unpackb(content))
        version = fields["version"]
        if version != VERSION:
            raise ValueError(f"its version {version!a} is unknown")
        parts = {_suffix(each): _part(part) for each, part in _map(fields["parts"]).items()}
        return Manifest(_metadata(fields, parts["log"].size), parts, _topic(fields))
    except Exception as error:
        # The bytes come from a store: the caller treats every defect of them alike.
        reason = f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS]
        text = (
            "A manifest in the remote tier cannot be decoded: "
            f"{reason.encode('unicode_escape').decode()}"
        )
        raise RemoteStorageError(text) from error


# Each takes a value that msgpack decoded, and raises ValueError if it has the wrong type.


def _map(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"a map was expected, not a {type(value).__name__}")
    return cast("dict[str, object]", value)


def _integer(value: object, least: int, most: int) -> int:
    # A bool or a float would pass the comparison alone.
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{str(value)[:_SHOWN]!a} is not an integer from {least} to {most}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:_SHOWN]!a} is not a string")
    return value


def _id(value: object) -> Uuid:
    if not isinstance(value, bytes) or len(value) != _ID_BYTES:
        raise ValueError(f"{str(value)[:_SHOWN]!a} is not an id")
    return Uuid(value)


def _suffix(value: object) -> str:
    suffix = _text(value)
    if _SUFFIX.fullmatch(suffix) is None:
        # The suffix becomes part of an object key.
        raise ValueError(f"{suffix[:_SHOWN]!a} is not the name of a segment part")
    return suffix


def _part(value: object) -> Part:
    size, crc = cast("list[object]", value)
    return Part(_integer(size, 0, MAX_SEGMENT_BYTES), _integer(crc, 0, _UINT32_MAX))


def _topic(fields: dict[str, object]) -> TopicDescription | None:
    if "topic_partitions" not in fields:
        return None
    config = _map(fields["topic_config"])
    return TopicDescription(
        _integer(fields["topic_partitions"], 1, PARTITIONS_MAX),
        {_text(name): _text(value) for name, value in config.items()},
    )


def _metadata(fields: dict[str, object], size: int) -> RemoteLogSegmentMetadata:
    def integer(name: str, least: int, most: int = _INT64_MAX) -> int:
        return _integer(fields[name], least, most)

    partition = TopicIdPartition(
        _id(fields["topic_id"]), _text(fields["topic"]), integer("partition", 0, PARTITIONS_MAX - 1)
    )
    if not is_partition_name(partition.topic, partition.partition):
        raise ValueError(f"{partition.topic[:_SHOWN]!a} is not a valid topic name")
    epochs = cast("list[list[object]]", fields["leader_epochs"])
    if type(fields["txn_index_empty"]) is not bool:
        raise ValueError("txn_index_empty is neither true nor false")
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, _id(fields["segment_id"])),
        start_offset=integer("start_offset", 0),
        # end_offset + 1, where the log continues, must fit 64 bits too.
        end_offset=integer("end_offset", 0, _INT64_MAX - 1),
        max_timestamp_ms=integer("max_timestamp_ms", -1),
        broker_id=integer("broker_id", -1, _INT32_MAX),
        event_timestamp_ms=integer("event_timestamp_ms", -1),
        segment_size_bytes=size,
        segment_leader_epochs=tuple(
            (_integer(epoch, 0, _INT32_MAX), _integer(offset, 0, _INT64_MAX))
            for epoch, offset in epochs
        ),
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        txn_index_empty=bool(fields["txn_index_empty"]),
    )
