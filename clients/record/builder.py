"""Builds record batches (`MemoryRecordsBuilder` in Kafka): for producers, for the broker's
internal topics, and for the cleaner, which keeps some records of a batch.

Records are encoded right after the space reserved for the header, so that an uncompressed batch is
finished in place. The first record's timestamp becomes the base timestamp, as in Kafka's builder,
unless the batch has a delete horizon, which is stored in that field instead (KIP-534).
"""

from collections.abc import Iterable, Sequence
from typing import TypedDict, Unpack

from ..errors import ErrorCode, KafkaError
from .batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Record,
    RecordBatch,
    TimestampType,
    stamp_codec,
    stamp_crc,
)
from .compression import CompressionType, compress
from .control import EndTransactionMarker
from .layout import BATCH_OVERHEAD, HEADER, LOG_OVERHEAD
from .varint import encode_varint

Headers = Sequence[tuple[str, bytes | None]]

MAX_RECORD_OVERHEAD = 21
"""The largest total size of a record's length, attributes, timestamp delta and offset delta."""

_NULL = encode_varint(-1)
_NO_HEADERS = encode_varint(0)
_ATTRIBUTES = b"\x00"


class BatchFields(TypedDict, total=False):
    """The header fields that the builder's caller sets; omitted ones get Kafka's "none" value."""

    base_offset: int
    leader_epoch: int
    compression: CompressionType
    timestamp_type: TimestampType
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None


class RecordBatchBuilder:
    """Collects records into one batch; `build` finishes it."""

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_buffer",
        "_fields",
        "_last_offset",
        "max_timestamp",
        "record_count",
    )

    def __init__(self, **fields: Unpack[BatchFields]) -> None:
        self._fields = fields
        self._buffer = bytearray(BATCH_OVERHEAD)
        self._base_offset: int = fields.get("base_offset", 0)
        self._base_timestamp: int | None = fields.get("delete_horizon_ms")
        self._last_offset: int = self._base_offset - 1
        self.max_timestamp = NO_TIMESTAMP
        self.record_count = 0

    @property
    def size_in_bytes(self) -> int:
        """The size so far, before compression."""
        return len(self._buffer)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        offset: int | None = None,
    ) -> None:
        """Add a record at the next offset, or at a later `offset` (after compaction)."""
        if offset is None:
            offset = self._last_offset + 1
        assert offset > self._last_offset, "offsets in a batch only grow"
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        parts = [
            _ATTRIBUTES,
            encode_varint(timestamp - self._base_timestamp),
            encode_varint(offset - self._base_offset),
        ]
        _add_bytes(parts, key)
        _add_bytes(parts, value)
        if headers:
            _add_headers(parts, headers)
        else:
            parts.append(_NO_HEADERS)
        record = b"".join(parts)
        self._buffer += encode_varint(len(record))
        self._buffer += record
        self._last_offset = offset
        self.record_count += 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def build(
        self, *, last_offset: int | None = None, max_timestamp: int | None = None
    ) -> bytearray:
        """The finished batch; the builder must not be used again.

        `last_offset` preserves the offset range of a batch whose last records were compacted away;
        `max_timestamp` preserves its largest timestamp, or sets the leader's append time.
        """
        compression = self._fields.get("compression", CompressionType.NONE)
        if not self.record_count:
            compression = CompressionType.NONE
        batch = self._buffer
        if compression is not CompressionType.NONE:
            with memoryview(batch) as whole:
                compressed = compress(compression, whole[BATCH_OVERHEAD:])
            batch = bytearray(BATCH_OVERHEAD)
            batch += compressed
        last_offset = self._last_offset if last_offset is None else last_offset
        fields = self._fields
        HEADER.pack_into(
            batch,
            0,
            self._base_offset,
            len(batch) - LOG_OVERHEAD,
            fields.get("leader_epoch", NO_PARTITION_LEADER_EPOCH),
            2,
            0,
            self._attributes(compression),
            last_offset - self._base_offset,
            NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            self.max_timestamp if max_timestamp is None else max_timestamp,
            fields.get("producer_id", NO_PRODUCER_ID),
            fields.get("producer_epoch", NO_PRODUCER_EPOCH),
            fields.get("base_sequence", NO_SEQUENCE),
            self.record_count,
        )
        with memoryview(batch) as view:
            stamp_crc(view, 0, len(batch))
        return batch

    def _attributes(self, compression: CompressionType) -> int:
        fields = self._fields
        attributes = int(compression)
        if fields.get("timestamp_type") is TimestampType.LOG_APPEND_TIME:
            attributes |= TIMESTAMP_TYPE_BIT
        if fields.get("is_transactional"):
            attributes |= TRANSACTIONAL_BIT
        if fields.get("is_control"):
            attributes |= CONTROL_BIT
        if fields.get("delete_horizon_ms") is not None:
            attributes |= DELETE_HORIZON_BIT
        return attributes


def build_batch(records: Iterable[Record], **fields: Unpack[BatchFields]) -> bytearray:
    """A batch of these records, numbered from `base_offset` on; their own offsets are ignored."""
    builder = RecordBatchBuilder(**fields)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()


def build_control_batch(
    marker: EndTransactionMarker, timestamp: int, **fields: Unpack[BatchFields]
) -> bytearray:
    """The batch that ends a producer's transaction; `fields` has the producer's id and epoch."""
    fields["is_transactional"] = True
    fields["is_control"] = True
    builder = RecordBatchBuilder(**fields)
    builder.append(timestamp, marker.control_type.key(), marker.value())
    return builder.build()


def rebuild_batch(
    batch: RecordBatch, records: Iterable[Record], **changes: Unpack[BatchFields]
) -> bytearray:
    """Rebuild a batch with only these of its records, which keep their offsets.

    Offset range, producer, sequence and codec stay the same unless `changes` override them, so
    that a compacted batch, even an empty one, still holds its producer's state. The largest
    timestamp is that of the records kept, or the old one if none is kept. Raises
    KafkaError(INVALID_RECORD) if the offsets do not increase.
    """
    fields: BatchFields = {
        "base_offset": batch.base_offset,
        "leader_epoch": batch.partition_leader_epoch,
        "compression": batch.compression_type,
        "timestamp_type": batch.timestamp_type,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
    }
    fields.update(changes)
    builder = RecordBatchBuilder(**fields)
    last_offset = batch.base_offset - 1
    for record in records:
        if record.offset <= last_offset:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"Illegal offset {record.offset} following previous offset {last_offset} "
                "(Offsets must increase monotonically).",
            )
        last_offset = record.offset
        builder.append(record.timestamp, record.key, record.value, record.headers, last_offset)
    max_timestamp = None if builder.record_count else batch.max_timestamp
    return builder.build(last_offset=batch.last_offset, max_timestamp=max_timestamp)


def recompress_batch(
    batch: RecordBatch, plain: bytes | bytearray | memoryview, compression: CompressionType
) -> bytearray:
    """Rebuild a batch with another codec; `plain` holds its decompressed records, unchanged."""
    built = bytearray(batch.view[:BATCH_OVERHEAD])
    built += compress(compression, plain)
    with memoryview(built) as view:
        stamp_codec(view, compression)
    return built


def _add_bytes(parts: list[bytes], data: bytes | None) -> None:
    if data is None:
        parts.append(_NULL)
    else:
        parts.append(encode_varint(len(data)))
        parts.append(data)


def _add_headers(parts: list[bytes], headers: Headers) -> None:
    parts.append(encode_varint(len(headers)))
    for key, value in headers:
        _add_bytes(parts, key.encode("utf-8"))
        _add_bytes(parts, value)
