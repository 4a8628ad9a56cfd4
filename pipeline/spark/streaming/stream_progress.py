"""Joins the progress of a streaming query to what the tier holds: how much it read, and its lag.

    spark.streams.addListener(TierProgress(options, print))

Spark 4.1 takes no metrics from a Python data source, so its own progress has offsets and rows, but
neither bytes nor a lag. This listener finds them in the tier, after each micro-batch: one listing,
and the parts that planning needs. It runs in the driver, and holds up no micro-batch.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from ...reading.scan_options import ScanError, scan_options
from ...reading.scan_size import ScanSize, log, size_of_tasks
from .stream_limits import lag_of
from .stream_offset import StreamOffset, stream_offset_from_json
from .stream_reader import OpenTier

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


@dataclass(frozen=True, slots=True)
class TierBatch:
    """A micro-batch of a stream that reads a tier."""

    query: str
    """The query's name, or its id if it has none."""
    number: int
    rows: int
    start: StreamOffset
    end: StreamOffset
    size: ScanSize
    """What its tasks had to read, planned as the stream plans it."""
    lag: int
    """How many offsets the tier holds beyond its end, when this was looked up."""

    def __str__(self) -> str:
        return (
            f"micro-batch {self.number} of {self.query}: {self.rows:,} rows, {self.size}; "
            f"{self.lag:,} offsets behind the tier"
        )


class TierProgress(StreamingQueryListener):
    """Reports the micro-batches of queries that read a tier, to a logger and to a function."""

    def __init__(
        self,
        options: Mapping[str, str],
        report: Callable[[TierBatch], None] | None = None,
        *,
        query: str | None = None,
    ) -> None:
        """Look at nothing yet.

        Args:
            options: those of the stream's `format("tierlog")`.
            report: is called with each micro-batch, in a thread of PySpark's.
            query: the name of the query; by default of all queries on topics of these options.

        Raises:
            ScanError: an option is not valid.
        """
        self._options = scan_options(options, streaming=True)
        self._report = report
        self._query = query

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        progress = event.progress
        if self._query is not None and progress.name != self._query:
            return
        for source in progress.sources:
            offsets = _offset(source.startOffset), _offset(source.endOffset)
            if offsets[1] is None or progress.numInputRows == 0:
                continue
            start, end = offsets[0] or StreamOffset({}, {}), offsets[1]
            name = progress.name or str(progress.id)
            tier = OpenTier(self._options)
            try:
                ends = tier.ends()
                size = size_of_tasks(tier.plan(start, end))
            except ScanError as error:
                log.warning("micro-batch %d of %s: %s", progress.batchId, name, error)
                continue
            finally:
                tier.close()
            lag = lag_of(end.offsets, ends.begins, ends.ends).records
            batch = TierBatch(name, progress.batchId, source.numInputRows, start, end, size, lag)
            log.info("%s", batch)
            if self._report is not None:
                self._report(batch)

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """Nothing to report."""

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Nothing to report."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Nothing to report."""


def _offset(text: str | None) -> StreamOffset | None:
    """An offset in a query's progress; None if it is not one of a tier."""
    if text is None:
        return None
    try:
        offset = stream_offset_from_json(json.loads(text))
    except (ScanError, ValueError):
        return None
    # The offsets of Spark's Kafka source look the same, but have no ids.
    return offset if offset.topic_ids else None
