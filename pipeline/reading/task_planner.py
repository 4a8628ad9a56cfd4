"""Plans the scan of a tier as tasks of about `max_partition_bytes`, by its offset indexes.

Neighbouring segments of a partition are one task, or a part of a large segment is. Where two tasks
share a segment, both read the batches between two index entries, but each offset is returned only
once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Self

import numpy as np

from ...clients.topic_partition import TopicPartition
from ...storage.segment.transaction_index import AbortedTxn
from ...tiering.store.object_keys import LOG_SUFFIX, object_key
from ...tiering.tools.in_parallel import in_parallel
from ...tiering.tools.lineage_choice import Stretch, TierLineage
from ...tiering.tools.tier_survey import WORKERS, TierReader
from .aborted import aborted_in, check_decided
from .arrow_columns import Ints
from .range_division import divided
from .scan_bounds import OffsetRange, offset_entries
from .scan_options import ScanError, ScanOptions
from .scan_task import ScanRange, ScanTask
from .tier_lineages import TierView


async def plan_ranges(
    tier: TierReader,
    view: TierView,
    options: ScanOptions,
    ranges: Mapping[TopicPartition, OffsetRange],
) -> list[ScanTask]:
    """The tasks that read these offsets. Raises ScanError, RemoteStorageError."""
    tasks: dict[TopicPartition, list[ScanTask]] = {}
    parts = divided(ranges, options.min_partitions, options.max_records_per_partition)

    async def plan(partition: TopicPartition) -> None:
        planner = _Planner(tier, view, options, partition)
        tasks[partition] = await planner.tasks(parts[partition])

    await in_parallel(
        [partition for partition in parts if partition in view.lineages], plan, WORKERS
    )
    return [task for partition in sorted(tasks) for task in tasks[partition]]


class _Planner:
    """Splits one partition's scan into tasks."""

    def __init__(
        self, tier: TierReader, view: TierView, options: ScanOptions, partition: TopicPartition
    ) -> None:
        self._tier = tier
        self._view = view
        self._options = options
        self._partition = partition
        self._lineage = view.lineages[partition]
        self._index: tuple[str, _OffsetIndex] = ("", _OffsetIndex.of([]))
        """The last segment that was cut, and its offset index: parts in order often share it."""

    async def tasks(self, parts: Sequence[OffsetRange]) -> list[ScanTask]:
        """The tasks of these offsets, which are in order and not empty."""
        whole = OffsetRange(parts[0].first, parts[-1].end)
        if self._options.fail_on_data_loss:
            _check_holes(self._lineage, self._partition, whole)
        aborted: list[AbortedTxn] = []
        if self._options.is_read_committed:
            aborted = await aborted_in(self._tier, self._view, self._lineage, *whole)
            if self._options.fail_on_data_loss:
                await check_decided(self._tier, self._view, self._lineage, whole.end, aborted)
            aborted.sort(key=lambda each: each.last_offset)
        return [task for part in parts for task in await self._tasks_of(part, aborted)]

    async def _tasks_of(
        self, offset_range: OffsetRange, aborted: list[AbortedTxn]
    ) -> list[ScanTask]:
        tasks: list[ScanTask] = []
        group: list[ScanRange] = []
        nbytes = 0
        row_filter = self._options.row_filter
        stretches = self._lineage.stretches
        slot = bisect_right(stretches, offset_range.first, key=lambda each: each.end_offset)
        for stretch in islice(stretches, slot, None):
            if stretch.first_offset >= offset_range.end:
                break
            first = max(stretch.first_offset, offset_range.first)
            end = min(stretch.end_offset, offset_range.end)
            if first >= end or row_filter.is_too_old(stretch.segment.max_timestamp_ms):
                continue
            for scan_range in await self._split_ranges(stretch, first, end):
                if group and nbytes + scan_range.nbytes > self._largest:
                    tasks.append(self._task(group, aborted))
                    group, nbytes = [], 0
                group.append(scan_range)
                nbytes += scan_range.nbytes
        if group:
            tasks.append(self._task(group, aborted))
        return tasks

    @property
    def _largest(self) -> int:
        # A task may exceed the limit by a quarter, so that no small remainder needs its own task.
        return self._options.max_partition_bytes * 5 // 4

    def _task(self, group: list[ScanRange], aborted: list[AbortedTxn]) -> ScanTask:
        first, end = group[0].first_offset, group[-1].end_offset
        own: list[AbortedTxn] = []
        slot = bisect_left(aborted, first, key=lambda each: each.last_offset)
        for transaction in islice(aborted, slot, None):
            if transaction.first_offset < end:
                own.append(transaction)
            if transaction.last_stable_offset >= end:
                # Those that end later began there or after it.
                break
        return ScanTask(*self._partition, tuple(group), tuple(own))

    async def _split_ranges(self, stretch: Stretch, first: int, end: int) -> list[ScanRange]:
        """The offsets from `first` to `end` of a segment, in ranges of about a task at most."""
        segment = stretch.segment
        key, size = object_key(segment, LOG_SUFFIX), segment.segment_size_bytes
        is_to_end = end == segment.end_offset + 1
        whole = ScanRange(key, 0, size, first, end, is_to_end)
        if is_to_end and first == segment.start_offset and size <= self._largest:
            return [whole]
        if self._index[0] != key:
            manifest = self._view.manifest_of(segment)
            index = _OffsetIndex.of(await offset_entries(self._tier, manifest))
            self._index = key, index
        _, index = self._index
        if len(index.offsets):
            check_end(int(index.offsets[-1]), whole, self._options)
        return list(_cut_by_index(whole, index, self._options))


def _check_holes(
    lineage: TierLineage, partition: TopicPartition, offset_range: OffsetRange
) -> None:
    for hole in lineage.holes:
        if hole.first < offset_range.end and hole.last >= offset_range.first:
            raise ScanError(
                f"The tier has lost records of {partition}: no segment holds the offsets {hole} "
                "(failOnDataLoss=false reads what is there)"
            )


def check_end(last_offset: int, scan_range: ScanRange, options: ScanOptions) -> None:
    """Raise ScanError if the log has records beyond the manifest's last offset.

    A manifest has no checksum, and of the newest segment nothing else names the last offset.
    """
    if scan_range.is_to_end and last_offset >= scan_range.end_offset and options.fail_on_data_loss:
        raise ScanError(
            f"{scan_range.key} holds records beyond offset {scan_range.end_offset - 1}, where its "
            "manifest ends (failOnDataLoss=false reads what is there)"
        )


class _OffsetIndex(NamedTuple):
    """The offset index of a segment: the last offset of a batch, and the batch's position."""

    offsets: Ints
    positions: Ints

    @classmethod
    def of(cls, entries: Sequence[tuple[int, int]]) -> Self:
        """Made once a segment: many small tasks may be cut from it."""
        columns = np.array(entries, np.int64).reshape(-1, 2)
        return cls(columns[:, 0].copy(), columns[:, 1].copy())


def _cut_by_index(
    whole: ScanRange, index: _OffsetIndex, options: ScanOptions
) -> Iterator[ScanRange]:
    """Split a range at entries of the offset index.

    An entry is the last offset of a batch, and the batch's position. A range whose last offset is
    an entry's extends to the position of the next entry, since the index does not hold where the
    batch ends. The following range starts at the position of that batch.
    """
    offsets, positions = index

    def position_at(slot: int) -> int:
        return int(positions[slot]) if slot < len(positions) else whole.end_position

    before = int(np.searchsorted(offsets, whole.first_offset, "right")) - 1
    begin = position_at(before) if before >= 0 else 0
    last = int(np.searchsorted(offsets, whole.end_offset - 1, "left"))
    stop = position_at(last + 1)
    count = max(1, round((stop - begin) / options.max_partition_bytes))
    first, origin = whole.first_offset, begin
    for number in range(1, count):
        slot = int(np.searchsorted(positions, origin + (stop - origin) * number / count))
        if slot >= len(positions) or not first <= offsets[slot] < whole.end_offset - 1:
            continue
        end = int(offsets[slot]) + 1
        yield whole._replace(
            position=begin,
            end_position=position_at(slot + 1),
            first_offset=first,
            end_offset=end,
            is_to_end=False,
        )
        first, begin = end, position_at(slot)
    yield whole._replace(position=begin, end_position=stop, first_offset=first)
