"""Streams the records of a scan as Arrow batches, for callers that wait in whichever thread.

A scan runs an event loop. A notebook already has one in its thread, and DuckDB and Polars ask for
batches from threads of their own, so each stream decodes in one thread that nobody else uses. It is
one batch ahead of the caller: two batches and two pieces of a segment are in memory at a time.
"""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa

from ..reading.scan import plan_scan, read_task
from ..reading.scan_options import ScanError, ScanOptions
from ..reading.scan_task import ScanTask

_ARGUMENTS = {
    "failOnDataLoss=false": "scan(…).lenient()",
    "startingOffsets": "start",
    "endingOffsets": "end",
}
"""What is called otherwise in Spark, and how `scan` calls it."""


def record_stream(options: ScanOptions) -> Generator[pa.RecordBatch]:
    """Plan the scan now, and return its batches by partition and offset.

    Raises ScanError, now or from a later batch.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="tables-scan")
    try:
        tasks = thread.submit(plan_scan, options).result()
    except ScanError as error:
        raise _in_words_of_scan(error) from None
    return _in_thread(thread, _all_of(options, tasks))


def _all_of(options: ScanOptions, tasks: list[ScanTask]) -> Generator[pa.RecordBatch]:
    for task in tasks:
        yield from read_task(options, task)


def _in_thread(
    thread: ThreadPoolExecutor, source: Generator[pa.RecordBatch]
) -> Generator[pa.RecordBatch]:
    def following() -> pa.RecordBatch | None:
        return next(source, None)

    try:
        ahead = thread.submit(following)
        while (batch := ahead.result()) is not None:
            ahead = thread.submit(following)
            yield batch
    except ScanError as error:
        # DuckDB and Polars print the traceback with the message that says it all.
        raise _in_words_of_scan(error) from None
    finally:
        # Nobody waits here: a garbage collection in that very thread may have brought us here.
        # Threads refuse new work once the interpreter ends, and the source ends with it then.
        with suppress(RuntimeError):
            thread.submit(source.close)
        thread.shutdown(wait=False)


def _in_words_of_scan(error: ScanError) -> ScanError:
    """The error with the arguments of `scan` in the place of the options of Spark's format."""
    message = str(error)
    for option, argument in _ARGUMENTS.items():
        message = message.replace(option, argument)
    return ScanError(message)


def first_rows(batches: Iterator[pa.RecordBatch], count: int) -> Generator[pa.RecordBatch]:
    """The first `count` rows; what comes after them is not read."""
    for batch in batches:
        if count <= 0:
            return
        part = batch.slice(0, count)
        count -= part.num_rows
        yield part
