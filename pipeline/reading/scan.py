"""Scans topics straight from the tier: plans the scan as tasks, and reads one task.

    options = scan_options({"path": "s3://bucket/tier", "topic": "orders"})
    for task in plan_scan(options):
        for batch in read_task(options, task):
            ...  # a pyarrow.RecordBatch with the schema of Spark's Kafka source

This module does not depend on Spark and contacts no broker: manifests show which segments make up
the topic's log, and offset indexes where in a segment to start. A task reads about
`max_partition_bytes` of one partition: neighbouring segments, or a part of a large one. Where two
tasks share a segment, both read the batches between two index entries, but each offset is returned
only once.

In memory, a task holds one piece of a segment and the next one being fetched. It yields Arrow
batches of a few megabytes; only one built from a single larger record batch may exceed that.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from typing import NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa

from ...clients.record.batch import RecordBatch
from ...clients.topic_partition import TopicPartition
from ...storage.segment.transaction_index import AbortedTxn
from ...tiering.blocking_pool import ThreadedPool
from ...tiering.remote_storage import Failure, RemoteStorageError
from ...tiering.store.object_keys import LOG_SUFFIX, object_key
from ...tiering.tools.in_parallel import in_parallel
from ...tiering.tools.lineage_choice import Stretch, TierLineage
from ...tiering.tools.opened_tier import opened_tier
from ...tiering.tools.tier_survey import WORKERS, TierReader
from .aborted import AbortedRecords, aborted_in, check_decided
from .arrow_columns import Ints
from .manifest_cache import CachingTier, TierLister
from .range_division import divided
from .record_columns import Payload, RecordColumns, plain_records
from .scan_bounds import OffsetRange, narrow, offset_entries, scan_ranges
from .scan_options import ScanError, ScanOptions
from .scan_size import CountedTier, log, size_of_tasks
from .scan_task import ScanRange, ScanTask
from .scan_view import view_for
from .segment_stream import SegmentStream, check, naming_the_batch
from .tier_lineages import TierView
from .tier_topics import TierTopics

T = TypeVar("T")

CHUNK_BYTES = 2 * 1024 * 1024
"""About how many bytes of decompressed records make one Arrow batch."""

_PAUSES_S = (1.0, 2.0, 4.0)
"""The pauses between attempts to read from a store that is unreachable or throttling."""


async def _plainly(work: Coroutine[object, object, T]) -> T:
    """Await `work`; raises a tier's error as a ScanError with the same message."""
    try:
        return await work
    except RemoteStorageError as error:
        raise ScanError(str(error)) from None


def _run(runner: asyncio.Runner, work: Coroutine[object, object, T]) -> T:
    """Run the coroutine to completion in the runner's loop.

    `Runner.run` looks up the signal handler after each call, and Python 3.11 then formats the
    finished task with its result into an unused string. If the result is a piece of a segment,
    that costs more than decoding it.
    """
    return runner.get_loop().run_until_complete(work)


def plan_scan(options: ScanOptions) -> list[ScanTask]:
    """The tasks of a scan, by partition and offset. Raises ScanError."""
    return asyncio.run(_plainly(_plan(options)))


async def _plan(options: ScanOptions) -> list[ScanTask]:
    async with opened_tier(options.location) as opened:
        counted = CountedTier(opened)
        tier = CachingTier(counted, options.location)
        try:
            options = await TierTopics(options).resolved(tier)
            tasks = await plan_on(tier, options)
        except ScanError:
            tier.forget()
            raise
    log.info("planned %s: %s; read %s", ", ".join(options.topics), size_of_tasks(tasks), counted)
    return tasks


async def plan_on(tier: TierLister, options: ScanOptions) -> list[ScanTask]:
    """The tasks of a scan of an open tier. Raises ScanError, RemoteStorageError."""
    view = await view_for(tier, options)
    ranges = narrow(await scan_ranges(tier, view, options), options.row_filter)
    return await plan_ranges(tier, view, options, ranges)


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
            _check_end(int(index.offsets[-1]), whole, self._options)
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


def _check_end(last_offset: int, scan_range: ScanRange, options: ScanOptions) -> None:
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


def read_task(options: ScanOptions, task: ScanTask) -> Iterator[pa.RecordBatch]:
    """The records of a task, in offset order. Raises ScanError, possibly after some batches."""
    with asyncio.Runner() as runner:
        opened = AsyncExitStack()
        tier = CountedTier(runner.run(opened.enter_async_context(opened_tier(options.location))))
        reader = _TaskReader(tier, options, task)
        began_s = runner.get_loop().time()
        rows = 0
        try:
            for scan_range in task.ranges:
                for batch in reader.read(runner, scan_range):
                    rows += batch.num_rows
                    yield batch
            took_s = runner.get_loop().time() - began_s
            log.info(
                "read %s-%d, offsets %d to %d: %s rows, %s in %.2f s",
                *(task.topic, task.partition, task.first_offset, task.end_offset - 1),
                *(f"{rows:,}", tier, took_s),
            )
        finally:
            reader.close()
            runner.run(opened.aclose())


class _TaskReader:
    """Decodes the ranges of a task."""

    def __init__(self, tier: TierReader, options: ScanOptions, task: ScanTask) -> None:
        self._tier = tier
        self._options = options
        self._columns = RecordColumns(task.topic, task.partition, options.columns)
        self._aborted = AbortedRecords(task.aborted)
        self._expected = 0
        """The next expected offset."""
        self._pool = ThreadedPool(1, "spark-decode")

    def close(self) -> None:
        self._pool.stop()

    def read(self, runner: asyncio.Runner, scan_range: ScanRange) -> Iterator[pa.RecordBatch]:
        stream = SegmentStream(scan_range.key, scan_range.position, scan_range.end_position)
        self._expected = scan_range.first_offset
        piece = _run(runner, self._fetch(stream))
        while piece is not None:
            chunks = self._chunks(stream.batches(piece), scan_range)
            piece, decoded = _run(runner, self._both(stream, chunks))
            if decoded is not None:
                yield decoded
            yield from chunks
        stream.finish()
        self._check_gap(scan_range.end_offset, scan_range)

    async def _both(
        self, stream: SegmentStream, chunks: Iterator[pa.RecordBatch]
    ) -> tuple[bytes | None, pa.RecordBatch | None]:
        """Fetch the segment's next piece while decoding the first chunk of this one."""
        try:
            async with asyncio.TaskGroup() as group:
                fetched = group.create_task(self._fetch(stream))
                decoded = await self._pool.run(lambda: next(chunks, None))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return fetched.result(), decoded

    async def _fetch(self, stream: SegmentStream) -> bytes | None:
        for pause_s in (*_PAUSES_S, None):
            try:
                return await stream.read(self._tier)
            except RemoteStorageError as error:
                if error.failure is Failure.NOT_FOUND:
                    self._on_missing(stream)
                    return None
                if pause_s is None or not error.is_retriable:
                    raise ScanError(str(error)) from None
            await asyncio.sleep(pause_s)
        raise AssertionError("The last attempt ends in an answer or an error.")

    def _on_missing(self, stream: SegmentStream) -> None:
        """Handle a segment that was deleted since the scan was planned."""
        if self._options.fail_on_data_loss:
            raise ScanError(
                f"{stream.key} is gone from the tier at {self._options.location} since the scan "
                "was planned (failOnDataLoss=false reads what is there)"
            )
        stream.abandon()

    def _chunks(
        self, batches: list[RecordBatch], scan_range: ScanRange
    ) -> Iterator[pa.RecordBatch]:
        """Arrow batches of the records to return from these batches."""
        group: list[RecordBatch] = []
        payloads: list[Payload] = []
        nbytes = 0
        for batch in self._in_order(batches, scan_range):
            if batch.is_control or batch in self._aborted:
                continue
            if self._options.row_filter.is_too_old(batch.max_timestamp):
                continue
            with naming_the_batch(batch, scan_range.key):
                payloads.append(plain_records(batch))
            group.append(batch)
            nbytes += len(payloads[-1])
            if nbytes >= CHUNK_BYTES:
                yield self._decode(group, payloads, scan_range)
                group, payloads, nbytes = [], [], 0
        if group:
            yield self._decode(group, payloads, scan_range)

    def _in_order(self, batches: list[RecordBatch], scan_range: ScanRange) -> Iterator[RecordBatch]:
        """The batches in the scan range; each must continue from the one before.

        This detects a damaged base offset, which the CRC does not cover.
        """
        for batch in batches:
            if scan_range.is_to_end and batch.last_offset >= scan_range.end_offset:
                check(batch, scan_range.key)
                _check_end(batch.last_offset, scan_range, self._options)
            if (
                batch.base_offset >= scan_range.end_offset
                or batch.last_offset < scan_range.first_offset
            ):
                continue
            check(batch, scan_range.key)
            is_first = self._expected == scan_range.first_offset
            if batch.base_offset < self._expected and not is_first:
                raise ScanError(
                    f"{scan_range.key}: the batch at offset {batch.base_offset} is out of "
                    f"order: offset {self._expected} was expected"
                )
            self._check_gap(batch.base_offset, scan_range)
            self._expected = batch.next_offset
            yield batch

    def _check_gap(self, offset: int, scan_range: ScanRange) -> None:
        options = self._options
        if offset > self._expected and options.fail_on_data_loss and not options.may_be_compacted:
            raise ScanError(
                f"{scan_range.key} holds no record at the offsets {self._expected} to {offset - 1} "
                "(a topic that was compacted once may have such gaps: failOnDataLoss=false reads "
                "what is there)"
            )

    def _decode(
        self,
        group: list[RecordBatch],
        payloads: list[Payload],
        scan_range: ScanRange,
    ) -> pa.RecordBatch:
        begins_before = group[0].base_offset < scan_range.first_offset
        is_cut = begins_before or group[-1].last_offset >= scan_range.end_offset
        bounds = (scan_range.first_offset, scan_range.end_offset) if is_cut else None
        with naming_the_batch(group[0], scan_range.key):
            return self._columns.decode_payloads(group, payloads, bounds)
