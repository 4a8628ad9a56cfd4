"""A task of a scan on its way through Spark, and the one line of an error on its way back."""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ..scan import ScanTask, read_task
from ..scan_options import ScanError, ScanOptions
from .worker_upkeep import forget_spark_archives, spare_modules


class TierlogPartition(InputPartition):
    """A task, as Spark carries it to an executor."""

    def __init__(self, task: ScanTask) -> None:
        super().__init__(None)
        self.task = task


def read_partition(
    options: ScanOptions, partition: InputPartition | None
) -> Iterator[pa.RecordBatch]:
    """The records of a task; none if Spark asks for the one task of a scan without any."""
    if isinstance(partition, TierlogPartition):
        with one_line():
            yield from read_task(options, partition.task)
    # All that reading imports is there.
    spare_modules()
    forget_spark_archives()


@contextmanager
def one_line() -> Generator[None]:
    """Let Spark's exception say what is wrong, and not where in this code that was found.

    Spark prints the traceback of what ends one of its Python processes, unless this variable of the
    process says otherwise; the process is about to end.
    """
    try:
        yield
    except ScanError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
