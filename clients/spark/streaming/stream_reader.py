"""Reads a tier as a stream: new records in the tier become micro-batches.

A stream offset is {"topic": {"0": 23}}: the next offset of each partition, as in the checkpoints of
Spark's Kafka source. A partition that appears later is read from its start.

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

from ....tiering.remote_storage import RemoteStorageError
from ....tiering.tools.opened_tier import opened_tier
from ...topic_partition import TopicPartition
from ..reading.scan_bounds import OffsetRange, checked, scan_ranges, scanned_partitions
from ..reading.tier_lineages import TierLineages, TierView
from ..scan import ScanTask, plan_ranges
from ..scan_options import ScanError, ScanOptions, offsets_from_json, offsets_to_json
from .scan_partition import TierlogPartition, one_line, read_partition

if TYPE_CHECKING:
    from ....tiering.store.file_system import TierFileSystem

T = TypeVar("T")

Offsets = Mapping[TopicPartition, int]


class TierlogStreamReader(DataSourceStreamReader):
    """A stream reader, which lives as long as the query, in a Python process next to the driver."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._tier: _OpenTier | None = None
        self._reached: Offsets | None = None
        """The end of the last planned micro-batch, or the initial offsets; None until known."""

    def _opened(self) -> "_OpenTier":
        # Opened at first use: Spark copies this object to the executors, which do not need it.
        if self._tier is None:
            self._tier = _OpenTier(self._options)
        return self._tier

    def initialOffset(self) -> dict[str, dict[str, int]]:
        with one_line():
            self._reached = self._opened().starting_offsets()
            return offsets_to_json(self._reached)

    def latestOffset(self) -> dict[str, dict[str, int]]:
        with one_line():
            latest = self._opened().latest_offsets()
            return offsets_to_json(self._bounded(latest))

    def partitions(
        self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
    ) -> Sequence[InputPartition]:
        with one_line():
            first, last = _offsets(start), _offsets(end)
            self._reached = last
            return [TierlogPartition(task) for task in self._opened().plan(first, last)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)

    def commit(self, end: dict[str, dict[str, int]]) -> None:
        """Do nothing: Spark's checkpoint keeps the offsets."""

    def stop(self) -> None:
        if self._tier is not None:
            self._tier.close()
            self._tier = None

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_tier": None, "_reached": None}

    def _bounded(self, latest: Offsets) -> Offsets:
        """`latest`, limited to `maxOffsetsPerTrigger`; each partition gets a share by its lag."""
        bound, reached = self._options.max_offsets_per_trigger, self._reached
        if reached is None:
            return latest
        # A stream never goes back, even if the tier does.
        latest = {
            **reached,
            **{each: max(end, reached.get(each, 0)) for each, end in latest.items()},
        }
        if bound is None:
            return latest
        lags = {each: end - reached.get(each, 0) for each, end in latest.items()}
        total = sum(lags.values())
        if total <= bound:
            return latest
        # At least one offset for each partition that lags, so that it advances.
        return {
            each: latest[each] - lag + min(lag, max(1, lag * bound // total))
            for each, lag in lags.items()
        }


def _offsets(content: object) -> Offsets:
    try:
        return offsets_from_json(content)
    except (ValueError, TypeError, AttributeError):
        raise ScanError(f"The checkpoint holds {content!r}, which is not tier offsets") from None


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
        self._lineages = TierLineages(self._tier, str(location), options.topics, options.partitions)
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

    def _ranges(self) -> Mapping[TopicPartition, OffsetRange]:
        return self._run(scan_ranges(self._tier, self._look(), self._options))

    def starting_offsets(self) -> Offsets:
        return {partition: each.first for partition, each in self._ranges().items()}

    def latest_offsets(self) -> Offsets:
        view = self._look()
        return {
            each: view.lineages[each].log_end_offset
            for each in scanned_partitions(view, self._options)
        }

    def plan(self, first: Offsets, last: Offsets) -> list[ScanTask]:
        view = self._view or self._look()
        if any(each not in view.lineages for each in last):
            view = self._look()
        ranges: dict[TopicPartition, OffsetRange] = {}
        for partition, end in last.items():
            lineage = view.lineages.get(partition)
            if lineage is None:
                raise ScanError(f"Partition {partition} is no longer in the tier")
            lenient = not self._options.fail_on_data_loss
            begin = first.get(partition, lineage.log_start_offset)
            ranges[partition] = OffsetRange(
                checked(begin, partition, lineage, lenient=lenient),
                checked(end, partition, lineage, lenient=lenient),
            )
        return self._run(plan_ranges(self._tier, view, self._options, ranges))
