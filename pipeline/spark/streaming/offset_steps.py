"""Splits the offset ranges of many partitions into steps.

Each step takes from every partition a share proportional to its remaining offsets, so that all
partitions finish at about the same time. A step exceeds the requested size by at most one record
per partition.
"""

from collections.abc import Iterator, Mapping

from ....clients.text_table import table
from ....clients.topic_partition import TopicPartition
from ...reading.scan_bounds import OffsetRange

Ranges = Mapping[TopicPartition, OffsetRange]


def records_in(ranges: Ranges) -> int:
    """The number of offsets: an upper bound for the number of records."""
    return sum(offset_range.end - offset_range.first for offset_range in ranges.values())


def listed(ranges: Ranges) -> list[str]:
    """A table of each partition's offsets, as lines for a terminal; empty if there are none."""
    rows = [
        [
            str(partition),
            str(offset_range.first),
            str(offset_range.end),
            f"{offset_range.end - offset_range.first:,}",
        ]
        for partition, offset_range in sorted(ranges.items())
        if offset_range.end > offset_range.first
    ]
    head = ["partition", "from offset", "to offset", "offsets"]
    return list(table(head, rows)) if rows else []


def steps(ranges: Ranges, records: int) -> Iterator[dict[TopicPartition, OffsetRange]]:
    """Steps of about `records` records, in order; a partition's range in a step may be empty."""
    assert records > 0, "with empty steps this would never end"
    while left := records_in(ranges):
        step = {
            partition: OffsetRange(
                offset_range.first,
                offset_range.first + _share(offset_range.end - offset_range.first, records, left),
            )
            for partition, offset_range in ranges.items()
        }
        yield step
        ranges = {
            partition: OffsetRange(step[partition].end, offset_range.end)
            for partition, offset_range in ranges.items()
        }


def _share(own: int, step_records: int, left: int) -> int:
    return min(own, -(-own * step_records // left))
