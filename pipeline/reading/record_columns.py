"""Decodes record batches to Arrow columns, without a Python object per record.

The records of many batches are concatenated. A Python loop walks from record to record by their
lengths, and passes runs of equal-sized records in one step. Everything else is done by numpy for
all records at once: it decodes the varints of each field, finds the positions of keys and values,
and builds Arrow views of these positions, which Arrow casts to a column in one call.

Each record is checked as in `RecordBatch.records`: lengths that do not fill their record, deltas
outside the batch, and invalid counts are an error (INVALID_RECORD).
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ...clients.errors import ErrorCode, KafkaError
from ...clients.record.batch import RecordBatch, TimestampType
from ...clients.record.compression import decompress
from ...clients.record.layout import BATCH_OVERHEAD
from ...clients.record.varint import read_varint
from .arrow_columns import (
    PADDING,
    Bytes,
    Ints,
    binary_column,
    header_lists,
    no_headers,
    record_batch,
    repeated_text,
    timestamps,
    whole_numbers,
)
from .scan_options import COLUMNS

if TYPE_CHECKING:
    from .arrow_columns import Column

Payload = bytes | bytearray | memoryview
"""The records of a batch, decompressed."""

_SMALLEST_RECORD_BYTES = 7

_STEPS = 16
"""The fewest equal-sized records to pass in one step (a run). After the first failed search for a
run, as many are passed singly."""

_OF_ONE = tuple(1 + (byte >> 1) for byte in range(0x80))
"""The size of a record with its length, if that is a zigzag varint of this one byte."""
_OF_LOW = tuple((byte & 0x7F) >> 1 for byte in range(0x100))
_OF_HIGH = tuple(2 + (byte << 6) for byte in range(0x80))
"""If it is one of two bytes, the sum of two of these: by its first and by its second byte."""

_FEW_RECORDS = 16
"""The headers of so few records are found one by one: a step of numpy takes longer."""


class RecordColumns:
    """Decodes batches of one partition into the requested columns."""

    def __init__(self, topic: str, partition: int, names: Iterable[str] = COLUMNS) -> None:
        self._topic = topic.encode()
        self._partition = partition
        self._names = tuple(names)

    def decode(self, batches: Sequence[RecordBatch]) -> pa.RecordBatch:
        """All records of these batches, in order. Does not check CRCs. Raises KafkaError."""
        return self.decode_payloads(batches, [plain_records(batch) for batch in batches])

    def decode_payloads(
        self,
        batches: Sequence[RecordBatch],
        payloads: Sequence[Payload],
        bounds: tuple[int, int] | None = None,
    ) -> pa.RecordBatch:
        """Decode batches with records that are already decompressed (`plain_records`).

        Args:
            batches: in offset order.
            payloads: the decompressed records of each batch.
            bounds: the first and the end offset (exclusive) of the rows; all rows if not given.
        """
        content = b"".join([*payloads, PADDING])
        starts = _record_starts(batches, payloads, content)
        data = np.frombuffer(content, np.uint8)
        # The lowest bit of a zigzag varint is its sign, which the walk does not look at.
        if (data[starts] & 1).any():
            raise _invalid("Found a record of negative length.")
        fields = _fields(data, starts)
        count = np.array([batch.record_count for batch in batches], np.int64)
        _check(fields, _each([batch.last_offset_delta for batch in batches], count))
        offsets = _each([batch.base_offset for batch in batches], count) + fields.offset_delta
        decoded = _Decoded(content, data, batches, count, fields, offsets)
        made = record_batch({name: self._column(name, decoded) for name in self._names})
        if bounds is None:
            return made
        first, end = np.searchsorted(offsets, bounds)
        return made.slice(int(first), int(end - first))

    def _column(self, name: str, decoded: "_Decoded") -> "Column":
        content, data, batches, counts, fields, offsets = decoded
        rows = len(offsets)
        match name:
            case "key":
                return binary_column(content, *fields.key)
            case "value":
                return binary_column(content, *fields.value)
            case "topic":
                return repeated_text(self._topic, rows)
            case "partition":
                return whole_numbers(np.full(rows, self._partition, np.int32))
            case "offset":
                return whole_numbers(offsets)
            case "timestamp":
                return timestamps(_times(batches, counts, fields.timestamp_delta))
            case "timestampType":
                types = _each([batch.timestamp_type for batch in batches], counts)
                return whole_numbers(types.astype(np.int32))
            case "headers":
                return _headers(content, data, fields)
            case _:
                raise ValueError(f"There is no column {name!r}.")


class _Spans(NamedTuple):
    """The positions and lengths of values; a negative length means null."""

    start: Ints
    length: Ints


class _Fields(NamedTuple):
    """The fields of many records, and the start and end of each record's headers."""

    timestamp_delta: Ints
    offset_delta: Ints
    key: _Spans
    value: _Spans
    header_count: Ints
    headers_at: Ints
    end: Ints


class _Decoded(NamedTuple):
    """Batches, and the fields and offsets of their records, from which columns are built."""

    content: bytes
    data: Bytes
    batches: Sequence[RecordBatch]
    counts: Ints
    """The number of records in each batch."""
    fields: _Fields
    offsets: Ints


def plain_records(batch: RecordBatch) -> Payload:
    """The decompressed records of a batch.

    Raises KafkaError: INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE.
    """
    payload = batch.view[BATCH_OVERHEAD:]
    return decompress(batch.compression_type, payload) if len(payload) else payload


def _record_starts(
    batches: Sequence[RecordBatch],
    payloads: Sequence[Payload],
    content: bytes,
) -> Ints:
    """The position of each record in the content, the concatenated payloads."""
    walk = _Walk(content)
    at = 0
    for batch, payload in zip(batches, payloads, strict=True):
        end = at + len(payload)
        if not 0 <= batch.record_count * _SMALLEST_RECORD_BYTES <= len(payload):
            raise _invalid(f"Found invalid record count {batch.record_count}.")
        if walk.go(at, batch.record_count) != end:
            raise _invalid("A record's length does not fit its batch.")
        at = end
    starts = walk.starts()
    if len(starts) > 1 and not (np.diff(starts) > 0).all():
        raise _invalid("Found a record of negative length.")
    return starts


class _Walk:
    """Walks from record to record by their lengths.

    Neighbouring records often have the same size. So the bytes at all positions at which records of
    that size would begin are compared at once, and a run of records with the same length field is
    passed in one step.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._pieces: list[Ints] = []
        self._starts: list[int] = []
        """The latest starts, which are not in `_pieces` yet."""

    def starts(self) -> Ints:
        """The positions of the records."""
        self._pieces.append(np.array(self._starts, np.int64))
        self._starts = []
        return np.concatenate(self._pieces)

    def go(self, at: int, count: int) -> int:
        """Pass `count` records; returns the position after the last. Raises KafkaError."""
        steps = _STEPS
        try:
            while count:
                size = self._step(at, 1, []) - at
                run = self._run(at, size, count)
                if run:
                    self._pieces += (np.array(self._starts, np.int64), _every(at, size, run))
                    self._starts = []
                    at += run * size
                    steps = _STEPS
                else:
                    # The longer the sizes keep differing, the less often a run is searched for.
                    run = min(count, steps)
                    steps *= 4
                    at = self._step(at, run, self._starts)
                count -= run
        except IndexError:
            raise _invalid("A record lies outside its batch.") from None
        return at

    def _run(self, at: int, size: int, count: int) -> int:
        """The number of records of this size from here on; 0 if too few for one step."""
        content = self._content
        if count < _STEPS or size < _SMALLEST_RECORD_BYTES:
            return 0
        begin = content[at : at + 2]
        length_bytes = 1 if begin[0] < 0x80 else 2
        if begin[-1] >= 0x80 and length_bytes == 2:
            return 0
        soon = content[at : at + _STEPS * size : size]
        if soon.count(begin[:1]) < _STEPS:
            return 0
        run = count
        for place in range(length_bytes):
            there = content[at + place : at + run * size : size]
            run = len(there) - len(there.lstrip(begin[place : place + 1]))
        return run if run >= _STEPS else 0

    def _step(self, at: int, count: int, starts: list[int]) -> int:
        """Pass `count` records one by one."""
        # Tables are a third faster than arithmetic, which makes an object at each operation.
        content, of_one, of_low, of_high = self._content, _OF_ONE, _OF_LOW, _OF_HIGH
        append = starts.append
        for _ in repeat(None, count):
            append(at)
            low = content[at]
            if low < 0x80:
                at += of_one[low]
            else:
                high = content[at + 1]
                if high < 0x80:
                    at += of_low[low] + of_high[high]
                else:
                    size, at = read_varint(content, at)
                    at += size
        return at


def _every(at: int, size: int, count: int) -> Ints:
    return np.arange(at, at + count * size, size, dtype=np.int64)


def _varints(data: Bytes, at: Ints, bits: int = 32) -> tuple[Ints, Ints]:
    """The zigzag varint at each position, and the position after it.

    Raises KafkaError: INVALID_RECORD, if one exceeds `bits`.
    """
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(byte & 0x80)
    shift = 7
    while len(more):
        byte = data[after[more]]
        # The last byte that fits: what of it lies beyond, the bit that more follow included.
        if shift + 7 > bits and (byte >> (bits - shift)).any():
            raise _invalid(f"A variable-length integer exceeds {bits} bits.")
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    signed = (value >> np.uint64(1)).view(np.int64)
    return signed ^ -(value & np.uint64(1)).view(np.int64), after


def _past_varints(data: Bytes, at: Ints) -> Ints:
    """The position after the varint at each position; the walk has read them all."""
    after = at + 1
    more = np.flatnonzero(data[at] >= 0x80)
    while len(more):
        is_longer = data[after[more]] >= 0x80
        after[more] += 1
        more = more[is_longer]
    return after


def _span(data: Bytes, at: Ints) -> tuple[_Spans, Ints]:
    """The length and bytes at each position, and the position after them.

    If the length exceeds the content, that position is just past the end, where no record ends.
    """
    length, start = _varints(data, at)
    beyond = len(data) - len(PADDING) + 1
    return _Spans(start, length), np.minimum(start + np.clip(length, 0, beyond), beyond)


def _fields(data: Bytes, starts: Ints) -> _Fields:
    at = _past_varints(data, starts)
    # Skip one byte of unused attributes.
    timestamp_delta, at = _varints(data, at + 1, 64)
    offset_delta, at = _varints(data, at)
    key, at = _span(data, at)
    value, at = _span(data, at)
    header_count, at = _varints(data, at)
    end = np.append(starts[1:], len(data) - len(PADDING))[: len(starts)]
    return _Fields(timestamp_delta, offset_delta, key, value, header_count, at, end)


def _check(fields: _Fields, last_offset_delta: Ints) -> None:
    """Raise KafkaError unless each record's offset is in its batch and its fields fit."""
    outside = (fields.offset_delta < 0) | (fields.offset_delta > last_offset_delta)
    if outside.any():
        raise _invalid("A record's offset lies outside its batch.")
    left = fields.end - fields.headers_at
    count = fields.header_count
    # A header takes at least two bytes.
    if ((count < 0) | (left < 2 * count) | ((count == 0) & (left != 0))).any():
        raise _invalid("A record's fields do not fill its announced length.")


def _times(batches: Sequence[RecordBatch], count: Ints, delta: Ints) -> Ints:
    times = _each([batch.base_timestamp for batch in batches], count) + delta
    appended = [batch.timestamp_type is TimestampType.LOG_APPEND_TIME for batch in batches]
    if not any(appended):
        return times
    highest = _each([batch.max_timestamp for batch in batches], count)
    return np.where(np.repeat(appended, count), highest, times)


def _each(of_batch: Sequence[int], count: Ints) -> Ints:
    """A value per batch, repeated for each of its records."""
    return np.repeat(np.array(of_batch, np.int64), count)


def _headers(content: bytes, data: Bytes, fields: _Fields) -> "Column":
    if not fields.header_count.any():
        return no_headers(len(fields.end))
    key, value, record = _header_spans(content, data, fields)
    # The spans are ordered by header number; reorder them by record.
    order = np.argsort(record, kind="stable")
    keys = binary_column(content, key.start[order], key.length[order])
    values = binary_column(content, value.start[order], value.length[order])
    return header_lists(fields.header_count, keys, values)


def _header_spans(content: bytes, data: Bytes, fields: _Fields) -> tuple[_Spans, _Spans, Ints]:
    """The keys and values of all headers, and their record numbers: all first headers come first,
    then all second ones, and so on, until few records have more."""
    keys: list[_Spans] = []
    values: list[_Spans] = []
    records: list[Ints] = []
    at = fields.headers_at.copy()
    active = np.flatnonzero(fields.header_count > 0)
    number = 0
    while len(active) > _FEW_RECORDS:
        key, after = _span(data, at[active])
        value, at[active] = _span(data, after)
        if (key.length < 0).any():
            raise _invalid("A record header has no key.")
        keys.append(key)
        values.append(value)
        records.append(active)
        number += 1
        active = active[fields.header_count[active] > number]
    for record in active.tolist():
        left = int(fields.header_count[record]) - number
        key, value, at[record] = _later_headers(content, int(at[record]), left)
        keys.append(key)
        values.append(value)
        records.append(np.full(left, record))
    if (at != fields.end).any():
        raise _invalid("A record's headers do not fill its announced length.")
    return _join(keys), _join(values), np.concatenate(records)


def _later_headers(content: bytes, at: int, count: int) -> tuple[_Spans, _Spans, int]:
    """The keys and values of the next headers of one record, and the position after them."""
    beyond = len(content) - len(PADDING) + 1
    places: list[int] = []
    lengths: list[int] = []
    for _ in range(2 * count):
        # A position beyond the end is where no record ends.
        low = content[at] if at < beyond else 0
        if low < 0x80:
            length = (low >> 1) ^ -(low & 1)
            at += 1
        else:
            length, at = read_varint(content, at)
        places.append(at)
        lengths.append(length)
        if length > 0:
            at = min(at + length, beyond)
    start, size = np.array(places, np.int64), np.array(lengths, np.int64)
    if (size[::2] < 0).any():
        raise _invalid("A record header has no key.")
    return _Spans(start[::2], size[::2]), _Spans(start[1::2], size[1::2]), at


def _join(spans: list[_Spans]) -> _Spans:
    return _Spans(
        np.concatenate([span.start for span in spans]),
        np.concatenate([span.length for span in spans]),
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
