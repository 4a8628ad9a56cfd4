"""Encodes and decodes the records of `__consumer_offsets` of every type."""

import struct
from typing import TypeAlias

from ..group_records import (
    GroupEntry,
    GroupRecord,
    OffsetEntry,
    group_record,
    group_tombstone,
    read_record,
)
from .consumer_records import ConsumerGroupEntry, consumer_record, read_consumer_record

ShardEntry: TypeAlias = ConsumerGroupEntry | GroupEntry
"""A record of a group, classic or of the consumer protocol."""

_KIND = struct.Struct(">h")


def read_entry(
    key: bytes, value: bytes | None, record_offset: int
) -> ShardEntry | OffsetEntry | None:
    """Decode a record; None for a record type of a newer Kafka. Raises KafkaError."""
    entry = read_record(key, value, record_offset)
    if entry is not None:
        return entry
    kind: int = _KIND.unpack_from(key)[0]
    return read_consumer_record(kind, key, value)


def entry_record(entry: ShardEntry) -> GroupRecord:
    """Encode an entry as a record."""
    if not isinstance(entry, GroupEntry):
        return consumer_record(entry)
    if entry.snapshot is None:
        return group_tombstone(entry.group_id)
    return group_record(entry.snapshot)
