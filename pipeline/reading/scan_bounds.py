"""Resolves the first and end offset of a scan in each partition.

The options give offsets or times, and the lineage shows which offsets exist. A time means the first
record at or after it, as in ListOffsets: segments whose manifest has a lower max timestamp
are skipped, the time index shows where in a segment to start, and a few batches are read.

The scan fails if the tier does not hold some of its offsets, unless `failOnDataLoss` is false: then
it reads those that exist.
"""

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

from ...clients.record.layout import BATCH_OVERHEAD
from ...clients.topic_partition import TopicPartition
from ...tiering.remote_storage import IndexType
from ...tiering.store.manifest import Manifest
from ...tiering.store.object_keys import LOG_SUFFIX, object_key
from ...tiering.tools.in_parallel import in_parallel
from ...tiering.tools.lineage_choice import Stretch, TierLineage
from ...tiering.tools.tier_survey import WORKERS, DamagedPartError, TierReader, read_part
from .row_filter import RowFilter
from .scan_options import EARLIEST, LATEST, Bound, ScanError, ScanOptions
from .segment_stream import naming_the_batch, stored_batches
from .stable_end import readable_end
from .tier_lineages import TierView

_PIECE_BYTES = 1024 * 1024
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class OffsetRange(NamedTuple):
    """Offsets of one partition; the end is exclusive."""

    first: int
    end: int


def scanned_partitions(view: TierView, options: ScanOptions) -> list[TopicPartition]:
    """The partitions to scan that have a segment. Raises ScanError for a nonexistent one."""
    for topic in options.topics:
        count = view.partition_counts[topic]
        assigned = {each.partition for each in options.assigned if each.topic == topic}
        for partition in sorted(assigned or options.partitions):
            if partition >= count:
                raise ScanError(
                    f"Topic {topic!r} has no partition {partition} in the tier at "
                    f"{options.location}, only 0 to {count - 1}"
                )
    return sorted(filter(options.chooses, view.lineages))


async def scan_ranges(
    tier: TierReader, view: TierView, options: ScanOptions
) -> dict[TopicPartition, OffsetRange]:
    """The offsets to scan. Raises ScanError, RemoteStorageError."""
    bounded: dict[TopicPartition, OffsetRange] = {}
    partitions = scanned_partitions(view, options)
    for name, bound in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        _check_names(name, bound, partitions, view)

    async def find_range(partition: TopicPartition) -> None:
        last = await readable_end(tier, view, view.lineages[partition], options)
        search = _TimeSearch(tier, view, view.lineages[partition], last)
        first = await search.offset(partition, options.starting, options, is_start=True)
        if _is_empty(partition, options):
            # Nothing is read, so it does not matter which transactions are open there.
            bounded[partition] = OffsetRange(first, first)
            return
        end = await search.offset(partition, options.ending, options, is_start=False)
        bounded[partition] = OffsetRange(first, max(first, end))

    await in_parallel(partitions, find_range, WORKERS)
    return {partition: bounded[partition] for partition in partitions}


def _is_empty(partition: TopicPartition, options: ScanOptions) -> bool:
    """Whether the options state the same offset as the start and the end."""
    bounds = options.starting, options.ending
    first, end = (bound.each.get(partition) for bound in bounds)
    return first is not None and first == end and not any(bound.by_time for bound in bounds)


def narrow(
    ranges: Mapping[TopicPartition, OffsetRange], row_filter: RowFilter
) -> dict[TopicPartition, OffsetRange]:
    """The ranges that may hold matching rows, without partitions that have none."""
    bounded: dict[TopicPartition, OffsetRange] = {}
    for partition, offset_range in ranges.items():
        if row_filter.topics is not None and partition.topic not in row_filter.topics:
            continue
        if row_filter.partitions is not None and partition.partition not in row_filter.partitions:
            continue
        first, end = (
            max(offset_range.first, row_filter.first_offset),
            min(offset_range.end, row_filter.end_offset),
        )
        if first < end:
            bounded[partition] = OffsetRange(first, end)
    return bounded


def _check_names(name: str, bound: Bound, partitions: list[TopicPartition], view: TierView) -> None:
    """Raise ScanError unless every scanned partition is named, and no nonexistent one."""
    if bound.everywhere is not None:
        return
    for partition in partitions:
        if partition not in bound.each:
            raise ScanError(f"{name} must name every partition: {partition} is missing")
    for topic, number in bound.each:
        if not 0 <= number < view.partition_counts.get(topic, 0):
            raise ScanError(f"{name} names {topic}-{number}, which is not scanned")


def check_offset(
    offset: int, partition: TopicPartition, lineage: TierLineage, *, lenient: bool
) -> int:
    """The offset if the tier holds it. Otherwise the nearest one if lenient, else a ScanError."""
    begin, end = lineage.log_start_offset, lineage.log_end_offset
    if begin <= offset <= end or lenient:
        return min(max(offset, begin), end)
    raise ScanError(
        f"Offset {offset} of {partition} is not in the tier, which holds {begin} to {end - 1} "
        "(failOnDataLoss=false reads what is there)"
    )


class _TimeSearch:
    """Finds the start or end offset of one partition's scan; a bound by time needs a search."""

    def __init__(
        self, tier: TierReader, view: TierView, lineage: TierLineage, readable_end: int
    ) -> None:
        """`readable_end` is one past the last offset that may be read."""
        self._tier = tier
        self._view = view
        self._lineage = lineage
        self._readable_end = readable_end

    async def offset(
        self, partition: TopicPartition, bound: Bound, options: ScanOptions, *, is_start: bool
    ) -> int:
        lineage = self._lineage
        place = bound.everywhere
        if place is None:
            place = bound.each[partition]
        if not bound.by_time:
            if place in (EARLIEST, LATEST):
                return lineage.log_start_offset if place == EARLIEST else self._readable_end
            lenient = not options.fail_on_data_loss
            stated = check_offset(place, partition, lineage, lenient=lenient)
            return stated if is_start else self._decided(stated, partition, lenient=lenient)
        offset = await self._first_at(place)
        if offset is None and is_start and not options.later_start_is_latest:
            raise ScanError(
                f"No record of {partition} in the tier has the timestamp {place} ms or a later "
                "one (startingOffsetsByTimestampStrategy=latest begins at the end then)"
            )
        return self._readable_end if offset is None else min(offset, self._readable_end)

    def _decided(self, end: int, partition: TopicPartition, *, lenient: bool) -> int:
        """The end if all transactions before it are decided. Otherwise as in `check_offset`."""
        if end <= self._readable_end or lenient:
            return min(end, self._readable_end)
        raise ScanError(
            f"Offset {end} of {partition} is beyond {self._readable_end}, where a transaction "
            "begins whose end is not in the tier yet: read_committed reads up to there "
            "(failOnDataLoss=false reads what is there)"
        )

    async def _first_at(self, timestamp_ms: int) -> int | None:
        """The offset of the first record at or after the time; None if there is none."""
        for stretch in self._lineage.stretches:
            if stretch.segment.max_timestamp_ms >= timestamp_ms:
                offset = await self._first_in(stretch, timestamp_ms)
                if offset is not None:
                    return offset
        return None

    async def _first_in(self, stretch: Stretch, timestamp_ms: int) -> int | None:
        segment = stretch.segment
        manifest = self._view.manifest_of(segment)
        times = await entries(self._tier, manifest, IndexType.TIMESTAMP, _TIME_ENTRY)
        # No record up to the last index entry below the time can match.
        begin = max(
            (segment.start_offset + offset for time, offset in times if time < timestamp_ms),
            default=segment.start_offset,
        )
        begin = max(begin, stretch.first_offset)
        offsets = await offset_entries(self._tier, manifest)
        position = max((at for offset, at in offsets if offset <= begin), default=0)
        key, size = object_key(segment, LOG_SUFFIX), segment.segment_size_bytes
        async for batch in stored_batches(self._tier, key, position, size, _PIECE_BYTES):
            if batch.base_offset >= stretch.end_offset:
                break
            if batch.max_timestamp < timestamp_ms or batch.last_offset < begin:
                continue
            with naming_the_batch(batch, key):
                for record in batch.records():
                    if record.timestamp >= timestamp_ms and record.offset >= begin:
                        return record.offset if record.offset < stretch.end_offset else None
        return None


async def entries(
    tier: TierReader, manifest: Manifest, index: IndexType, entry: Struct
) -> list[tuple[int, ...]]:
    """The entries of an index; none if it is missing or damaged, so the segment is read without."""
    part = manifest.parts.get(index.value)
    batches_max = manifest.metadata.segment_size_bytes // BATCH_OVERHEAD
    if part is None or part.size // entry.size > batches_max + 1:
        return []
    try:
        content = await read_part(tier, manifest, index.value)
    except DamagedPartError:
        return []
    return list(entry.iter_unpack(content[: len(content) - len(content) % entry.size]))


async def offset_entries(tier: TierReader, manifest: Manifest) -> list[tuple[int, int]]:
    """The offset index, ascending: the last offset of a batch, and the batch's position."""
    start = manifest.metadata.start_offset
    return [
        (start + offset, position)
        for offset, position in await entries(tier, manifest, IndexType.OFFSET, _OFFSET_ENTRY)
    ]
