"""Arrow columns out of numpy arrays, and the schema that they make: that of Spark's Kafka source.

Arrow's types are published loosely; they are looked away from here and nowhere else.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    Column: TypeAlias = pa.Array[Any]

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_arrow = cast("Any", import_module("pyarrow"))

_HEADERS = _arrow.list_(_arrow.struct([("key", _arrow.string()), ("value", _arrow.binary())]))
_TIMESTAMP = _arrow.timestamp("us", tz="UTC")

SCHEMA: pa.Schema = _arrow.schema(
    [
        ("key", _arrow.binary()),
        ("value", _arrow.binary()),
        ("topic", _arrow.string()),
        ("partition", _arrow.int32()),
        ("offset", _arrow.int64()),
        ("timestamp", _TIMESTAMP),
        ("timestampType", _arrow.int32()),
        ("headers", _HEADERS),
    ]
)
"""Of all of `scan_options.COLUMNS`; a scan may want some of them only."""

PADDING = bytes(32)
"""Must follow the bytes that columns are made of: some of what reads them reads a little beyond."""

_INLINE_BYTES = 12
"""Arrow keeps values up to this size in the view itself."""
_VIEW_BYTES = 16
_MILLISECONDS_MAX = 2**63 // 1000 - 1


def record_batch(columns: Mapping[str, "Column"]) -> pa.RecordBatch:
    """Columns put together, each of the type that the schema gives its name."""
    fields = cast("Any", SCHEMA)
    schema = _arrow.schema([fields.field(name) for name in columns])
    made = _arrow.RecordBatch.from_arrays(list(columns.values()), schema=schema)
    return cast("pa.RecordBatch", made)


def binary_column(content: bytes, start: Ints, length: Ints) -> "Column":
    """The bytes at these places of the content; null where a length is below zero.

    Arrow's views of the places are written here, and Arrow copies all values in one cast.
    """
    rows = len(start)
    is_there = length >= 0
    if not is_there.any():
        return cast("Column", _arrow.nulls(rows, _arrow.binary()))
    views = np.zeros((rows, _VIEW_BYTES // 4), np.int32)
    views[:, 0] = np.maximum(length, 0)
    views[:, 3] = start
    short = np.flatnonzero((length > 0) & (length <= _INLINE_BYTES))
    if len(short):
        data = np.frombuffer(content, np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(data, _INLINE_BYTES)
        views.view(np.uint8)[short, 4:] = windows[start[short]]
    validity = None if is_there.all() else _buffer(np.packbits(is_there, bitorder="little"))
    buffers = [validity, _buffer(views), _buffer(content)]
    view = _arrow.Array.from_buffers(_arrow.binary_view(), rows, buffers)
    return cast("Column", view.cast(_arrow.binary()))


def _buffer(content: object) -> object:
    return _arrow.py_buffer(content)


def repeated_text(text: bytes, rows: int) -> "Column":
    """The same text in every row."""
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(text))
    buffers = [None, _buffer(offsets), _buffer(text * rows)]
    return cast("Column", _arrow.Array.from_buffers(_arrow.string(), rows, buffers))


def whole_numbers(numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32]) -> "Column":
    """A column of these numbers, as wide as they are."""
    return cast("Column", _arrow.array(numbers))


def timestamps(milliseconds: Ints) -> "Column":
    """Points in time. Kafka's may be anything; a column of microseconds ends in the year 294247."""
    within = np.clip(milliseconds, -_MILLISECONDS_MAX, _MILLISECONDS_MAX)
    return cast("Column", _arrow.array(within * 1000).cast(_TIMESTAMP))


def header_lists(count: Ints, keys: "Column", values: "Column") -> "Column":
    """Lists of so many headers each, null where there is none, as Spark's source has it."""
    offsets = np.zeros(len(count) + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    entries = _arrow.StructArray.from_arrays([_text(keys), values], ["key", "value"])
    lists = _arrow.ListArray.from_arrays(
        _arrow.array(offsets), entries, mask=_arrow.array(count == 0)
    )
    return cast("Column", lists.cast(_HEADERS))


def no_headers(rows: int) -> "Column":
    """The column of records without any."""
    return cast("Column", _arrow.nulls(rows, _HEADERS))


def _text(keys: "Column") -> object:
    try:
        return cast("Any", keys).cast(_arrow.string())
    except pa.ArrowInvalid:
        # Kafka's Java client decodes bad UTF-8 to replacement characters, and so do we.
        names = cast("list[bytes]", cast("Any", keys).to_pylist())
        return _arrow.array([key.decode("utf-8", "replace") for key in names], _arrow.string())
