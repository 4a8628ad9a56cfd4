"""Snapshots of the metadata topic on disk, so that a start need not read years of it.

    <log dir>/remote-log-metadata-<metadata partition>.snapshot

KIP-405 has such a file. Kafka removed its own before it was finished; that file was in the
partition directories, from which logs are loaded (KAFKA-16161). Ours are beside the checkpoints,
where a Kafka broker that takes over the directory ignores unknown files. There is one for each
metadata partition. It is replaced as a whole, when a broker stops and after every so many events.

A snapshot is only a cache. It holds the offset after its last event, and that event's checksum:
reading resumes at that event. If the topic has another event there, or none (it was truncated,
recreated, or its log start has moved past it), the snapshot is dropped and the topic is read from
its beginning. The same happens to a file that is damaged, of a later version, or of another cluster
or topic.

The content is msgpack after eight bytes: a magic, a version and a CRC32C of everything after them.
"""

from importlib import import_module
from typing import NamedTuple, Protocol, cast

from ...clients.kafka_uuid import Uuid
from ...clients.record.checksum import crc32c
from ...clients.topic_partition import TopicIdPartition
from ...storage.files import Files
from ...storage.remote.remote_log import EpochImage, RemoteLogImage
from ...storage.remote.remote_segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)

VERSION = 1

_MAGIC = b"RLM"
_HEADER_BYTES = 8
_ID_BYTES = 16
_NUMBER_BITS = 63
_SHOWN = 40


class BadSnapshotError(Exception):
    """A snapshot that cannot be used; the message says why."""


class TopicIdentity(NamedTuple):
    """Identifies a metadata topic."""

    cluster_id: str
    topic_id: Uuid


class Snapshot(NamedTuple):
    """The state after all events of one metadata partition up to an offset."""

    identity: TopicIdentity
    partition: int
    next_offset: int
    """The offset after the last event."""
    last_event_crc: int
    """CRC32C of the last event's value."""
    logs: tuple[tuple[TopicIdPartition, RemoteLogImage], ...]


class _Msgpack(Protocol):
    def packb(self, content: object, /) -> bytes: ...

    def unpackb(self, content: bytes | memoryview, /, *, use_list: bool) -> object: ...


def _msgpack() -> _Msgpack:
    """msgpack, imported on first use: a broker without a tier does not load it."""
    return cast("_Msgpack", import_module("msgpack"))


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encode a snapshot file."""
    body = _msgpack().packb(
        (
            snapshot.identity.cluster_id,
            bytes(snapshot.identity.topic_id),
            snapshot.partition,
            snapshot.next_offset,
            snapshot.last_event_crc,
            [_log_fields(partition, image) for partition, image in snapshot.logs],
        )
    )
    return _MAGIC + bytes([VERSION]) + crc32c(body).to_bytes(4, "big") + body


def decode_snapshot(content: bytes) -> Snapshot:
    """Decode a file. Raises BadSnapshotError for anything that `encode_snapshot` did not write."""
    if content[:3] != _MAGIC or len(content) < _HEADER_BYTES:
        raise BadSnapshotError("it is not a snapshot")
    if content[3] != VERSION:
        raise BadSnapshotError(f"its version {content[3]} is unknown")
    body = memoryview(content)[_HEADER_BYTES:]
    if crc32c(body) != int.from_bytes(content[4:_HEADER_BYTES], "big"):
        raise BadSnapshotError("it is damaged")
    try:
        fields = cast("tuple[object, ...]", _msgpack().unpackb(body, use_list=False))
        cluster_id, topic_id, partition, next_offset, crc, logs = fields
        _check(str, cluster_id)
        _check(int, partition, next_offset, crc)
        return Snapshot(
            TopicIdentity(cast("str", cluster_id), _id(topic_id)),
            cast("int", partition),
            cast("int", next_offset),
            cast("int", crc),
            tuple(map(_log, cast("tuple[_LogFields, ...]", logs))),
        )
    except Exception as error:
        # The checksum matches, so another version of tierlog wrote this.
        raise BadSnapshotError(f"it cannot be decoded ({error})") from error


def _check(kind: type, *values: object) -> None:
    """Raise ValueError unless all are of exactly this type and numbers fit 64 bits."""
    for value in values:
        if type(value) is not kind or (type(value) is int and value.bit_length() > _NUMBER_BITS):
            raise ValueError(f"{str(value)[:_SHOWN]!a} stands where a {kind.__name__} should")


def _id(value: object) -> Uuid:
    _check(bytes, value)
    content = cast("bytes", value)
    if len(content) != _ID_BYTES:
        raise ValueError(f"an id of {len(content)} bytes")
    return Uuid(content)


_SegmentFields = tuple[
    bytes, int, int, int, int, int, int, tuple[tuple[int, int], ...], int, bytes | None, bool
]
_EpochFields = tuple[int, int | None, tuple[tuple[int, int, bytes], ...]]
_LogFields = tuple[
    str, bytes, int, tuple[_SegmentFields, ...], tuple[_EpochFields, ...], int | None, int
]


def _log_fields(partition: TopicIdPartition, image: RemoteLogImage) -> _LogFields:
    state = image.partition_delete_state
    return (
        partition.topic,
        bytes(partition.topic_id),
        partition.partition,
        tuple(map(_segment_fields, image.segments)),
        tuple(
            (epoch, highest, tuple((start, end, bytes(each)) for start, end, each in readable))
            for epoch, highest, readable in image.epochs
        ),
        None if state is None else int(state),
        image.remover_id,
    )


def _log(fields: _LogFields) -> tuple[TopicIdPartition, RemoteLogImage]:
    topic, topic_id, number, segments, epochs, state, remover_id = fields
    _check(str, topic)
    _check(int, number, remover_id)
    partition = TopicIdPartition(_id(topic_id), topic, number)
    image = RemoteLogImage(
        tuple(_segment(partition, segment) for segment in segments),
        tuple(
            EpochImage(epoch, highest, tuple((start, end, _id(each)) for start, end, each in ids))
            for epoch, highest, ids in epochs
        ),
        None if state is None else RemotePartitionDeleteState(state),
        remover_id,
    )
    segment_ids = {segment.id for segment in image.segments}
    for epoch, highest, readable in image.epochs:
        _check(int, epoch, *(() if highest is None else (highest,)))
        previous = -1
        for start, end, segment_id in readable:
            _check(int, start, end)
            if segment_id not in segment_ids or start <= previous:
                raise ValueError(f"epoch {epoch} refers to a segment that is missing")
            previous = start
    return partition, image


def _segment_fields(segment: RemoteLogSegmentMetadata) -> _SegmentFields:
    return (
        bytes(segment.id),
        segment.start_offset,
        segment.end_offset,
        segment.max_timestamp_ms,
        segment.broker_id,
        segment.event_timestamp_ms,
        segment.segment_size_bytes,
        segment.segment_leader_epochs,
        int(segment.state),
        segment.custom_metadata,
        segment.txn_index_empty,
    )


def _segment(partition: TopicIdPartition, fields: _SegmentFields) -> RemoteLogSegmentMetadata:
    segment_id, start, end, timestamp, broker, event_ms, size, epochs, state, custom, empty = fields
    _check(int, start, end, timestamp, broker, event_ms, size)
    _check(bool, empty)
    for epoch, first in epochs:
        _check(int, epoch, first)
    if custom is not None:
        _check(bytes, custom)
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, _id(segment_id)),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=timestamp,
        broker_id=broker,
        event_timestamp_ms=event_ms,
        segment_size_bytes=size,
        segment_leader_epochs=epochs,
        state=RemoteLogSegmentState(state),
        custom_metadata=custom,
        txn_index_empty=empty,
    )


class SnapshotFiles:
    """The snapshot files of one broker. All methods may block; call them in a pool thread."""

    def __init__(self, files: Files, log_directory: str) -> None:
        self._files = files
        self._log_directory = log_directory

    def save(self, snapshot: Snapshot) -> None:
        """Replace the file of a metadata partition. Raises OSError."""
        self._files.atomic_replace(self._path(snapshot.partition), encode_snapshot(snapshot))

    def load(self, identity: TopicIdentity, partition: int) -> Snapshot | None:
        """The saved snapshot of a metadata partition of this topic; None if there is none.

        Raises BadSnapshotError, OSError.
        """
        path = self._path(partition)
        if not self._files.exists(path):
            return None
        snapshot = decode_snapshot(self._files.read(path))
        if snapshot.identity != identity or snapshot.partition != partition:
            raise BadSnapshotError("it belongs to another cluster or another topic")
        return snapshot

    def remove(self, partition: int) -> None:
        """Remove the snapshot file of a metadata partition. Raises OSError."""
        self._files.remove(self._path(partition))

    def _path(self, partition: int) -> str:
        return f"{self._log_directory}/remote-log-metadata-{partition}.snapshot"
