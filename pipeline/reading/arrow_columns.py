"""Builds Arrow columns from numpy arrays, with the schema of Spark's Kafka source.

PyArrow's type hints are loose, so this module casts to and from `Any`.
"""

from collections.abc import Iterable, Mapping
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
"""The schema of all of `scan_options.COLUMNS`; a scan may use only some of them."""

PADDING = bytes(32)
"""Must follow the content that columns are built from: some code reads slightly past its end."""

_INLINE_BYTES = 12
"""Arrow keeps values up to this size in the view itself, instead of a position."""
_VIEW_BYTES = 16
_MILLISECONDS_MAX = 2**63 // 1000 - 1


def schema_of(names: Iterable[str]) -> pa.Schema:
    """The schema of these columns, in this order."""
    fields = cast("Any", SCHEMA)
    return cast("pa.Schema", _arrow.schema([fields.field(name) for name in names]))


def record_batch(columns: Mapping[str, "Column"]) -> pa.RecordBatch:
    """A record batch of columns, each with its type in the schema."""
    made = _arrow.RecordBatch.from_arrays(list(columns.values()), schema=schema_of(columns))
    return cast("pa.RecordBatch", made)


def binary_column(content: bytes, start: Ints, length: Ints) -> "Column":
    """A column of the bytes at these positions; null where the length is negative.

    This builds a column of Arrow views, which refer to the content; one cast then copies all
    values.
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
    """A column of these numbers, with the same width."""
    return cast("Column", _arrow.array(numbers))


def timestamps(milliseconds: Ints) -> "Column":
    """A column of timestamps, clipped to what microseconds can hold (up to the year 294247)."""
    within = np.clip(milliseconds, -_MILLISECONDS_MAX, _MILLISECONDS_MAX)
    return cast("Column", _arrow.array(within * 1000).cast(_TIMESTAMP))


def header_lists(count: Ints, keys: "Column", values: "Column") -> "Column":
    """A column with `count` headers in each row; null for none, as in Spark's Kafka source."""
    offsets = np.zeros(len(count) + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    entries = _arrow.StructArray.from_arrays([_text(keys), values], ["key", "value"])
    lists = _arrow.ListArray.from_arrays(
        _arrow.array(offsets), entries, mask=_arrow.array(count == 0)
    )
    return cast("Column", lists.cast(_HEADERS))


def no_headers(rows: int) -> "Column":
    """The headers column of records without headers."""
    return cast("Column", _arrow.nulls(rows, _HEADERS))


def _text(keys: "Column") -> object:
    try:
        return cast("Any", keys).cast(_arrow.string())
    except pa.ArrowInvalid:
        # Kafka's Java client decodes bad UTF-8 to replacement characters, and so do we.
        names = cast("list[bytes]", cast("Any", keys).to_pylist())
        return _arrow.array([key.decode("utf-8", "replace") for key in names], _arrow.string())
