"""Runs a streaming query until it has read all that there is, in bounded micro-batches.

Spark 4.1 does not ask a Python data source how it divides what is available, so the trigger
`availableNow` gives it a single micro-batch. This runs the query with the usual trigger instead,
and stops it when a trigger has found nothing more.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def run_available(writer: "DataStreamWriter") -> "StreamingQuery":
    """Start the query, wait until it has read all that its sources hold, and stop it.

    Args:
        writer: a `DataFrame.writeStream` with everything but the trigger. Its checkpoint makes the
            next run go on from here.

    Returns:
        The stopped query, with its progress.

    Raises:
        StreamingQueryException: the query has failed.
    """
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return query
