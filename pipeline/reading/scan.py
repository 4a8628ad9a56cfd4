"""Scans topics straight from the tier: plans the scan as tasks, and reads one task.

    options = scan_options({"path": "s3://bucket/tier", "topic": "orders"})
    for task in plan_scan(options):
        for batch in read_task(options, task):
            ...  # a pyarrow.RecordBatch with the schema of Spark's Kafka source

This module does not depend on Spark and contacts no broker: manifests show which segments make up
the topic's log, and offset indexes where in a segment to start (`task_planner.py`).

In memory, a task holds one piece of a segment and the next one being fetched. It yields Arrow
batches of a few megabytes; only one built from a single larger record batch may exceed that.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import TypeVar

import pyarrow as pa

from ...clients.record.batch import RecordBatch
from ...tiering.blocking_pool import ThreadedPool
from ...tiering.remote_storage import Failure, RemoteStorageError
from ...tiering.tools.opened_tier import opened_tier
from ...tiering.tools.tier_survey import TierReader
from .aborted import AbortedRecords
from .manifest_cache import CachingTier, TierLister
from .record_columns import Payload, RecordColumns, plain_records
from .scan_bounds import narrow, scan_ranges
from .scan_options import ScanError, ScanOptions
from .scan_size import CountedTier, log, size_of_tasks
from .scan_task import ScanRange, ScanTask
from .scan_view import view_for
from .segment_stream import SegmentStream, check, naming_the_batch
from .task_planner import check_end, plan_ranges
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
                check_end(batch.last_offset, scan_range, self._options)
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
