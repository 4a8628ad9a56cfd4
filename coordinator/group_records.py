"""The records of `__consumer_offsets`, in Kafka's format byte for byte.

A key starts with its type and a value with its version, two bytes each, followed by the fields of
the schema (OffsetCommitKey.json and so on). The versions written are those of Apache Kafka 4.3.1:
groups as version 3; offsets as version 4, which has the topic id, or as version 1 if the client
set a retention time (OffsetCommit v2-v4). A null value is a tombstone. Older versions can also be
read, and so can keys of type 0 (offsets from before 0.9).
"""

import struct
from typing import NamedTuple

from ..clients.errors import ErrorCode, KafkaError
from ..clients.kafka_uuid import ZERO_UUID, Uuid
from ..clients.protocol.codec import decode, encode_bytes
from ..clients.protocol.schema import Message, Struct, field, int32, int64
from .group_actions import GroupSnapshot, MemberSnapshot
from .record_names import check_names

LEGACY_OFFSET_COMMIT_TYPE = 0
OFFSET_COMMIT_TYPE = 1
GROUP_METADATA_TYPE = 2

_OFFSET_VALUE_VERSION = 4
_EXPIRING_OFFSET_VALUE_VERSION = 1
_GROUP_VALUE_VERSION = 3
_NEWEST_VALUE_VERSION = 4
HIGHEST_EPOCH = 2**31 - 2**20
"""The highest generation or epoch accepted from the log, with room for later increments."""

_PREFIX = struct.Struct(">h")


class OffsetCommitKey(Message, versions="0-1"):
    group: str = field("0+")
    topic: str = field("0+")
    partition: int32 = field("0+")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int64 = field("0+")
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    metadata: str = field("0+")
    commit_timestamp: int64 = field("0+")
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    topic_id: Uuid = field("4+", tag=0, ignorable=True)


class GroupMetadataKey(Message, versions="0-2"):
    group: str = field("0+")


class MemberMetadata(Struct):
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = field("0+")
    client_host: str = field("0+")
    rebalance_timeout: int32 = field("1+", default=-1, ignorable=True)
    session_timeout: int32 = field("0+")
    subscription: bytes = field("0+")
    assignment: bytes = field("0+")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = field("0+")
    generation: int32 = field("0+")
    protocol: str | None = field("0+", nullable="0+")
    leader: str | None = field("0+", nullable="0+")
    current_state_timestamp: int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field("0+")


class OffsetKey(NamedTuple):
    """The group and partition of a committed offset."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """A committed offset. `record_offset` is its record's offset in `__consumer_offsets`, or -1."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    # When it expires if the client set a retention time; None if the broker's retention applies.
    expire_timestamp_ms: int | None
    topic_id: Uuid
    record_offset: int = -1


class GroupRecord(NamedTuple):
    """One record to append."""

    key: bytes
    value: bytes | None


class OffsetEntry(NamedTuple):
    """A decoded record; `committed` is None for a tombstone."""

    key: OffsetKey
    committed: CommittedOffset | None


class GroupEntry(NamedTuple):
    """A decoded record; `snapshot` is None for a tombstone."""

    group_id: str
    snapshot: GroupSnapshot | None


def offset_record(key: OffsetKey, committed: CommittedOffset) -> GroupRecord:
    """The record of a commit."""
    expires = committed.expire_timestamp_ms
    version = _OFFSET_VALUE_VERSION if expires is None else _EXPIRING_OFFSET_VALUE_VERSION
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=-1 if expires is None else expires,
        topic_id=committed.topic_id,
    )
    return GroupRecord(_offset_key(key), _PREFIX.pack(version) + encode_bytes(value, version))


def offset_tombstone(key: OffsetKey) -> GroupRecord:
    """The record that deletes a committed offset."""
    return GroupRecord(_offset_key(key), None)


def group_record(snapshot: GroupSnapshot) -> GroupRecord:
    """The record of a group."""
    value = GroupMetadataValue(
        protocol_type=snapshot.protocol_type or "",
        generation=snapshot.generation,
        protocol=snapshot.protocol_name,
        leader=snapshot.leader,
        current_state_timestamp=snapshot.state_timestamp_ms,
        members=[_member_metadata(member) for member in snapshot.members],
    )
    version = _GROUP_VALUE_VERSION
    return GroupRecord(
        _group_key(snapshot.group_id), _PREFIX.pack(version) + encode_bytes(value, version)
    )


def group_tombstone(group_id: str) -> GroupRecord:
    """The record that deletes a group."""
    return GroupRecord(_group_key(group_id), None)


def read_record(
    key: bytes, value: bytes | None, record_offset: int
) -> OffsetEntry | GroupEntry | None:
    """Decode a record; None if its key has another type.

    Raises KafkaError(CORRUPT_MESSAGE) if it does not follow its schema.
    """
    if len(key) < _PREFIX.size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A group record's key has no type.")
    kind: int = _PREFIX.unpack_from(key)[0]
    if kind in {LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE}:
        parsed, _ = decode(OffsetCommitKey, 0, memoryview(key), _PREFIX.size)
        check_names(parsed.group, parsed.topic)
        offset_key = OffsetKey(parsed.group, parsed.topic, parsed.partition)
        return OffsetEntry(
            offset_key, None if value is None else _committed_offset(value, record_offset)
        )
    if kind == GROUP_METADATA_TYPE:
        group_key, _ = decode(GroupMetadataKey, 0, memoryview(key), _PREFIX.size)
        group_id = group_key.group
        check_names(group_id)
        return GroupEntry(group_id, None if value is None else _snapshot(group_id, value))
    return None


def _offset_key(key: OffsetKey) -> bytes:
    message = OffsetCommitKey(group=key.group_id, topic=key.topic, partition=key.partition)
    return _PREFIX.pack(OFFSET_COMMIT_TYPE) + encode_bytes(message, 0)


def _group_key(group_id: str) -> bytes:
    return _PREFIX.pack(GROUP_METADATA_TYPE) + encode_bytes(GroupMetadataKey(group=group_id), 0)


def _member_metadata(member: MemberSnapshot) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.subscription,
        assignment=member.assignment,
    )


def _value_version(value: bytes) -> int:
    version: int = _PREFIX.unpack_from(value)[0] if len(value) >= _PREFIX.size else -1
    if not 0 <= version <= _NEWEST_VALUE_VERSION:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A group record's value has the unknown version {version}."
        )
    return version


def _committed_offset(value: bytes, record_offset: int) -> CommittedOffset:
    parsed, _ = decode(OffsetCommitValue, _value_version(value), memoryview(value), _PREFIX.size)
    expires = parsed.expire_timestamp
    return CommittedOffset(
        parsed.offset,
        parsed.leader_epoch,
        parsed.metadata,
        parsed.commit_timestamp,
        None if expires == -1 else expires,
        Uuid(bytes(parsed.topic_id or ZERO_UUID)),
        record_offset,
    )


def _snapshot(group_id: str, value: bytes) -> GroupSnapshot:
    parsed, _ = decode(GroupMetadataValue, _value_version(value), memoryview(value), _PREFIX.size)
    if not 0 <= parsed.generation <= HIGHEST_EPOCH:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A group record has the generation {parsed.generation}."
        )
    instance_ids = [
        member.group_instance_id
        for member in parsed.members
        if member.group_instance_id is not None
    ]
    for ids in ([member.member_id for member in parsed.members], instance_ids):
        if len(set(ids)) < len(ids):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, "A group record has two members with the same id."
            )
    check_names(parsed.protocol_type, parsed.protocol, parsed.leader)
    for each in parsed.members:
        # A conversion writes these names into records of the consumer protocol.
        check_names(each.member_id, each.group_instance_id, each.client_id, each.client_host)
    members = tuple(
        MemberSnapshot(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            # Version 0 has only a session timeout, which is used for both.
            member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout,
            member.session_timeout,
            bytes(member.subscription),
            bytes(member.assignment),
        )
        for member in parsed.members
    )
    return GroupSnapshot(
        group_id,
        parsed.protocol_type or None,
        parsed.generation,
        parsed.protocol,
        parsed.leader,
        parsed.current_state_timestamp,
        members,
    )
