"""Reads a tier as a stream: new records in the tier become micro-batches.

A stream offset says how far each partition is read (`stream_offset.py`). A partition that appears
later is read from its start. A topic that was deleted and created again is another topic, and ends
the stream: its offsets do not continue those of the checkpoint.

A micro-batch reads everything available, up to `maxOffsetsPerTrigger`. In any case its tasks are as
small as those of a batch read, and only tasks hold data. Spark 4.1 does not pass the stream's
position when it asks for the latest offset; this is how the reader knows it:

- A query that is started again: before anything else, Spark asks for the partitions between the
  last offset of the checkpoint and itself, which sets the position.
- A new query: Spark asks for the latest offset first, and for the initial one after it, so the
  reader finds the initial offset itself and remembers it.
- With Spark's internal setting `triggerAvailableNowWrapper.enabled`, a query that is started again
  looks like a new one at first. If its answer turns out to be behind the checkpoint, the query ends
  before Spark has written anything.

With the trigger availableNow, Spark has one micro-batch from a Python source (`run_available.py`).
"""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple, Self, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ....clients.topic_partition import TopicPartition
from ....tiering.remote_storage import RemoteStorageError
from ....tiering.tools.in_parallel import in_parallel
from ....tiering.tools.lineage_choice import TierLineage
from ....tiering.tools.opened_tier import opened_tier
from ....tiering.tools.tier_survey import WORKERS
from ...reading.manifest_cache import CachingTier
from ...reading.scan_bounds import OffsetRange, check_offset, scan_ranges, scanned_partitions
from ...reading.scan_options import ScanError, ScanOptions, TopicIds
from ...reading.scan_task import ScanTask
from ...reading.stable_end import readable_end
from ...reading.task_planner import plan_ranges
from ...reading.tier_lineages import TierLineages, TierView
from ...reading.tier_topics import TierTopics
from ...reading.topic_ids import recreated_topic
from .scan_partition import TierlogPartition, one_line, read_partition
from .stream_limits import TriggerPace, lag_of
from .stream_offset import OffsetJson, Offsets, StreamOffset, stream_offset_from_json

T = TypeVar("T")


class TierlogStreamReader(DataSourceStreamReader):
    """A stream reader, which lives as long as the query, in a Python process next to the driver."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._tier: OpenTier | None = None
        self._initial: StreamOffset | None = None
        """Where a new query begins; None until asked for."""
        self._reached: StreamOffset | None = None
        """The end of the last planned micro-batch, or the initial offset; None until known."""
        self._unplaced: StreamOffset | None = None
        """The answer that was given before Spark has passed a position, until it does."""
        self._pace = TriggerPace(options.min_offsets_per_trigger, options.max_trigger_delay_ms)

    def _opened(self) -> "OpenTier":
        # Opened at first use: Spark copies this object to the executors, which do not need it.
        if self._tier is None:
            self._tier = OpenTier(self._options)
        return self._tier

    def initialOffset(self) -> OffsetJson:
        with one_line():
            return self._initial_offset().to_json()

    def _initial_offset(self) -> StreamOffset:
        if self._initial is None:
            self._initial = self._opened().starting_offset()
            self._reached = self._reached or self._initial
        return self._initial

    def latestOffset(self) -> OffsetJson:
        with one_line():
            is_limited = (
                self._options.max_offsets_per_trigger is not None
                or self._options.min_offsets_per_trigger is not None
            )
            is_unplaced = self._reached is None and is_limited
            if is_unplaced:
                self._initial_offset()
            opened = self._opened()
            answer = self._limit(opened.ends(), opened.now_ms())
            if is_unplaced:
                self._unplaced = answer
            return answer.to_json()

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        with one_line():
            first, last = stream_offset_from_json(start), stream_offset_from_json(end)
            self._check_place(first)
            self._reached = last
            return [TierlogPartition(task) for task in self._opened().plan(first, last)]

    def _check_place(self, start: StreamOffset) -> None:
        """Raise ScanError if the stream was further than the first answer has assumed."""
        unplaced, self._unplaced = self._unplaced, None
        if unplaced is not None and any(
            unplaced.offsets.get(partition, offset) < offset
            for partition, offset in start.offsets.items()
        ):
            raise ScanError(
                "Spark asked for the end of a micro-batch before it passed the position of the "
                "checkpoint, so it cannot be limited: leave "
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled at false, or leave out "
                "maxOffsetsPerTrigger and minOffsetsPerTrigger"
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)

    def commit(self, end: OffsetJson) -> None:
        """Do nothing: Spark's checkpoint keeps the offsets."""

    def stop(self) -> None:
        if self._tier is not None:
            self._tier.close()
            self._tier = None

    def __reduce__(self) -> tuple[type[Self], tuple[ScanOptions]]:
        # What an executor gets: how to read, and not how far.
        return type(self), (self._options,)

    def _limit(self, tier: "TierEnds", now_ms: float) -> StreamOffset:
        """Where the next micro-batch ends.

        Raises ScanError if the tier has another topic than what the stream has reached.
        """
        reached = self._reached
        if reached is None:
            return StreamOffset(tier.ends, tier.topic_ids)
        _check_topics(reached, tier.topic_ids)
        lag = lag_of(reached.offsets, tier.begins, tier.ends)
        if self._pace.waits(lag.records, now_ms):
            # Spark compares the text of offsets, so this is the very offset of before.
            return reached
        topic_ids = {**reached.topic_ids, **tier.topic_ids}
        return StreamOffset(lag.bounded(self._options.max_offsets_per_trigger), topic_ids)


class TierEnds(NamedTuple):
    """Where the partitions of a tier begin and end, and the topics that they are of."""

    begins: Offsets
    ends: Offsets
    topic_ids: TopicIds


def _check_topics(reached: StreamOffset, current: TopicIds) -> None:
    """Raise ScanError if a topic is another one than that of the offset."""
    other = recreated_topic(reached.topic_ids, current)
    if other is not None:
        raise ScanError(
            f"The checkpoint's offsets are of the old topic, but {other}; begin a new stream, with "
            "another checkpoint and another target"
        )


class OpenTier:
    """An open tier and its latest view, for as long as the query runs."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        location = options.location
        self._tier = CachingTier(
            self._runner.run(self._open.enter_async_context(opened_tier(location))), location
        )
        self._topics = TierTopics(options)
        self._lineages = TierLineages.of(self._tier, options)
        self._view: TierView | None = None

    def _run(self, work: Coroutine[object, object, T]) -> T:
        try:
            return self._runner.run(work)
        except ScanError:
            self._tier.forget()
            raise
        except RemoteStorageError as error:
            raise ScanError(str(error)) from None

    def now_ms(self) -> float:
        """The time of a monotonic clock."""
        return self._runner.get_loop().time() * 1000

    def close(self) -> None:
        self._run(self._open.aclose())
        self._runner.close()

    def _look(self) -> TierView:
        self._view = self._run(self._current_view())
        return self._view

    async def _current_view(self) -> TierView:
        # With a pattern, there may be other topics than at the last look.
        self._options = await self._topics.resolved(self._tier)
        self._lineages.follow(self._options.topics)
        return await self._lineages.look()

    def starting_offset(self) -> StreamOffset:
        view = self._look()
        ranges = self._run(scan_ranges(self._tier, view, self._options))
        offsets = {partition: offset_range.first for partition, offset_range in ranges.items()}
        return StreamOffset(offsets, view.topic_ids)

    def ends(self) -> TierEnds:
        view = self._look()
        lineages = {
            partition: view.lineages[partition]
            for partition in scanned_partitions(view, self._options)
        }
        begins = {partition: each.log_start_offset for partition, each in lineages.items()}
        return TierEnds(begins, self._run(self._readable_ends(view, lineages)), view.topic_ids)

    async def _readable_ends(
        self, view: TierView, lineages: Mapping[TopicPartition, TierLineage]
    ) -> Offsets:
        ends: dict[TopicPartition, int] = {}

        async def look(partition: TopicPartition) -> None:
            lineage = lineages[partition]
            ends[partition] = await readable_end(self._tier, view, lineage, self._options)

        await in_parallel(lineages, look, WORKERS)
        return ends

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
            lenient = not self._options.fail_on_data_loss
            if lineage is None:
                if lenient:
                    continue
                raise ScanError(
                    f"Partition {partition} is no longer in the tier (failOnDataLoss=false reads "
                    "what is there)"
                )
            first = start.offsets.get(partition, lineage.log_start_offset)
            ranges[partition] = OffsetRange(
                check_offset(first, partition, lineage, lenient=lenient),
                check_offset(last, partition, lineage, lenient=lenient),
            )
        return ranges
