"""The records of consumer protocol groups in `__consumer_offsets` (KIP-848).

They equal those of Apache Kafka 4.3.1 byte for byte: a key starts with its record type instead of a
version, and values have version 0. A group has several types of records: its epoch (type 3), each
member's metadata (5), the target assignment epoch (6), each member's target assignment (7), each
member's current assignment (8), and the topics that a regular expression matches (16). Type 4 held
the topics' partitions until Kafka 4.1; its value is ignored, and it is deleted with the group.
Partitions are written in order, so that equal states are encoded as equal bytes.

A record with a null value is a tombstone. Tagged fields of a newer Kafka are skipped.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.codec import decode, encode_bytes
from ...clients.protocol.schema import Message
from ..group_actions import GroupProtocol
from ..group_records import HIGHEST_EPOCH, GroupRecord
from ..record_names import check_names
from .consumer_schemas import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from .reconciliation import CurrentAssignment, MemberState
from .topic_partitions import Partition, PartitionEpochs, Partitions

_PREFIX = struct.Struct(">h")
_VALUE_VERSION = 0
_STATES: Mapping[int, MemberState] = {int(state): state for state in MemberState}


class GroupEpochValue(NamedTuple):
    """A group's epoch, and the metadata hash of its topics at that epoch."""

    epoch: int
    metadata_hash: int = 0


class GroupMetadataEntry(NamedTuple):
    """A group of the consumer protocol, or its tombstone."""

    group_id: str
    value: GroupEpochValue | None


class PartitionMetadataEntry(NamedTuple):
    """The topic metadata that Kafka stored before 4.1. Only its existence matters."""

    group_id: str
    is_deleted: bool


class ClassicMemberValue(NamedTuple):
    """The part of a member's metadata that only classic members have, from their JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]


class MemberValue(NamedTuple):
    """A member's metadata. The topic names are sorted; only classic members have `classic`.

    If there is no regular expression, Kafka writes an empty one.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberValue | None = None


class MemberEntry(NamedTuple):
    """A member's metadata, or its tombstone."""

    group_id: str
    member_id: str
    value: MemberValue | None


class TargetEpochValue(NamedTuple):
    """The group epoch for which the target assignment was computed, and the time."""

    epoch: int
    timestamp_ms: int = 0


class TargetMetadataEntry(NamedTuple):
    """The target assignment's epoch, or its tombstone."""

    group_id: str
    value: TargetEpochValue | None


class TargetMemberEntry(NamedTuple):
    """A member's target assignment, or its tombstone."""

    group_id: str
    member_id: str
    value: Partitions | None


class CurrentAssignmentEntry(NamedTuple):
    """A member's current assignment, or its tombstone."""

    group_id: str
    member_id: str
    value: CurrentAssignment | None


class RegexValue(NamedTuple):
    """The topics, sorted, that a regular expression matched at a version of the metadata."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class RegexEntry(NamedTuple):
    """A regular expression, or its tombstone if no member subscribes to it any more."""

    group_id: str
    regex: str
    value: RegexValue | None


ConsumerGroupEntry: TypeAlias = (
    GroupMetadataEntry
    | PartitionMetadataEntry
    | MemberEntry
    | TargetMetadataEntry
    | TargetMemberEntry
    | CurrentAssignmentEntry
    | RegexEntry
)
"""The content of a record, used for both writing and reading."""


def consumer_record(entry: ConsumerGroupEntry) -> GroupRecord:
    """Encode an entry as a record."""
    key = _key_of(entry)
    value = _value_of(entry)
    return GroupRecord(
        _PREFIX.pack(key.api_key) + encode_bytes(key, 0),
        None if value is None else _PREFIX.pack(_VALUE_VERSION) + encode_bytes(value, 0),
    )


def read_consumer_record(kind: int, key: bytes, value: bytes | None) -> ConsumerGroupEntry | None:
    """Decode a record of type `kind`; None if the type is not one of these.

    Raises KafkaError(CORRUPT_MESSAGE) if the value's version is not 0, and ProtocolError if the key
    or value does not follow its schema.
    """
    reader = _READERS.get(kind)
    if reader is None:
        return None
    entry = reader(key, value)
    check_names(entry.group_id)
    match entry:
        case MemberEntry() | TargetMemberEntry() | CurrentAssignmentEntry():
            check_names(entry.member_id)
        case RegexEntry():
            check_names(entry.regex, *(() if entry.value is None else entry.value.topics))
        case _:
            pass
    return entry


def _key_of(entry: ConsumerGroupEntry) -> Message:
    match entry:
        case GroupMetadataEntry(group_id):
            return ConsumerGroupMetadataKey(group_id=group_id)
        case PartitionMetadataEntry(group_id):
            return ConsumerGroupPartitionMetadataKey(group_id=group_id)
        case MemberEntry(group_id, member_id):
            return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
        case TargetMetadataEntry(group_id):
            return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
        case TargetMemberEntry(group_id, member_id):
            return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
        case CurrentAssignmentEntry(group_id, member_id):
            return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
        case RegexEntry(group_id, regex):
            return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


def _value_of(entry: ConsumerGroupEntry) -> Message | None:
    if isinstance(entry, PartitionMetadataEntry):
        assert entry.is_deleted, "Kafka writes no such records any more"
        return None
    match entry.value:
        case None:
            return None
        case GroupEpochValue(epoch, metadata_hash):
            return ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        case MemberValue() as member:
            return _member_message(member)
        case TargetEpochValue(epoch, timestamp_ms):
            return ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            )
        case CurrentAssignment() as current:
            return ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=current.epoch,
                previous_member_epoch=current.previous_epoch,
                state=current.state,
                assigned_partitions=_with_epochs(current.assigned),
                partitions_pending_revocation=_with_epochs(current.revoking),
            )
        case RegexValue(topics, version, timestamp_ms):
            return ConsumerGroupRegularExpressionValue(
                topics=list(topics), version=version, timestamp=timestamp_ms
            )
        case partitions:
            return ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    TopicPartition(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in by_topic(partitions).items()
                ]
            )


def by_topic(partitions: Iterable[Partition]) -> dict[Uuid, list[int]]:
    """The partitions of each topic; topics and partitions are sorted."""
    topics: dict[Uuid, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def _with_epochs(partition_epochs: PartitionEpochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=numbers,
            assignment_epochs=[partition_epochs[topic_id, number] for number in numbers],
        )
        for topic_id, numbers in by_topic(partition_epochs).items()
    ]


def _member_message(member: MemberValue) -> ConsumerGroupMemberMetadataValue:
    classic = member.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in classic.protocols
            ],
        ),
    )


def _body(value: bytes) -> memoryview:
    """The value without its version."""
    version: int = _PREFIX.unpack_from(value)[0] if len(value) >= _PREFIX.size else -1
    if version != _VALUE_VERSION:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"A consumer group record's value has the unknown version {version}.",
        )
    return memoryview(value)[_PREFIX.size :]


def _read_group(key: bytes, value: bytes | None) -> GroupMetadataEntry:
    named, _ = decode(ConsumerGroupMetadataKey, 0, key, _PREFIX.size)
    if value is None:
        return GroupMetadataEntry(named.group_id, None)
    parsed, _ = decode(ConsumerGroupMetadataValue, 0, _body(value))
    if not 0 <= parsed.epoch <= HIGHEST_EPOCH:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A consumer group record has the epoch {parsed.epoch}."
        )
    return GroupMetadataEntry(named.group_id, GroupEpochValue(parsed.epoch, parsed.metadata_hash))


def _read_partition_metadata(key: bytes, value: bytes | None) -> PartitionMetadataEntry:
    named, _ = decode(ConsumerGroupPartitionMetadataKey, 0, key, _PREFIX.size)
    return PartitionMetadataEntry(named.group_id, value is None)


def _read_member(key: bytes, value: bytes | None) -> MemberEntry:
    named, _ = decode(ConsumerGroupMemberMetadataKey, 0, key, _PREFIX.size)
    if value is None:
        return MemberEntry(named.group_id, named.member_id, None)
    parsed, _ = decode(ConsumerGroupMemberMetadataValue, 0, _body(value))
    classic = parsed.classic_member_metadata
    check_names(
        parsed.instance_id,
        parsed.rack_id,
        parsed.client_id,
        parsed.client_host,
        *parsed.subscribed_topic_names,
        # Regular expressions are also used in record keys, and protocol names in classic groups.
        parsed.subscribed_topic_regex,
        parsed.server_assignor,
        *(() if classic is None else (protocol.name for protocol in classic.supported_protocols)),
    )
    member = MemberValue(
        parsed.instance_id,
        parsed.rack_id,
        parsed.client_id,
        parsed.client_host,
        tuple(parsed.subscribed_topic_names),
        parsed.subscribed_topic_regex,
        parsed.rebalance_timeout_ms,
        parsed.server_assignor,
        None
        if classic is None
        else ClassicMemberValue(
            classic.session_timeout_ms,
            tuple(
                GroupProtocol(protocol.name, bytes(protocol.metadata))
                for protocol in classic.supported_protocols
            ),
        ),
    )
    return MemberEntry(named.group_id, named.member_id, member)


def _read_target_epoch(key: bytes, value: bytes | None) -> TargetMetadataEntry:
    named, _ = decode(ConsumerGroupTargetAssignmentMetadataKey, 0, key, _PREFIX.size)
    if value is None:
        return TargetMetadataEntry(named.group_id, None)
    parsed, _ = decode(ConsumerGroupTargetAssignmentMetadataValue, 0, _body(value))
    epoch = TargetEpochValue(parsed.assignment_epoch, parsed.assignment_timestamp)
    return TargetMetadataEntry(named.group_id, epoch)


def _read_target(key: bytes, value: bytes | None) -> TargetMemberEntry:
    named, _ = decode(ConsumerGroupTargetAssignmentMemberKey, 0, key, _PREFIX.size)
    if value is None:
        return TargetMemberEntry(named.group_id, named.member_id, None)
    parsed, _ = decode(ConsumerGroupTargetAssignmentMemberValue, 0, _body(value))
    target = frozenset(
        (topic.topic_id, partition)
        for topic in parsed.topic_partitions
        for partition in topic.partitions
    )
    return TargetMemberEntry(named.group_id, named.member_id, target)


def _read_current(key: bytes, value: bytes | None) -> CurrentAssignmentEntry:
    named, _ = decode(ConsumerGroupCurrentMemberAssignmentKey, 0, key, _PREFIX.size)
    if value is None:
        return CurrentAssignmentEntry(named.group_id, named.member_id, None)
    parsed, _ = decode(ConsumerGroupCurrentMemberAssignmentValue, 0, _body(value))
    current = CurrentAssignment(
        parsed.member_epoch,
        parsed.previous_member_epoch,
        _STATES.get(parsed.state, MemberState.UNKNOWN),
        _epochs_of(parsed.assigned_partitions, parsed.member_epoch),
        _epochs_of(parsed.partitions_pending_revocation, parsed.member_epoch),
    )
    return CurrentAssignmentEntry(named.group_id, named.member_id, current)


def _epochs_of(topics: Iterable[TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Each partition's assignment epoch.

    The member epoch replaces a list that is missing (before 4.3) or has the wrong length.
    """
    partition_epochs: dict[Partition, int] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        for partition, epoch in zip(topic.partitions, epochs, strict=True):
            partition_epochs[topic.topic_id, partition] = epoch
    return partition_epochs


def _read_regex(key: bytes, value: bytes | None) -> RegexEntry:
    named, _ = decode(ConsumerGroupRegularExpressionKey, 0, key, _PREFIX.size)
    if value is None:
        return RegexEntry(named.group_id, named.regular_expression, None)
    parsed, _ = decode(ConsumerGroupRegularExpressionValue, 0, _body(value))
    resolved = RegexValue(tuple(parsed.topics), parsed.version, parsed.timestamp)
    return RegexEntry(named.group_id, named.regular_expression, resolved)


_READERS: Mapping[int, Callable[[bytes, bytes | None], ConsumerGroupEntry]] = {
    3: _read_group,
    4: _read_partition_metadata,
    5: _read_member,
    6: _read_target_epoch,
    7: _read_target,
    8: _read_current,
    16: _read_regex,
}
