"""Reads a tier as a stream: new records in the tier become micro-batches.

A stream offset says how far each partition is read (`stream_offset.py`). A partition that appears
later is read from its start. A topic that was deleted and created again is another topic, and ends
the stream: its offsets do not continue those of the checkpoint.

A micro-batch reads everything available, up to `maxOffsetsPerTrigger`. In any case its tasks are as
small as those of a batch read, and only tasks hold data. Spark 4.1 does not pass the stream's
position when it asks for the latest offset, so the first micro-batch after a restart is bounded
only if it repeats one that the previous run had begun. For the same reason, a run with availableNow
and a bound consists of a single micro-batch: set no bound there.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ....clients.topic_partition import TopicPartition
from ....tiering.remote_storage import RemoteStorageError
from ....tiering.tools.opened_tier import opened_tier
from ...reading.scan import ScanTask, plan_ranges
from ...reading.scan_bounds import OffsetRange, check_offset, scan_ranges, scanned_partitions
from ...reading.scan_options import ScanError, ScanOptions, TopicIds
from ...reading.tier_lineages import TierLineages, TierView
from ...reading.topic_ids import recreated_topic
from .scan_partition import TierlogPartition, one_line, read_partition
from .stream_offset import OffsetJson, Offsets, StreamOffset, stream_offset_from_json

if TYPE_CHECKING:
    from ....tiering.store.file_system import TierFileSystem

T = TypeVar("T")


class TierlogStreamReader(DataSourceStreamReader):
    """A stream reader, which lives as long as the query, in a Python process next to the driver."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._tier: _OpenTier | None = None
        self._reached: StreamOffset | None = None
        """The end of the last planned micro-batch, or the initial offset; None until known."""

    def _opened(self) -> "_OpenTier":
        # Opened at first use: Spark copies this object to the executors, which do not need it.
        if self._tier is None:
            self._tier = _OpenTier(self._options)
        return self._tier

    def initialOffset(self) -> OffsetJson:
        with one_line():
            self._reached = self._opened().starting_offset()
            return self._reached.to_json()

    def latestOffset(self) -> OffsetJson:
        with one_line():
            latest = self._opened().latest_offset()
            return self._limit(latest).to_json()

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        with one_line():
            first, last = stream_offset_from_json(start), stream_offset_from_json(end)
            self._reached = last
            return [TierlogPartition(task) for task in self._opened().plan(first, last)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)

    def commit(self, end: OffsetJson) -> None:
        """Do nothing: Spark's checkpoint keeps the offsets."""

    def stop(self) -> None:
        if self._tier is not None:
            self._tier.close()
            self._tier = None

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_tier": None, "_reached": None}

    def _limit(self, offset: StreamOffset) -> StreamOffset:
        """`offset`, limited to `maxOffsetsPerTrigger`; each partition gets a share by its lag.

        Raises ScanError if it is of another topic than what the stream has reached.
        """
        if self._reached is None:
            return offset
        _check_topics(self._reached, offset.topic_ids)
        return StreamOffset(self._shares(offset.offsets, self._reached.offsets), offset.topic_ids)

    def _shares(self, latest: Offsets, reached: Offsets) -> Offsets:
        bound = self._options.max_offsets_per_trigger
        # A stream never goes back, even if the tier does.
        latest = {
            **reached,
            **{partition: max(end, reached.get(partition, 0)) for partition, end in latest.items()},
        }
        if bound is None:
            return latest
        lags = {partition: end - reached.get(partition, 0) for partition, end in latest.items()}
        total = sum(lags.values())
        if total <= bound:
            return latest
        # At least one offset for each partition that lags, so that it advances.
        return {
            partition: latest[partition] - lag + min(lag, max(1, lag * bound // total))
            for partition, lag in lags.items()
        }


def _check_topics(reached: StreamOffset, current: TopicIds) -> None:
    """Raise ScanError if a topic is another one than that of the offset."""
    other = recreated_topic(reached.topic_ids, current)
    if other is not None:
        raise ScanError(
            f"The checkpoint's offsets are of the old topic, but {other}; begin a new stream, with "
            "another checkpoint and another target"
        )


class _OpenTier:
    """An open tier and its latest view, for as long as the query runs."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        location = options.location
        self._tier: TierFileSystem = self._run(
            self._open.enter_async_context(opened_tier(location))
        )
        self._lineages = TierLineages.of(self._tier, options)
        self._view: TierView | None = None

    def _run(self, work: Coroutine[object, object, T]) -> T:
        try:
            return self._runner.run(work)
        except RemoteStorageError as error:
            raise ScanError(str(error)) from None

    def close(self) -> None:
        self._run(self._open.aclose())
        self._runner.close()

    def _look(self) -> TierView:
        self._view = self._run(self._lineages.look())
        return self._view

    def starting_offset(self) -> StreamOffset:
        view = self._look()
        ranges = self._run(scan_ranges(self._tier, view, self._options))
        offsets = {partition: offset_range.first for partition, offset_range in ranges.items()}
        return StreamOffset(offsets, view.topic_ids)

    def latest_offset(self) -> StreamOffset:
        view = self._look()
        offsets = {
            partition: view.lineages[partition].log_end_offset
            for partition in scanned_partitions(view, self._options)
        }
        return StreamOffset(offsets, view.topic_ids)

    def plan(self, start: StreamOffset, end: StreamOffset) -> list[ScanTask]:
        view = self._view or self._look()
        if any(partition not in view.lineages for partition in end.offsets):
            view = self._look()
        # After a restart, Spark asks for the end before it passes the position, so the two
        # may be of different topics.
        for offset in (start, end):
            _check_topics(offset, view.topic_ids)
        return self._run(
            plan_ranges(self._tier, view, self._options, self._ranges(view, start, end))
        )

    def _ranges(
        self, view: TierView, start: StreamOffset, end: StreamOffset
    ) -> Mapping[TopicPartition, OffsetRange]:
        ranges: dict[TopicPartition, OffsetRange] = {}
        for partition, last in end.offsets.items():
            lineage = view.lineages.get(partition)
            if lineage is None:
                raise ScanError(f"Partition {partition} is no longer in the tier")
            lenient = not self._options.fail_on_data_loss
            first = start.offsets.get(partition, lineage.log_start_offset)
            ranges[partition] = OffsetRange(
                check_offset(first, partition, lineage, lenient=lenient),
                check_offset(last, partition, lineage, lenient=lenient),
            )
        return ranges
