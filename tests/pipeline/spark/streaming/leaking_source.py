"""A tier as a data source with the fault that ours must not have: it takes Spark's filters.

Spark 4.1 keeps what was planned with the filters of one query for the next query of the same
DataFrame. A test that does not notice the rows which then are missing would prove nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import eq, ge, gt, le, lt
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from tierlog.pipeline.spark.source import TierlogDataSource, TierlogReader

Comparison = Callable[[pc.Expression, int], object]

TAKEN: dict[type[Filter], Comparison] = {
    EqualTo: eq,
    GreaterThan: gt,
    GreaterThanOrEqual: ge,
    LessThan: lt,
    LessThanOrEqual: le,
}
NUMBERS = (("partition",), ("offset",))


class LeakingDataSource(TierlogDataSource):
    """Takes the place of the real one under its name."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return LeakingReader(cast("TierlogReader", super().reader(schema)))


class LeakingReader(DataSourceReader):
    """Reads as the real one does, and leaves out what the filters do not ask for."""

    def __init__(self, reader: TierlogReader) -> None:
        self._reader = reader
        self._filters: list[tuple[str, Comparison, int]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for each in filters:
            comparison = TAKEN.get(type(each))
            column = cast("tuple[str, ...]", getattr(each, "attribute", ()))
            if comparison is not None and column in NUMBERS:
                self._filters.append((column[0], comparison, cast("int", vars(each)["value"])))
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in self._reader.read(partition):
            yield reduce(_filtered, self._filters, batch)


def _filtered(batch: pa.RecordBatch, asked: tuple[str, Comparison, int]) -> pa.RecordBatch:
    column, comparison, value = asked
    if column not in batch.schema.names:
        return batch
    return batch.filter(cast("pc.Expression", comparison(pc.field(column), value)))
