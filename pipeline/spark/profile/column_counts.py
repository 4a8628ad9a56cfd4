"""Counts decoded records for a profile, with Arrow and numpy.

PyArrow's type hints are loose, so this module casts to and from `Any`.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow.compute

from ...reading.arrow_columns import Ints
from .sketches import KEY_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

COUNTED = ("key", "value", "timestamp")
"""The columns that are counted."""

_compute = cast("Any", pyarrow.compute)


class ColumnCounts(NamedTuple):
    """The counts of some records."""

    keys: dict[bytes, int]
    """The number of records with each key."""
    nulls: int
    """Records without a key."""
    tombstones: int
    """Records without a value."""
    times_ms: Ints
    """The timestamp of each record."""
    nbytes: Ints
    """The size of each record's key and value together."""


def column_counts(records: "pa.RecordBatch") -> ColumnCounts:
    """Count the rows of a batch with at least the columns in COUNTED."""
    keys = cast("Any", records.column("key"))
    values = cast("Any", records.column("value"))
    times = cast("Any", records.column("timestamp"))
    counted = _compute.value_counts(_compute.binary_slice(keys.drop_null(), 0, KEY_BYTES))
    counts_by_key = zip(
        counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
    )
    return ColumnCounts(
        dict(cast("list[tuple[bytes, int]]", list(counts_by_key))),
        int(keys.null_count),
        int(values.null_count),
        cast("Ints", times.cast("int64").to_numpy()) // 1000,
        _lengths(keys) + _lengths(values),
    )


def _lengths(column: Any) -> Ints:  # noqa: ANN401  # see the module
    lengths = _compute.fill_null(_compute.binary_length(column), 0)
    return cast("Ints", lengths.to_numpy(zero_copy_only=False)).astype(np.int64)
