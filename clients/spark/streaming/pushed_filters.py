"""Converts the filters that Spark pushes down to a source into bounds of a scan.

If `spark.sql.python.filterPushdown.enabled` is true, Spark offers the filters to a Python data
source in a separate process. If it is false, Spark fails a query whose reader has `pushFilters`.
So only in that process does the source return such a reader.
"""

import sys
from collections.abc import Iterable
from datetime import datetime

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ..row_filter import RowFilter

_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def are_pushed_down() -> bool:
    """Whether this process is Spark's worker for filter pushdown."""
    return _WORKER in sys.modules


def row_filter(filters: Iterable[Filter]) -> RowFilter:
    """The bounds that contain every row that passes all of these filters."""
    rows = RowFilter()
    for each in filters:
        rows &= _offset_bounds(each) & _time_bounds(each) & _names(each)
    return rows


def _offset_bounds(condition: Filter) -> RowFilter:
    match condition:
        case EqualTo(("offset",), int(offset)) | EqualNullSafe(("offset",), int(offset)):
            return RowFilter(first_offset=offset, end_offset=offset + 1)
        case In(("offset",), (int(), *_) as offsets):
            return RowFilter(first_offset=min(offsets), end_offset=max(offsets) + 1)
        case GreaterThan(("offset",), int(offset)):
            return RowFilter(first_offset=offset + 1)
        case GreaterThanOrEqual(("offset",), int(offset)):
            return RowFilter(first_offset=offset)
        case LessThan(("offset",), int(offset)):
            return RowFilter(end_offset=offset)
        case LessThanOrEqual(("offset",), int(offset)):
            return RowFilter(end_offset=offset + 1)
        case _:
            return RowFilter()


def _time_bounds(condition: Filter) -> RowFilter:
    match condition:
        case (
            EqualTo(("timestamp",), datetime() as time)
            | EqualNullSafe(("timestamp",), datetime() as time)
            | GreaterThan(("timestamp",), datetime() as time)
            | GreaterThanOrEqual(("timestamp",), datetime() as time)
        ) if time.tzinfo is not None:
            # Rounded down to seconds: precise enough to choose batches, and safe with floats.
            return RowFilter(first_timestamp_ms=int(time.timestamp() // 1 * 1000))
        case _:
            return RowFilter()


def _names(condition: Filter) -> RowFilter:
    match condition:
        case EqualTo(("partition",), int(number)) | EqualNullSafe(("partition",), int(number)):
            return RowFilter(partitions=frozenset((number,)))
        case In(("partition",), (int(), *_) as numbers):
            return RowFilter(partitions=frozenset(numbers))
        case EqualTo(("topic",), str(name)) | EqualNullSafe(("topic",), str(name)):
            return RowFilter(topics=frozenset((name,)))
        case In(("topic",), (str(), *_) as names):
            return RowFilter(topics=frozenset(names))
        case _:
            return RowFilter()
