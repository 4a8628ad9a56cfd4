"""Control records, which the broker itself writes between the records of its clients.

A control batch holds one record (except in quorum snapshots) whose key is a version and a type,
both int16 (`ControlRecordType` in Kafka). A key of a newer version is accepted as long as its
first four bytes have this form. Records of an unknown type are skipped without an error.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ..errors import ErrorCode, KafkaError

_KEY = Struct(">hh")
_END_TRANSACTION_VALUE = Struct(">hi")


class ControlRecordType(IntEnum):
    """The type of a control record."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def parse(cls, key: bytes | None) -> "ControlRecordType":
        """The type in a control record's key. Raises `KafkaError(INVALID_RECORD)`."""
        if key is None or len(key) < _KEY.size:
            raise KafkaError(ErrorCode.INVALID_RECORD, "A control record's key is too short.")
        version, number = _KEY.unpack_from(key)
        if version < 0:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"Invalid version {version} of a control record."
            )
        return _BY_NUMBER.get(number, cls.UNKNOWN)

    def key(self) -> bytes:
        """The record key of this type, version 0."""
        return _KEY.pack(0, self.value)


_BY_NUMBER = {kind.value: kind for kind in ControlRecordType}


class EndTransactionMarker(NamedTuple):
    """The outcome of one producer's transaction, written to each partition of the transaction."""

    control_type: ControlRecordType
    coordinator_epoch: int

    def value(self) -> bytes:
        """The record value, version 0."""
        return _END_TRANSACTION_VALUE.pack(0, self.coordinator_epoch)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> "EndTransactionMarker":
        """Read a marker. Raises `KafkaError(INVALID_RECORD)` for any other control record."""
        control_type = ControlRecordType.parse(key)
        if control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"{control_type.name} does not end a transaction."
            )
        if value is None or len(value) < _END_TRANSACTION_VALUE.size:
            raise KafkaError(ErrorCode.INVALID_RECORD, "A transaction marker is too short.")
        version, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(value)
        if version < 0:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"Invalid version {version} of a transaction marker."
            )
        return cls(control_type, coordinator_epoch)
