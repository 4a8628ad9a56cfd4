"""What a profile wants to know of decoded records, counted by Arrow and numpy.

Arrow's types are published loosely; they are looked away from here.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow.compute

from ..reading.arrow_columns import Ints
from .sketches import KEY_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

COUNTED = ("key", "value", "timestamp")
"""The columns that are looked at."""

_compute = cast("Any", pyarrow.compute)


class ColumnCounts(NamedTuple):
    """Of some records."""

    keys: dict[bytes, int]
    """How many records have each key."""
    nulls: int
    """Records without a key."""
    tombstones: int
    """Records without a value."""
    times_ms: Ints
    """Of each record."""
    nbytes: Ints
    """Key and value of each record together."""


def column_counts(records: "pa.RecordBatch") -> ColumnCounts:
    """Count the rows of a batch, in which only the columns of COUNTED need be."""
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
