"""A tier as a data source of Spark (PySpark's Python Data Source API).

    spark.dataSource.register(TierlogDataSource)
    spark.read.format("tierlog").option("path", "s3://bucket/tier").option("topic", "orders").load()

Options are in `scan_options.py`, what is read and how in `scan.py`; this is only the shape that
Spark wants. Planning runs in a Python process beside the driver, reading in the executors' workers:
all of them need this package, the tier's file system and the credentials, and none of them asks a
broker.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from .scan import ScanTask, plan_scan, read_task
from .scan_options import ScanError, ScanOptions, scan_options

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)
_HEADERS = ", headers array<struct<key: string, value: binary>>"


class TierlogPartition(InputPartition):
    """A task, as Spark carries it to an executor."""

    def __init__(self, task: ScanTask) -> None:
        super().__init__(None)
        self.task = task


class TierlogDataSource(DataSource):
    """`spark.read.format("tierlog")` and `spark.readStream.format("tierlog")`."""

    @classmethod
    def name(cls) -> str:
        return "tierlog"

    def schema(self) -> str:
        # A stream's own options are checked when it starts.
        return _COLUMNS + (_HEADERS if has_headers(self.options) else "")

    def reader(self, schema: StructType) -> DataSourceReader:
        with _one_line():
            return TierlogReader(scan_options(dict(self.options)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise NotImplementedError


def has_headers(options: dict[str, str]) -> bool:
    """Whether the table has the column of headers."""
    return options.get("includeheaders", "true").strip().lower() == "true"


class TierlogReader(DataSourceReader):
    """A batch."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        with _one_line():
            return [TierlogPartition(task) for task in plan_scan(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)


def read_partition(
    options: ScanOptions, partition: InputPartition | None
) -> Iterator[pa.RecordBatch]:
    """The records of a task; none if Spark asks for the one task of a scan without any."""
    if isinstance(partition, TierlogPartition):
        with _one_line():
            yield from read_task(options, partition.task)


@contextmanager
def _one_line() -> Generator[None]:
    """Let Spark's exception say what is wrong, and not where in this code that was found.

    Spark prints the traceback of what ends one of its Python processes, unless this variable of the
    process says otherwise; the process is about to end.
    """
    try:
        yield
    except ScanError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
