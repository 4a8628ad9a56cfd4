"""The records of `__transaction_state`, in Kafka's format byte for byte.

A key is its version (0) and the transactional id; a value is its version, 0 or 1, and the fields of
`TransactionLogValue.json`. Version 1 is written from transaction.version 1 on; only it has the
previous and next producer ids and the client's transaction version (KIP-890). A null value is a
tombstone. Keys of an unknown version come from a newer Kafka and are skipped.
"""

import struct
from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.codec import decode, encode_bytes
from ...clients.protocol.schema import Message, Struct, field, int8, int16, int32, int64
from ...clients.topic_partition import TopicPartition
from ..record_names import check_names
from .transaction_metadata import NO_PRODUCER_ID, Transaction
from .transaction_state import TransactionState

_KEY_VERSION = 0
_NEWEST_VALUE_VERSION = 1
_PREFIX = struct.Struct(">h")

# The index is the state's number in the log. For Dead (6), a tombstone is written instead.
_STATES = tuple(state for state in TransactionState if state is not TransactionState.DEAD)


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = field("0")


class PartitionsSchema(Struct):
    topic: str = field("0+")
    partition_ids: list[int32] = field("0+")


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: int64 = field("0+")
    previous_producer_id: int64 = field("1+", tag=0, default=-1)
    next_producer_id: int64 = field("1+", tag=1, default=-1)
    producer_epoch: int16 = field("0+")
    next_producer_epoch: int16 = field("1+", tag=3, default=-1)
    transaction_timeout_ms: int32 = field("0+")
    transaction_status: int8 = field("0+")
    transaction_partitions: list[PartitionsSchema] | None = field("0+", nullable="0+")
    transaction_last_update_timestamp_ms: int64 = field("0+")
    transaction_start_timestamp_ms: int64 = field("0+")
    client_transaction_version: int16 = field("1+", tag=2)


class TransactionRecord(NamedTuple):
    """One record to append."""

    key: bytes
    value: bytes | None


class TransactionEntry(NamedTuple):
    """A decoded record; `transaction` is None for a tombstone."""

    transactional_id: str
    transaction: Transaction | None


def transaction_record(transaction: Transaction, transaction_version: int) -> TransactionRecord:
    """The record of a transactional id, in the value version for `transaction_version`."""
    version = 1 if transaction_version >= 1 else 0
    is_empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=_STATES.index(transaction.state),
        transaction_partitions=None if is_empty else _topics(transaction),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if version:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return TransactionRecord(
        _key(transaction.transactional_id), _PREFIX.pack(version) + encode_bytes(value, version)
    )


def transaction_tombstone(transactional_id: str) -> TransactionRecord:
    """The record that deletes a transactional id."""
    return TransactionRecord(_key(transactional_id), None)


def read_transaction(key: bytes, value: bytes | None) -> TransactionEntry | None:
    """Decode a record; None for a key of a newer Kafka.

    Raises KafkaError(CORRUPT_MESSAGE) if it does not follow its schema.
    """
    transactional_id = read_transactional_id(key)
    if transactional_id is None:
        return None
    return TransactionEntry(
        transactional_id, None if value is None else _transaction(transactional_id, value)
    )


def read_transactional_id(key: bytes) -> str | None:
    """The transactional id of a key, or None for a key of a newer Kafka. Raises KafkaError."""
    if _version(key) != _KEY_VERSION:
        return None
    parsed, _ = decode(TransactionLogKey, _KEY_VERSION, memoryview(key), _PREFIX.size)
    check_names(parsed.transactional_id)
    return parsed.transactional_id


def _key(transactional_id: str) -> bytes:
    key = TransactionLogKey(transactional_id=transactional_id)
    return _PREFIX.pack(_KEY_VERSION) + encode_bytes(key, _KEY_VERSION)


def _topics(transaction: Transaction) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def _transaction(transactional_id: str, value: bytes) -> Transaction:
    version = _version(value)
    if not 0 <= version <= _NEWEST_VALUE_VERSION:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"A transaction record's value has the unknown version {version}.",
        )
    parsed, _ = decode(TransactionLogValue, version, memoryview(value), _PREFIX.size)
    status = parsed.transaction_status
    if not 0 <= status < len(_STATES):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A transaction record has the unknown state {status}."
        )
    if (
        parsed.producer_id < 0
        or min(parsed.previous_producer_id, parsed.next_producer_id) < NO_PRODUCER_ID
        or parsed.producer_epoch < 0
    ):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"A transaction record has the producer id {parsed.producer_id} with the epoch "
            f"{parsed.producer_epoch}, the previous id {parsed.previous_producer_id} and the next "
            f"id {parsed.next_producer_id}.",
        )
    check_names(*(topic.topic for topic in parsed.transaction_partitions or ()))
    partitions = frozenset(
        TopicPartition(topic.topic, partition)
        for topic in parsed.transaction_partitions or ()
        for partition in topic.partition_ids
    )
    return Transaction(
        transactional_id,
        parsed.producer_id,
        parsed.producer_epoch,
        parsed.transaction_timeout_ms,
        _STATES[status],
        partitions,
        parsed.transaction_last_update_timestamp_ms,
        parsed.transaction_start_timestamp_ms,
        parsed.previous_producer_id,
        parsed.next_producer_id,
        client_version=parsed.client_transaction_version,
    )


def _version(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A transaction record has no version.")
    version: int = _PREFIX.unpack_from(data)[0]
    return version
