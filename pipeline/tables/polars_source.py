"""A scan as a Polars LazyFrame: columns, conditions and a head reach the scan.

Polars gives a source the query's condition as an expression. What its JSON says of `partition`,
`offset`, `timestamp` and `topic` becomes bounds of the scan; whatever else is in it, or a form of a
later Polars that is not recognised, only means that more is read, because every condition is
applied to the rows as well.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from io import StringIO
from typing import Any, TypeAlias, cast

import pyarrow as pa

from ..reading.row_filter import RowFilter
from ..reading.scan_options import ScanOptions
from .record_stream import first_rows, record_stream

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ModuleNotFoundError as error:
    raise ImportError("polars is not installed: pip install polars", name=error.name) from None

Node: TypeAlias = Mapping[str, Any]
"""A part of an expression, as Polars writes it in JSON."""

_EVERYTHING = RowFilter()

_NESTING_MAX = 200
"""The deepest expression that is looked into; Python's own stack would end at some 1000."""

_TURNED_ROUND = {"Eq": "Eq", "Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}
"""The comparison that says the same with its sides exchanged."""


def lazy_frame(options: ScanOptions, schema: pa.Schema) -> pl.LazyFrame:
    """The scan as a LazyFrame."""

    def load(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        needed = options if with_columns is None else _of_columns(options, with_columns)
        if predicate is not None and n_rows is None:
            # A head comes before the condition, so it counts rows that the condition leaves out.
            needed = replace(needed, row_filter=row_filter(predicate))
        stream = record_stream(needed)
        for batch in stream if n_rows is None else first_rows(stream, n_rows):
            frame = _frame(batch)
            yield frame if predicate is None else frame.filter(predicate)

    # Pure: a query that names the scan twice reads it once, and sees one state of the tier.
    none = _frame(cast("Any", schema).empty_table())
    return register_io_source(load, schema=none.schema, is_pure=True)


def _frame(rows: pa.RecordBatch | pa.Table) -> pl.DataFrame:
    return cast("pl.DataFrame", cast("Any", pl).from_arrow(rows))


def _of_columns(options: ScanOptions, columns: list[str]) -> ScanOptions:
    return replace(options, columns=tuple(columns))


def row_filter(predicate: pl.Expr) -> RowFilter:
    """Bounds that contain every row for which the condition is true."""
    text = predicate.meta.serialize(format="json")
    return _bounds(cast("Node", json.loads(text)), _NESTING_MAX)


def _bounds(node: Node, nesting: int) -> RowFilter:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}} if nesting:
            return _bounds(left, nesting - 1) & _bounds(right, nesting - 1)
        case {"BinaryExpr": {"left": {"Column": str(column)}, "op": str(sign), "right": value}}:
            return _comparison(column, sign, _value(value))
        case {"BinaryExpr": {"left": value, "op": str(sign), "right": {"Column": str(column)}}}:
            return _comparison(column, _TURNED_ROUND.get(sign, ""), _value(value))
        case {
            "Function": {"input": [{"Column": str(column)}, *rest], "function": {"Boolean": how}}
        }:
            return _of_function(column, cast("object", how), cast("list[Node]", rest))
        case _:
            return _EVERYTHING


def _of_function(column: str, function: object, rest: list[Node]) -> RowFilter:
    names: Node = cast("Node", function) if isinstance(function, dict) else {}
    if "IsBetween" in names and len(rest) == 2:
        low, high = map(_value, rest)
        # One bound too many at an open end costs nothing: the rows are checked.
        return _comparison(column, "GtEq", low) & _comparison(column, "LtEq", high)
    if "IsIn" in names and len(rest) == 1:
        return _one_of(column, _value(rest[0]))
    return _EVERYTHING


def _value(node: Node) -> object:
    """A literal as Polars reads it: a number, a time, a text, a Series; else None."""
    if "Literal" not in node:
        return None
    literal = pl.Expr.deserialize(StringIO(json.dumps(node)), format="json")
    try:
        return cast("object", pl.select(literal).item())
    except (ValueError, OverflowError):  # a time that Python's datetime cannot hold
        return None


def _comparison(column: str, sign: str, value: object) -> RowFilter:
    match column, sign, value:
        case "offset", _, int():
            return _of_offset(sign, value)
        case "partition", "Eq", int():
            return RowFilter(partitions=frozenset((value,)))
        case "topic", "Eq", str():
            return RowFilter(topics=frozenset((value,)))
        case "timestamp", "Eq" | "Gt" | "GtEq", datetime() if value.tzinfo is not None:
            # Rounded down to seconds: precise enough to choose batches.
            return RowFilter(first_timestamp_ms=int(value.timestamp() // 1 * 1000))
        case _:
            return _EVERYTHING


def _of_offset(sign: str, offset: int) -> RowFilter:
    match sign:
        case "Eq":
            return RowFilter(first_offset=offset, end_offset=offset + 1)
        case "Gt":
            return RowFilter(first_offset=offset + 1)
        case "GtEq":
            return RowFilter(first_offset=offset)
        case "Lt":
            return RowFilter(end_offset=offset)
        case "LtEq":
            return RowFilter(end_offset=offset + 1)
        case _:
            return _EVERYTHING


def _one_of(column: str, values: object) -> RowFilter:
    if not isinstance(values, pl.Series):
        return _EVERYTHING
    numbers = [each for each in cast("list[object]", values.to_list()) if isinstance(each, int)]
    if not numbers or len(numbers) < len(values):
        return _EVERYTHING
    match column:
        case "offset":
            return RowFilter(first_offset=min(numbers), end_offset=max(numbers) + 1)
        case "partition":
            return RowFilter(partitions=frozenset(numbers))
        case _:
            return _EVERYTHING
