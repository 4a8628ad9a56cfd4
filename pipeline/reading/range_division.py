"""Divides the offsets of a scan into more ranges, as the options of Spark's Kafka source ask for.

The rules are those of its KafkaOffsetRangeCalculator: `maxRecordsPerPartition` first cuts each
range into equal parts of at most so many offsets; if there are still fewer than `minPartitions`,
large ranges are cut further, each in proportion to its size. So there are about `minPartitions`
ranges, sometimes one more or less. Empty ranges are left out.
"""

from collections.abc import Mapping

from ...clients.topic_partition import TopicPartition
from .scan_bounds import OffsetRange


def divided(
    ranges: Mapping[TopicPartition, OffsetRange],
    min_partitions: int | None,
    max_records: int | None,
) -> dict[TopicPartition, list[OffsetRange]]:
    """The ranges of each partition, in order; None means no such limit."""
    parts = [
        (partition, part)
        for partition, whole in sorted(ranges.items())
        if whole.first < whole.end
        for part in _cut(whole, -(-_size(whole) // max_records) if max_records else 1)
    ]
    if min_partitions is not None and len(parts) < min_partitions:
        counts = _counts([_size(part) for _, part in parts], min_partitions)
        parts = [
            (partition, smaller)
            for (partition, part), count in zip(parts, counts, strict=True)
            for smaller in _cut(part, count)
        ]
    by_partition: dict[TopicPartition, list[OffsetRange]] = {}
    for partition, part in parts:
        by_partition.setdefault(partition, []).append(part)
    return by_partition


def _size(offset_range: OffsetRange) -> int:
    return offset_range.end - offset_range.first


def _counts(sizes: list[int], least: int) -> list[int]:
    """Into how many parts each range is cut.

    Small ranges stay whole, and do not count in the proportions of the others.
    """
    total = sum(sizes)
    whole = [_share(size, total, least) == 1 for size in sizes]
    left = total - sum(size for size, is_whole in zip(sizes, whole, strict=True) if is_whole)
    parts = max(least - sum(whole), 1)
    return [
        1 if is_whole else _share(size, left, parts)
        for size, is_whole in zip(sizes, whole, strict=True)
    ]


def _share(size: int, total: int, parts: int) -> int:
    # Rounded half up, as Java's Math.round.
    return max((2 * size * parts + total) // (2 * total), 1)


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """The range in parts of nearly equal size, without empty ones."""
    count = min(count, _size(whole))
    first, left = whole.first, _size(whole)
    parts: list[OffsetRange] = []
    for number in range(count):
        size = left // (count - number)
        parts.append(OffsetRange(first, first + size))
        first, left = first + size, left - size
    return parts
