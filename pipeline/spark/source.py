"""A tier as a Spark data source (PySpark's Python Data Source API).

    spark.dataSource.register(TierlogDataSource)
    spark.read.format("tierlog").option("path", "s3://bucket/tier").option("topic", "orders").load()

Options are in `scan_options.py`, reading is in `scan.py`; this module only implements Spark's
interface. Planning runs in a Python process next to the driver, and reading in the executors'
workers. All of these processes need this package, the fsspec implementation of the tier's store and
its credentials; none contacts a broker.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...clients.runtime.supported_system import refusal
from ..extra import missing_extra

if (_message := refusal()) is not None:
    raise ImportError(_message)

try:
    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
    )
    from pyspark.sql.types import StructType

    from ..reading.scan import plan_scan
    from ..reading.scan_options import (
        COLUMNS,
        NULLABLE,
        ScanError,
        ScanOptions,
        columns_option,
        scan_options,
    )
    from .streaming.refused_stream import RefusedStream
    from .streaming.scan_partition import TierlogPartition, log_scans, one_line, read_partition
    from .streaming.stream_reader import TierlogStreamReader
except ModuleNotFoundError as error:
    raise missing_extra(error) from None


class TierlogDataSource(DataSource):
    """`spark.read.format("tierlog")` and `spark.readStream.format("tierlog")`."""

    @classmethod
    def name(cls) -> str:
        return "tierlog"

    def schema(self) -> str:
        # The other options are checked when the reading starts.
        with one_line():
            return ", ".join(_column(name) for name in columns_option(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        with one_line():
            return TierlogReader(_with_schema(scan_options(self.options), schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        # PySpark 4.1 hides an error that is raised here behind an UnboundLocalError of its own.
        try:
            options = scan_options(self.options, streaming=True)
            return TierlogStreamReader(_with_schema(options, schema))
        except ScanError as error:
            return RefusedStream(str(error))


def _column(name: str) -> str:
    """A column as DDL. NOT NULL lets Spark skip checks for nulls."""
    return f"{name} {COLUMNS[name]}" + ("" if name in NULLABLE else " NOT NULL")


def _with_schema(options: ScanOptions, schema: StructType) -> ScanOptions:
    """The scan options with the columns of the query's schema: the user's or the default one.

    Raises ScanError if a column has an unknown name or another type.
    """
    for column in schema:
        stated = column.dataType.simpleString()
        if COLUMNS.get(column.name) != stated:
            names = ", ".join(f"{name} {COLUMNS[name]}" for name in COLUMNS)
            raise ScanError(
                f"The schema has the unknown column {column.name} {stated}; known columns are "
                f"{names}"
            )
    return replace(options, columns=tuple(schema.names))


class TierlogReader(DataSourceReader):
    """A batch reader, which takes no filters.

    Spark 4.1 keeps the partitions that were planned with pushed filters for all later queries of
    the same DataFrame, whatever those ask for; so a reader with `pushFilters` gives wrong rows.
    """

    def __init__(self, options: ScanOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        log_scans()
        with one_line():
            return [TierlogPartition(task) for task in plan_scan(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)
