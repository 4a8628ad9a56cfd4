"""Turns a scan task into a Spark partition, and shows errors in one line without a traceback."""

import logging
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...reading.scan import read_task
from ...reading.scan_options import ScanError, ScanOptions
from ...reading.scan_size import log
from ...reading.scan_task import ScanTask
from .worker_upkeep import forget_spark_archives, spare_modules


class TierlogPartition(InputPartition):
    """A scan task in the form that Spark sends to an executor."""

    def __init__(self, task: ScanTask) -> None:
        super().__init__(None)
        self.task = task


def read_partition(
    options: ScanOptions, partition: InputPartition | None
) -> Iterator[pa.RecordBatch]:
    """The records of a task; none for the empty task that Spark runs if a scan has no tasks."""
    log_scans()
    if isinstance(partition, TierlogPartition):
        with one_line():
            yield from read_task(options, partition.task)
    # Called last, when everything that reading imports is loaded.
    spare_modules()
    forget_spark_archives()


def log_scans() -> None:
    """Log what scans read, in this process of Spark's.

    Only Spark's own collection of workers' logs shows these lines
    (spark.sql.pyspark.worker.logging.enabled): without it, these processes print no INFO lines.
    """
    log.setLevel(logging.INFO)


@contextmanager
def one_line() -> Generator[None]:
    """Keep Spark from adding a Python traceback to a ScanError.

    Spark prints the traceback of an error that ends one of its Python processes, unless the process
    has set SPARK_HIDE_TRACEBACK.
    """
    try:
        yield
    except ScanError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
