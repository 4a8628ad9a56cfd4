"""Ranges of offsets are divided for more tasks: none is lost, none is read twice."""

import json
from itertools import pairwise
from pathlib import Path

from hypothesis import given, strategies as st

from tierlog.clients.topic_partition import TopicPartition
from tierlog.pipeline.reading.range_division import divided
from tierlog.pipeline.reading.scan_bounds import OffsetRange
from tierlog.tests.pipeline.spark.folder_tier import TOPIC, Tier

Sizes = list[tuple[int, int]]


def ranges_of(sizes: Sizes) -> dict[TopicPartition, OffsetRange]:
    """Each with its first offset and its size."""
    return {
        TopicPartition("t", number): OffsetRange(first, first + size)
        for number, (first, size) in enumerate(sizes)
    }


SIZES = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**9)), max_size=8)


@given(SIZES, st.none() | st.integers(1, 60), st.none() | st.integers(10**7, 10**10))
def test_the_parts_are_the_whole_and_none_is_empty_or_too_large(
    sizes: Sizes, least: int | None, largest: int | None
) -> None:
    ranges = ranges_of(sizes)
    parts = divided(ranges, least, largest)
    assert set(parts) == {each for each, whole in ranges.items() if whole.first < whole.end}
    for partition, cut in parts.items():
        assert cut[0].first == ranges[partition].first
        assert cut[-1].end == ranges[partition].end
        assert all(before.end == after.first for before, after in pairwise(cut))
        assert all(part.first < part.end for part in cut)
        if largest is not None:
            assert all(part.end - part.first <= largest for part in cut)


def test_enough_partitions_are_not_divided() -> None:
    ranges = ranges_of([(0, 10), (5, 1000)])
    whole = {partition: [each] for partition, each in ranges.items()}
    assert divided(ranges, 2, None) == whole
    assert divided(ranges, None, None) == whole


def test_a_large_partition_gets_the_further_tasks() -> None:
    parts = divided(ranges_of([(0, 100), (0, 900)]), 5, None)
    assert [len(each) for each in parts.values()] == [1, 4]


def test_the_tasks_of_a_scan_read_each_offset_once(tmp_path: Path) -> None:
    tier = Tier(tmp_path / "tier")
    tier.bucket.put(1, (0, 499))
    tier.bucket.put(2, (500, 799))
    bounds = {"startingOffsets": json.dumps({TOPIC: {"0": 123}})}
    for options in ({"minPartitions": "7"}, {"maxRecordsPerPartition": "100"}):
        tasks = tier.plan(**bounds, **options)
        assert len(tasks) == 7
        assert max(task.end_offset - task.first_offset for task in tasks) <= 100
        assert tier.offsets(**bounds, **options) == [*range(123, 800)]
    assert len(tier.plan(**bounds)) == 1
