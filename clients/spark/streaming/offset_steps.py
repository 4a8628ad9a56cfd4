"""A long way through the offsets of many partitions, cut into steps.

Each step takes from every partition its share of what is left there, so that all arrive together,
and no step is longer than was asked for by more than a record for each partition.
"""

from collections.abc import Iterator, Mapping

from ....tiering.tools.terminal import table
from ...topic_partition import TopicPartition
from ..reading.scan_bounds import OffsetRange

Ranges = Mapping[TopicPartition, OffsetRange]


def records_in(ranges: Ranges) -> int:
    """How many offsets these are: as many records at most."""
    return sum(each.end - each.first for each in ranges.values())


def listed(ranges: Ranges) -> list[str]:
    """Lines for a terminal: what is to be brought of each partition. None, if that is nothing."""
    rows = [
        [str(partition), str(each.first), str(each.end), f"{each.end - each.first:,}"]
        for partition, each in sorted(ranges.items())
        if each.end > each.first
    ]
    head = ["partition", "from offset", "to offset", "offsets"]
    return list(table(head, rows)) if rows else []


def steps(ranges: Ranges, records: int) -> Iterator[dict[TopicPartition, OffsetRange]]:
    """Ranges of about so many records, in order; each names every partition, some with nothing."""
    assert records > 0, "a step of nothing never arrives"
    while left := records_in(ranges):
        step = {
            partition: OffsetRange(
                each.first, each.first + _share(each.end - each.first, records, left)
            )
            for partition, each in ranges.items()
        }
        yield step
        ranges = {
            partition: OffsetRange(step[partition].end, each.end)
            for partition, each in ranges.items()
        }


def _share(own: int, step_records: int, left: int) -> int:
    return min(own, -(-own * step_records // left))
