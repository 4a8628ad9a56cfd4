"""One record batch of message format 2, read in place (`DefaultRecordBatch` in Kafka).

    position  field                  bytes
    0         base offset            8   set by the leader, outside the CRC
    8         batch length           4   of everything that follows: 49 bytes and the records
    12        partition leader epoch 4   set by the leader, outside the CRC
    16        magic                  1   2
    17        CRC                    4   CRC32C of everything that follows
    21        attributes             2   0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                                         6 base timestamp is a delete horizon (KIP-534)
    23        last offset delta      4
    27        base timestamp         8   milliseconds
    35        maximum timestamp      8   milliseconds
    43        producer id            8   -1 without idempotence (KIP-98)
    51        producer epoch         2
    53        base sequence          4
    57        record count           4
    61        records, compressed together if the attributes name a codec

The broker keeps a batch as the bytes that arrived: the header is unpacked once, records are decoded
only on request, and only fields before the CRC are overwritten in place. The one exception is the
maximum timestamp, set for LogAppendTime or corrected: the CRC covers it, so the CRC is recomputed.

Invalid sizes, magic or CRC raise CORRUPT_MESSAGE; invalid counts, lengths or codecs raise
INVALID_RECORD. No other exception is raised for any input.
"""

from collections.abc import Generator, Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ..errors import ErrorCode, KafkaError
from ..runtime.steps import finished
from .checksum import crc32c
from .compression import MAX_DECOMPRESSED_BYTES, Buffer, CompressionType, decompress_steps
from .control import ControlRecordType
from .layout import (
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    CRC_POSITION,
    HEADER,
    LENGTH_LEADER_EPOCH_AND_MAGIC,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAX_TIMESTAMP_POSITION,
    OFFSET_LENGTH_AND_LEADER_EPOCH,
)
from .varint import ZIGZAG, read_varint, read_varlong

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1
MAX_INT32 = 0x7FFFFFFF

COMPRESSION_CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")
_SMALLEST_RECORD_OF_ANY_FORMAT = 14
_MAGIC_END = 17


class TimestampType(IntEnum):
    """Who set the records' timestamps: the producer, or the leader when it appended them."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """One record; the timestamp is in milliseconds since the epoch, -1 if there is none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def increment_sequence(sequence: int, increment: int) -> int:
    """The sequence number `increment` records later; 2147483647 wraps to 0."""
    return (sequence + increment) & MAX_INT32


class RecordBatch:
    """A view over one batch. Raises `KafkaError` if the bytes cannot be a batch.

    The view keeps the buffer alive; the fields hold the header as of the creation of the view.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_in_bytes",
        "view",
    )

    attributes: int
    base_offset: int
    base_sequence: int
    base_timestamp: int
    batch_length: int
    crc: int
    last_offset_delta: int
    magic: int
    max_timestamp: int
    partition_leader_epoch: int
    producer_epoch: int
    producer_id: int
    record_count: int

    def __init__(self, view: memoryview, position: int = 0) -> None:
        available = len(view) - position
        if available < BATCH_OVERHEAD:
            raise _corrupt(f"A record batch needs {BATCH_OVERHEAD} bytes, {available} are left.")
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(view, position)
        if self.magic != 2:
            raise _wrong_magic(self.magic)
        size = LOG_OVERHEAD + self.batch_length
        if not BATCH_OVERHEAD <= size <= available:
            raise _corrupt(f"A record batch of {size} bytes does not fit in {available} bytes.")
        self.size_in_bytes = size
        self.view = view if size == len(view) else view[position : position + size]
        self.last_offset = self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    def assign(self, base_offset: int, leader_epoch: int) -> None:
        """Write the base offset and leader epoch in place; the CRC covers neither."""
        OFFSET_LENGTH_AND_LEADER_EPOCH.pack_into(
            self.view, 0, base_offset, self.batch_length, leader_epoch
        )
        self.base_offset = base_offset
        self.last_offset = base_offset + self.last_offset_delta
        self.partition_leader_epoch = leader_epoch

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression_type(self) -> CompressionType:
        """The codec. Raises `KafkaError(INVALID_RECORD)` for an unknown codec number."""
        try:
            return _CODECS[self.attributes & COMPRESSION_CODEC_MASK]
        except IndexError:
            raise _invalid("Unknown compression type id in a record batch.") from None

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & TIMESTAMP_TYPE_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_compressed(self) -> bool:
        return bool(self.attributes & COMPRESSION_CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When a compacted topic may drop this batch's tombstones (KIP-534); None if not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    def crc_is_valid(self) -> bool:
        """Whether the bytes in the view still match the CRC that was read from the header."""
        return crc32c(self.view[ATTRIBUTES_POSITION:]) == self.crc

    def ensure_valid(self) -> None:
        """Raise `KafkaError(CORRUPT_MESSAGE)` unless the CRC matches."""
        if crc32c(self.view[ATTRIBUTES_POSITION:]) != self.crc:
            raise _corrupt(f"The CRC of the record batch at offset {self.base_offset} is wrong.")

    def records(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
        """Decode the records, one at a time; the CRC is not checked.

        `max_bytes` bounds the decompressed size. Raises `KafkaError`, possibly after yielding some
        records: INVALID_RECORD if they violate the format.
        """
        return finished(self.record_steps(max_bytes))

    def record_steps(
        self, max_bytes: int = MAX_DECOMPRESSED_BYTES
    ) -> Generator[None, None, Iterator[Record]]:
        """Like `records`, but pauses during decompression, before the first record."""
        if self.record_count < 0:
            raise _invalid(f"Found invalid record count {self.record_count}.")
        payload = self.view[BATCH_OVERHEAD:]
        if not (self.record_count or payload):
            return iter(())
        return self.decode((yield from decompress_steps(self.compression_type, payload, max_bytes)))

    def control_type(self) -> ControlRecordType:
        """The type of a control batch's first record. Raises `KafkaError(INVALID_RECORD)`."""
        for record in self.records():
            return ControlRecordType.parse(record.key)
        raise _invalid("A control batch holds no record.")

    def decode(self, plain: Buffer, *, with_own_time: bool = False) -> Iterator[Record]:
        """Like `records`, but for data that is already decompressed.

        `with_own_time` keeps each record's own timestamp even under LogAppendTime.
        """
        # The one-byte case of each varint is decoded inline: this loop runs per consumed record.
        # Copy the whole batch once: callers keep slices of the copy as keys and values, and
        # indexing bytes is faster than indexing a memoryview.
        data = bytes(plain)
        base_offset = self.base_offset
        last_offset_delta = self.last_offset_delta
        base_timestamp = self.base_timestamp
        append_time = (
            None
            if with_own_time or self.timestamp_type is TimestampType.CREATE_TIME
            else self.max_timestamp
        )
        at = 0
        try:
            for _ in range(self.record_count):
                size, at = (ZIGZAG[b], at + 1) if (b := data[at]) < 0x80 else read_varint(data, at)
                end = at + size
                if size < 0 or end > len(data):
                    raise _invalid(
                        f"A record of {size} bytes is longer than the rest of its batch."
                    )
                at += 1  # the record's attributes, none of which is in use
                delta, at = (
                    (ZIGZAG[b], at + 1) if (b := data[at]) < 0x80 else read_varlong(data, at)
                )
                timestamp = base_timestamp + delta if append_time is None else append_time
                delta, at = (ZIGZAG[b], at + 1) if (b := data[at]) < 0x80 else read_varint(data, at)
                if not 0 <= delta <= last_offset_delta:
                    raise _invalid(f"Record offset delta {delta} lies outside its batch.")
                # A length beyond the data moves `at` past `end`, which the check below detects.
                size, at = (ZIGZAG[b], at + 1) if (b := data[at]) < 0x80 else read_varint(data, at)
                key, at = (data[at : at + size], at + size) if size >= 0 else (None, at)
                size, at = (ZIGZAG[b], at + 1) if (b := data[at]) < 0x80 else read_varint(data, at)
                value, at = (data[at : at + size], at + size) if size >= 0 else (None, at)
                if data[at]:
                    headers, at = _read_headers(data, at)
                else:
                    headers, at = (), at + 1
                if at != end:
                    raise _invalid("A record's fields do not fill its announced length.")
                yield Record(base_offset + delta, timestamp, key, value, headers)
        except IndexError:
            raise _invalid("Incorrect declared batch size, premature end of records.") from None
        if at != len(data):
            raise _invalid("Incorrect declared batch size, records still remaining.")


def batches(buffer: bytes | bytearray | memoryview) -> Iterator[RecordBatch]:
    """The complete batches in a buffer, in order; a partial one at the end is left out.

    Raises `KafkaError`: CORRUPT_MESSAGE if a size or magic is impossible, INVALID_RECORD for
    message formats 0 and 1, which are not supported.
    """
    view = memoryview(buffer)
    position = 0
    while len(view) - position >= _MAGIC_END:
        length, _, magic = LENGTH_LEADER_EPOCH_AND_MAGIC.unpack_from(
            view, position + LENGTH_POSITION
        )
        if length < _SMALLEST_RECORD_OF_ANY_FORMAT:
            raise _corrupt(f"A record of {length} bytes is smaller than the smallest possible.")
        if magic != 2:
            raise _wrong_magic(magic)
        if length < BATCH_OVERHEAD - LOG_OVERHEAD:
            # Said here, so that it does not depend on how many bytes follow.
            raise _corrupt(f"A record batch of {LOG_OVERHEAD + length} bytes lacks its header.")
        if LOG_OVERHEAD + length > len(view) - position:
            return
        yield RecordBatch(view, position)
        position += LOG_OVERHEAD + length


def stamp_log_append_time(view: memoryview, position: int, timestamp_ms: int) -> None:
    """Set the batch at `position` to LogAppendTime with this timestamp and a new CRC, in place."""
    (length,) = _INT32.unpack_from(view, position + LENGTH_POSITION)
    (attributes,) = _INT16.unpack_from(view, position + ATTRIBUTES_POSITION)
    _INT16.pack_into(view, position + ATTRIBUTES_POSITION, attributes | TIMESTAMP_TYPE_BIT)
    _OFFSET.pack_into(view, position + MAX_TIMESTAMP_POSITION, timestamp_ms)
    stamp_crc(view, position, LOG_OVERHEAD + length)


def stamp_max_timestamp(view: memoryview, position: int, timestamp_ms: int) -> None:
    """Set the largest timestamp of the batch at `position`, in place, with a new CRC."""
    (length,) = _INT32.unpack_from(view, position + LENGTH_POSITION)
    _OFFSET.pack_into(view, position + MAX_TIMESTAMP_POSITION, timestamp_ms)
    stamp_crc(view, position, LOG_OVERHEAD + length)


def stamp_codec(view: memoryview, compression: CompressionType) -> None:
    """Write codec, size and CRC into the header of a batch that fills the view."""
    (attributes,) = _INT16.unpack_from(view, ATTRIBUTES_POSITION)
    _INT32.pack_into(view, LENGTH_POSITION, len(view) - LOG_OVERHEAD)
    _INT16.pack_into(view, ATTRIBUTES_POSITION, attributes & ~COMPRESSION_CODEC_MASK | compression)
    stamp_crc(view, 0, len(view))


def stamp_crc(view: memoryview, position: int, size_in_bytes: int) -> None:
    """Recompute the CRC of the batch at `position` and write it into its header."""
    checked = view[position + ATTRIBUTES_POSITION : position + size_in_bytes]
    _UINT32.pack_into(view, position + CRC_POSITION, crc32c(checked))


_CODECS = tuple(CompressionType)


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    return data[position : position + length], position + length


def _read_headers(data: bytes, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise _invalid(f"Found invalid number of record headers {count}.")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _read_bytes(data, position)
        if key is None:
            raise _invalid("A record header has no key.")
        value, position = _read_bytes(data, position)
        # Like Kafka's Java client, decode invalid UTF-8 to replacement characters.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position


def _wrong_magic(magic: int) -> KafkaError:
    if magic in (0, 1):
        return _invalid(f"Message format {magic} is not supported, only format 2.")
    return _corrupt(f"Invalid magic {magic} found in a record batch.")


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
