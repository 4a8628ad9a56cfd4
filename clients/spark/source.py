"""A tier as a data source of Spark (PySpark's Python Data Source API).

    spark.dataSource.register(TierlogDataSource)
    spark.read.format("tierlog").option("path", "s3://bucket/tier").option("topic", "orders").load()

Options are in `scan_options.py`, what is read and how in `scan.py`; this is only the shape that
Spark wants. Planning runs in a Python process beside the driver, reading in the executors' workers:
all of them need this package, the tier's file system and the credentials, and none of them asks a
broker.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from .scan import plan_scan
from .scan_options import ScanOptions, scan_options
from .scan_partition import TierlogPartition, one_line, read_partition
from .stream_reader import TierlogStreamReader

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
_HEADERS = ", headers array<struct<key: string, value: binary>>"


class TierlogDataSource(DataSource):
    """`spark.read.format("tierlog")` and `spark.readStream.format("tierlog")`."""

    @classmethod
    def name(cls) -> str:
        return "tierlog"

    def schema(self) -> str:
        # A stream's own options are checked when it starts.
        return _COLUMNS + (_HEADERS if has_headers(self.options) else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        with one_line():
            return TierlogReader(scan_options(dict(self.options)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        with one_line():
            return TierlogStreamReader(scan_options(dict(self.options), streaming=True))


def has_headers(options: dict[str, str]) -> bool:
    """Whether the table has the column of headers."""
    return options.get("includeheaders", "true").strip().lower() == "true"


class TierlogReader(DataSourceReader):
    """A batch."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        with one_line():
            return [TierlogPartition(task) for task in plan_scan(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)
