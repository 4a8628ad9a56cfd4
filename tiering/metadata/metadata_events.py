"""The records of `__remote_log_metadata`, in Kafka's own format (`RemoteLogMetadataSerde`).

A record's value is a frame version (1), the kind of event and its version, each an unsigned varint,
and then a message with compact lengths and tagged fields. Keys are null, as in Kafka. Therefore
`kafka-dump-log --remote-log-metadata-decoder` and Kafka's console formatter can read our topic.

    0  a segment with all its metadata            RemoteLogSegmentMetadataRecord
    1  a segment's change of state                RemoteLogSegmentMetadataUpdateRecord
    2  a step of the removal of a partition       RemotePartitionDeleteMetadataRecord
    3  a segment in a snapshot: never in the topic, and not read here

All events of one user partition are in one metadata partition, which follows from its topic id and
partition number, so they are read in the order in which they were produced.
"""

from collections.abc import Callable
from typing import cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid, uuid_to_string
from ...clients.producer.partitioner import murmur2
from ...clients.protocol.codec import decode, encode_bytes
from ...clients.protocol.schema import Message, Struct, field, int8, int32, int64
from ...clients.record.varint import encode_unsigned_varint, read_unsigned_varint
from ...clients.topic_partition import TopicIdPartition
from ...storage.remote.remote_segment import (
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from ..store.object_keys import is_partition_name

METADATA_TOPIC = "__remote_log_metadata"

_FRAME_VERSION = 1
_VERSION = 0
_NAME_CHARACTERS_MAX = 249
"""Kafka's longest topic name."""


class TopicIdPartitionEntry(Struct):
    """A partition by topic id; the name is for human readers."""

    name: str = field("0+")
    id: Uuid = field("0+")
    partition: int32 = field("0+")


class RemoteLogSegmentIdEntry(Struct):
    """One copy of a segment."""

    topic_id_partition: TopicIdPartitionEntry = field("0+")
    id: Uuid = field("0+")


class SegmentLeaderEpochEntry(Struct):
    """An epoch and its first offset in the segment."""

    leader_epoch: int32 = field("0+")
    offset: int64 = field("0+")


class RemoteLogSegmentMetadataRecord(Message, key=0, versions="0", flexible="0+"):
    """A leader is about to copy a segment."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field("0+")
    start_offset: int64 = field("0+")
    end_offset: int64 = field("0+")
    broker_id: int32 = field("0+")
    max_timestamp_ms: int64 = field("0+")
    event_timestamp_ms: int64 = field("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field("0+")
    segment_size_in_bytes: int32 = field("0+")
    custom_metadata: bytes | None = field("0+", nullable="0+", default=None)
    remote_log_segment_state: int8 = field("0+")
    txn_index_empty: bool = field("0+", tag=0)


class RemoteLogSegmentMetadataUpdateRecord(Message, key=1, versions="0", flexible="0+"):
    """A segment has changed its state."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field("0+")
    broker_id: int32 = field("0+")
    event_timestamp_ms: int64 = field("0+")
    custom_metadata: bytes | None = field("0+", nullable="0+", default=None)
    remote_log_segment_state: int8 = field("0+")


class RemotePartitionDeleteMetadataRecord(Message, key=2, versions="0", flexible="0+"):
    """The removal of a partition has changed its state."""

    topic_id_partition: TopicIdPartitionEntry = field("0+")
    broker_id: int32 = field("0+")
    event_timestamp_ms: int64 = field("0+")
    remote_partition_delete_state: int8 = field("0+")


def encode_event(event: RemoteLogMetadata) -> bytes:
    """The record value for an event."""
    message = _message(event)
    frame = (_FRAME_VERSION, message.api_key, _VERSION)
    return b"".join(map(encode_unsigned_varint, frame)) + encode_bytes(message, _VERSION)


def decode_event(value: bytes) -> RemoteLogMetadata:
    """The event in a record's value.

    Raises KafkaError(INVALID_RECORD) for an invalid event or one of an unknown kind.
    """
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        kind, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
        if frame_version != _FRAME_VERSION or kind not in _KINDS or version != _VERSION:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"The event type {kind}, version {version} (frame version {frame_version}) is "
                "unknown",
            )
        message_class, event_of = _KINDS[kind]
        message, end = decode(message_class, version, value, position)
        if end != len(value):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(value) - end} bytes follow the event")
        return event_of(message)
    except (IndexError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Not a tiering event: {error}") from error


def event_summary(event: RemoteLogMetadata) -> str:
    """A summary of an event for a log line; its length is bounded, whatever the event holds."""
    partition = event.topic_id_partition
    name = f"{partition.topic[:_NAME_CHARACTERS_MAX]!r}-{partition.partition}"
    summary = f"{event.state.name} from broker {event.broker_id}"
    if isinstance(event, RemotePartitionDeleteMetadata):
        return f"{summary}, of partition {name}"
    return f"{summary}, of segment {uuid_to_string(event.segment_id.id)} of {name}"


def _message(event: RemoteLogMetadata) -> Message:
    if isinstance(event, RemoteLogSegmentMetadata):
        return _segment_record(event)
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        return RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=_segment_id_entry(event.segment_id),
            broker_id=event.broker_id,
            event_timestamp_ms=event.event_timestamp_ms,
            custom_metadata=event.custom_metadata,
            remote_log_segment_state=event.state,
        )
    return RemotePartitionDeleteMetadataRecord(
        topic_id_partition=_partition_entry(event.topic_id_partition),
        broker_id=event.broker_id,
        event_timestamp_ms=event.event_timestamp_ms,
        remote_partition_delete_state=event.state,
    )


def _segment_record(metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadataRecord:
    return RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=_segment_id_entry(metadata.segment_id),
        start_offset=metadata.start_offset,
        end_offset=metadata.end_offset,
        broker_id=metadata.broker_id,
        max_timestamp_ms=metadata.max_timestamp_ms,
        event_timestamp_ms=metadata.event_timestamp_ms,
        segment_leader_epochs=[
            SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
            for epoch, offset in metadata.segment_leader_epochs
        ],
        segment_size_in_bytes=metadata.segment_size_bytes,
        custom_metadata=metadata.custom_metadata,
        remote_log_segment_state=metadata.state,
        txn_index_empty=metadata.txn_index_empty,
    )


def _partition_entry(partition: TopicIdPartition) -> TopicIdPartitionEntry:
    return TopicIdPartitionEntry(
        name=partition.topic, id=partition.topic_id, partition=partition.partition
    )


def _segment_id_entry(segment_id: RemoteLogSegmentId) -> RemoteLogSegmentIdEntry:
    return RemoteLogSegmentIdEntry(
        topic_id_partition=_partition_entry(segment_id.topic_id_partition), id=segment_id.id
    )


def _partition(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    if not is_partition_name(entry.name, entry.partition):
        raise ValueError(f"no topic can have the partition {entry.name[:60]!a}-{entry.partition}")
    return TopicIdPartition(entry.id, entry.name, entry.partition)


def _segment_id(entry: RemoteLogSegmentIdEntry) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(_partition(entry.topic_id_partition), entry.id)


def _segment_event(message: Message) -> RemoteLogMetadata:
    record = cast("RemoteLogSegmentMetadataRecord", message)
    return RemoteLogSegmentMetadata(
        segment_id=_segment_id(record.remote_log_segment_id),
        start_offset=record.start_offset,
        end_offset=record.end_offset,
        max_timestamp_ms=record.max_timestamp_ms,
        broker_id=record.broker_id,
        event_timestamp_ms=record.event_timestamp_ms,
        segment_size_bytes=record.segment_size_in_bytes,
        segment_leader_epochs=tuple(
            sorted((entry.leader_epoch, entry.offset) for entry in record.segment_leader_epochs)
        ),
        state=RemoteLogSegmentState(record.remote_log_segment_state),
        custom_metadata=_copy_bytes(record.custom_metadata),
        txn_index_empty=record.txn_index_empty,
    )


def _update_event(message: Message) -> RemoteLogMetadata:
    record = cast("RemoteLogSegmentMetadataUpdateRecord", message)
    return RemoteLogSegmentMetadataUpdate(
        segment_id=_segment_id(record.remote_log_segment_id),
        event_timestamp_ms=record.event_timestamp_ms,
        state=RemoteLogSegmentState(record.remote_log_segment_state),
        broker_id=record.broker_id,
        custom_metadata=_copy_bytes(record.custom_metadata),
    )


def _partition_delete_event(message: Message) -> RemoteLogMetadata:
    record = cast("RemotePartitionDeleteMetadataRecord", message)
    return RemotePartitionDeleteMetadata(
        topic_id_partition=_partition(record.topic_id_partition),
        state=RemotePartitionDeleteState(record.remote_partition_delete_state),
        event_timestamp_ms=record.event_timestamp_ms,
        broker_id=record.broker_id,
    )


def _copy_bytes(value: bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


_KINDS: dict[int, tuple[type[Message], Callable[[Message], RemoteLogMetadata]]] = {
    0: (RemoteLogSegmentMetadataRecord, _segment_event),
    1: (RemoteLogSegmentMetadataUpdateRecord, _update_event),
    2: (RemotePartitionDeleteMetadataRecord, _partition_delete_event),
}


def metadata_partition(partition: TopicIdPartition, partitions: int) -> int:
    """The metadata partition that holds a user partition's events.

    Kafka's `RemoteLogMetadataTopicPartitioner`: murmur2 over the Java hash of (least significant
    half of the topic id, most significant half, partition number). The name is not hashed, so a
    topic recreated under its old name starts elsewhere.
    """
    most, least = partition.topic_id[:8], partition.topic_id[8:]
    combined = 1
    for hashed in (_java_long_hash(least), _java_long_hash(most), partition.partition):
        combined = (31 * combined + hashed) & 0xFFFF_FFFF
    return (murmur2(combined.to_bytes(4, "big")) & 0x7FFF_FFFF) % partitions


def _java_long_hash(half: bytes) -> int:
    return int.from_bytes(half[:4], "big") ^ int.from_bytes(half[4:], "big")
