"""The records of the metadata log, which make up the cluster's state (KIP-500, KIP-631).

Replaying them in order builds the state (see `cluster_image.py`). They equal Kafka's byte for byte,
so `kafka-dump-log --cluster-metadata-decoder` reads our log.

A record's value is a frame version (1), the record's type and its version, each an unsigned
varint, and then the message. Which version a record is written in depends on the cluster's
metadata.version; `WRITTEN_VERSIONS` are those of metadata.version 30, which Apache Kafka 4.3
finalises for a new cluster. Older ones can be read.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ...clients.errors import ErrorCode, KafkaError, ProtocolError
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.codec import decode, encode_bytes
from ...clients.protocol.schema import (
    Message,
    Struct,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint16,
)
from ...clients.record.builder import RecordBatchBuilder
from ...clients.record.varint import encode_unsigned_varint, read_unsigned_varint

_FRAME_VERSION = 1

NO_LEADER = -1
"""The partition has no leader."""

NO_LEADER_CHANGE = -2
"""In a PartitionChangeRecord: the leader and its epoch do not change."""


class BrokerEndpoint(Struct):
    """One listener of a broker, with the address that clients connect to."""

    name: str = field("0+")
    host: str = field("0+")
    port: uint16 = field("0+")
    security_protocol: int16 = field("0+")


class BrokerFeature(Struct):
    """The levels of one feature that a broker can run at."""

    name: str = field("0+")
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


class RegisterBrokerRecord(Message, key=0, versions="0-4", flexible="0+"):
    """A broker has registered. Its epoch is the offset of this record."""

    broker_id: int32 = field("0+")
    is_migrating_zk_broker: bool = field("2+")
    incarnation_id: Uuid = field("0+")
    broker_epoch: int64 = field("0+")
    end_points: list[BrokerEndpoint] = field("0+")
    features: list[BrokerFeature] = field("0+")
    rack: str | None = field("0+", nullable="0+")
    fenced: bool = field("0+", default=True)
    in_controlled_shutdown: bool = field("1+")
    log_dirs: list[Uuid] = field("3+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("4+", tag=1, nullable="4+", default=None)


class UnregisterBrokerRecord(Message, key=1, versions="0", flexible="0+"):
    """A broker is permanently removed."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+")


class TopicRecord(Message, key=2, versions="0", flexible="0+"):
    """A topic exists; its partitions follow."""

    name: str = field("0+")
    topic_id: Uuid = field("0+")


class PartitionRecord(Message, key=3, versions="0-2", flexible="0+"):
    """A partition exists, with this state."""

    partition_id: int32 = field("0+", default=-1)
    topic_id: Uuid = field("0+")
    replicas: list[int32] = field("0+")
    isr: list[int32] = field("0+")
    removing_replicas: list[int32] = field("0+")
    adding_replicas: list[int32] = field("0+")
    leader: int32 = field("0+", default=-1)
    leader_recovery_state: int8 = field("0+", tag=0)
    leader_epoch: int32 = field("0+", default=-1)
    partition_epoch: int32 = field("0+", default=-1)
    directories: list[Uuid] = field("1+")
    eligible_leader_replicas: list[int32] | None = field("2+", tag=1, nullable="2+", default=None)
    last_known_elr: list[int32] | None = field("2+", tag=2, nullable="2+", default=None)


class ConfigRecord(Message, key=4, versions="0", flexible="0+"):
    """A resource's property has this value; null resets it to its default."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    name: str = field("0+")
    value: str | None = field("0+", nullable="0+")


class PartitionChangeRecord(Message, key=5, versions="0-2", flexible="0+"):
    """A change to a partition; null fields change nothing.

    Each record raises the partition epoch by one; one that names a leader also raises the leader
    epoch.
    """

    partition_id: int32 = field("0+", default=-1)
    topic_id: Uuid = field("0+")
    isr: list[int32] | None = field("0+", tag=0, nullable="0+", default=None)
    leader: int32 = field("0+", tag=1, default=NO_LEADER_CHANGE)
    replicas: list[int32] | None = field("0+", tag=2, nullable="0+", default=None)
    removing_replicas: list[int32] | None = field("0+", tag=3, nullable="0+", default=None)
    adding_replicas: list[int32] | None = field("0+", tag=4, nullable="0+", default=None)
    leader_recovery_state: int8 = field("0+", tag=5, default=-1)
    directories: list[Uuid] | None = field("1+", tag=8, nullable="1+", default=None)
    eligible_leader_replicas: list[int32] | None = field("2+", tag=6, nullable="2+", default=None)
    last_known_elr: list[int32] | None = field("2+", tag=7, nullable="2+", default=None)


class FenceBrokerRecord(Message, key=7, versions="0", flexible="0+"):
    """A broker may not lead partitions (written by old controllers)."""

    id: int32 = field("0+")
    epoch: int64 = field("0+")


class UnfenceBrokerRecord(Message, key=8, versions="0", flexible="0+"):
    """A broker may lead again (written by old controllers)."""

    id: int32 = field("0+")
    epoch: int64 = field("0+")


class RemoveTopicRecord(Message, key=9, versions="0", flexible="0+"):
    """A topic is deleted, with its partitions and its configuration."""

    topic_id: Uuid = field("0+")


class UserScramCredentialRecord(Message, key=11, versions="0", flexible="0+"):
    """A user has this SCRAM credential for a mechanism (KIP-900). Its keys are secret."""

    name: str = field("0+")
    mechanism: int8 = field("0+")
    salt: bytes = field("0+")
    stored_key: bytes = field("0+")
    server_key: bytes = field("0+")
    iterations: int32 = field("0+")

    def __repr__(self) -> str:
        return (
            f"UserScramCredentialRecord(name={self.name!r}, mechanism={self.mechanism}, ********)"
        )


class FeatureLevelRecord(Message, key=12, versions="0", flexible="0+"):
    """The cluster runs a feature at this level; zero is off."""

    name: str = field("0+")
    feature_level: int16 = field("0+")


class QuotaEntityData(Struct):
    """One part of a quota's entity; a null name is the default entity of the type."""

    entity_type: str = field("0+")
    entity_name: str | None = field("0+", nullable="0+")


# The name in Kafka; here, a request has another struct of that name.
QuotaEntityData.__name__ = "EntityData"


class ClientQuotaRecord(Message, key=14, versions="0", flexible="0+"):
    """A quota of an entity has this value, or is removed."""

    entity: list[QuotaEntityData] = field("0+")
    key: str = field("0+")
    value: float64 = field("0+")
    remove: bool = field("0+")


class ProducerIdsRecord(Message, key=15, versions="0", flexible="0+"):
    """A block of producer ids is allocated to a broker; `next_producer_id` is the id after it."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    next_producer_id: int64 = field("0+")


class BrokerRegistrationChangeRecord(Message, key=17, versions="0-3", flexible="0+"):
    """A change to a registration: 1 sets a state, -1 clears it, 0 leaves it."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+")
    fenced: int8 = field("0+", tag=0)
    in_controlled_shutdown: int8 = field("1+", tag=1)
    log_dirs: list[Uuid] = field("2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = field("3+", tag=3, nullable="3+", default=None)


class AccessControlEntryRecord(Message, key=18, versions="0", flexible="0+"):
    """An entry of access control exists (KIP-801)."""

    id: Uuid = field("0+")
    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    pattern_type: int8 = field("0+")
    principal: str = field("0+")
    host: str = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class RemoveAccessControlEntryRecord(Message, key=19, versions="0", flexible="0+"):
    """An entry of access control is removed."""

    id: Uuid = field("0+")


class NoOpRecord(Message, key=20, versions="0", flexible="0+"):
    """Advances the end of the log and changes nothing."""


class RemoveUserScramCredentialRecord(Message, key=22, versions="0", flexible="0+"):
    """A user's SCRAM credential for a mechanism is removed."""

    name: str = field("0+")
    mechanism: int8 = field("0+")


class BeginTransactionRecord(Message, key=23, versions="0", flexible="0+"):
    """The records that follow take effect only when the transaction ends (KIP-868)."""

    name: str | None = field("0+", tag=0, nullable="0+", default=None)


class EndTransactionRecord(Message, key=24, versions="0", flexible="0+"):
    """The open transaction takes effect."""


class AbortTransactionRecord(Message, key=25, versions="0", flexible="0+"):
    """The open transaction is discarded."""

    reason: str | None = field("0+", tag=0, nullable="0+", default=None)


class ControllerEndpoint(Struct):
    """One listener of a controller."""

    name: str = field("0+")
    host: str = field("0+")
    port: uint16 = field("0+")
    security_protocol: int16 = field("0+")


class ControllerFeature(Struct):
    """The levels of one feature that a controller can run at."""

    name: str = field("0+")
    min_supported_version: int16 = field("0+")
    max_supported_version: int16 = field("0+")


class RegisterControllerRecord(Message, key=27, versions="0", flexible="0+"):
    """A controller has registered."""

    controller_id: int32 = field("0+")
    incarnation_id: Uuid = field("0+")
    zk_migration_ready: bool = field("0+")
    end_points: list[ControllerEndpoint] = field("0+")
    features: list[ControllerFeature] = field("0+")


class ClearElrRecord(Message, key=28, versions="0", flexible="0+"):
    """Clears the eligible leader replicas of one topic, or of all (KIP-966)."""

    topic_name: str = field("0+")


_CLASSES: tuple[type[Message], ...] = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    RemoveTopicRecord,
    UserScramCredentialRecord,
    FeatureLevelRecord,
    ClientQuotaRecord,
    ProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    NoOpRecord,
    RemoveUserScramCredentialRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
    RegisterControllerRecord,
    ClearElrRecord,
)

RECORD_CLASSES: Mapping[int, type[Message]] = MappingProxyType(
    {record_class.api_key: record_class for record_class in _CLASSES}
)
"""Every supported record type, by its number."""

METADATA_VERSION_FEATURE = "metadata.version"
METADATA_VERSION = 30
"""The level that sets the version of written records; that of a new Kafka 4.3 cluster."""

GROUP_VERSION_FEATURE = "group.version"
GROUP_VERSION = 1
"""From this level on the consumer group protocol is available (KIP-848)."""

TRANSACTION_VERSION_FEATURE = "transaction.version"
TRANSACTION_VERSION = 2
"""At 1 the transaction log has tagged fields; at 2 each transaction has its own epoch (KIP-890)."""

ELR_FEATURE = "eligible.leader.replicas.version"
"""From level 1 on, partitions have eligible leader replicas (KIP-966)."""

MIN_ISR_CONFIG = "min.insync.replicas"
"""The property that says how many replicas must be in sync; in a cluster with ELR, the same value
on all brokers."""


SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        METADATA_VERSION_FEATURE: (7, METADATA_VERSION),
        ELR_FEATURE: (0, 1),
        GROUP_VERSION_FEATURE: (0, GROUP_VERSION),
        TRANSACTION_VERSION_FEATURE: (0, TRANSACTION_VERSION),
    }
)
"""The supported levels of each feature, in Kafka's order. A new cluster gets the highest."""

WRITTEN_VERSIONS: Mapping[int, int] = MappingProxyType(
    {
        record_class.api_key: int(record_class.versions.rpartition("-")[2])
        for record_class in _CLASSES
    }
)
"""The version that each record type is written in at `METADATA_VERSION`."""


def encode_record(record: Message) -> bytes:
    """The value of a log record: frame, type, version, message."""
    version = WRITTEN_VERSIONS[record.api_key]
    head = (_FRAME_VERSION, record.api_key, version)
    return b"".join(map(encode_unsigned_varint, head)) + encode_bytes(record, version)


def change_batch(records: Sequence[Message], now_ms: int) -> bytearray:
    """One change of state as a batch; its offset and epoch are stamped when it is appended."""
    builder = RecordBatchBuilder()
    for record in records:
        builder.append(now_ms, None, encode_record(record))
    return builder.build()


def decode_record(value: bytes) -> Message:
    """Read a log record's value.

    Raises KafkaError(INVALID_RECORD) for an unknown frame or type: unreadable state must not be
    skipped.
    """
    try:
        frame, position = read_unsigned_varint(value, 0)
        key, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError:
        raise _unreadable("it is truncated") from None
    if frame != _FRAME_VERSION:
        raise _unreadable(f"its frame version is {frame}, not {_FRAME_VERSION}")
    record_class = RECORD_CLASSES.get(key)
    if record_class is None:
        raise _unreadable(f"its type {key} is unknown")
    if version > WRITTEN_VERSIONS[key]:
        raise _unreadable(f"version {version} of {record_class.__name__} is unknown")
    try:
        record, position = decode(record_class, version, memoryview(value), position)
    except ProtocolError as error:
        raise _unreadable(f"its {record_class.__name__} is malformed ({error.message})") from error
    if position != len(value):
        raise _unreadable(f"{len(value) - position} bytes follow the {record_class.__name__}")
    return record


def _unreadable(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"A metadata record cannot be read: {why}.")
