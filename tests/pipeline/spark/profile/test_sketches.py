"""Sums of fixed size: what they promise holds however the records are dealt out and merged."""

from collections import Counter

import numpy as np
from hypothesis import given, settings, strategies as st

from tierlog.pipeline.spark.profile import sketches
from tierlog.pipeline.spark.profile.sketches import (
    CAPACITY,
    SERIES_STEPS,
    KeySketch,
    RateSeries,
    SizeCounts,
)

KEYS = st.lists(st.integers(0, 4000).map(lambda number: b"%d" % number), max_size=3000)


def sketch_of(parts: list[list[bytes]]) -> KeySketch:
    whole = KeySketch()
    for part in parts:
        one = KeySketch()
        one.add(Counter(part), nulls=1)
        whole.merge(one)
    return whole


@settings(max_examples=40, deadline=None)
@given(st.lists(KEYS, max_size=5), st.integers(0, 500))
def test_a_count_is_too_low_by_at_most_the_error_and_no_frequent_key_is_missing(
    parts: list[list[bytes]], often: int
) -> None:
    parts = [*parts, [b"often"] * often]
    truth = Counter(key for part in parts for key in part)
    found = sketch_of(parts)
    assert len(found.counts) <= CAPACITY
    assert found.error * CAPACITY <= found.records == truth.total()
    assert found.nulls == len(parts)
    for key, count in truth.items():
        assert found.counts.get(key, 0) <= count <= found.counts.get(key, 0) + found.error


def test_few_keys_are_counted_exactly() -> None:
    found = sketch_of([[b"a", b"b", b"a"], [b"b", b"a", b"c"]])
    assert found.top(2) == [(b"a", 3), (b"b", 2)]
    assert (found.error, found.distinct) == (0, 3)


def test_many_different_keys_are_counted_within_a_tenth() -> None:
    numbers = range(50_000)
    parts = [[b"%d" % number for number in numbers[start::4]] for start in range(4)]
    assert abs(sketch_of([*parts, *parts]).distinct - 50_000) < 5_000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(-5, 1 << 45), st.integers(0, 99)), max_size=20)))
def test_a_series_keeps_every_record_in_a_bounded_number_of_steps(
    parts: list[list[tuple[int, int]]],
) -> None:
    whole = RateSeries()
    for part in parts:
        one = RateSeries()
        one.add(*(np.array([each[place] for each in part], np.int64) for place in (0, 1)))
        whole.merge(one)
    timed = [each for part in parts for each in part if each[0] >= 0]
    assert sum(each[0] for each in whole.steps.values()) == len(timed)
    assert sum(each[1] for each in whole.steps.values()) == sum(each[1] for each in timed)
    for time, _ in timed:
        assert time // whole.width_ms in whole.steps
    assert len(whole.rates()) <= SERIES_STEPS


def test_a_rate_is_per_second_and_empty_steps_are_nothing() -> None:
    series = RateSeries(width_ms=2000)
    series.add(np.array([0, 1999, 4000]), np.array([10, 30, 50]))
    assert series.rates() == [(0, 1.0, 20.0), (2000, 0.0, 0.0), (4000, 0.5, 25.0)]


def test_sizes_are_counted_by_powers_of_two() -> None:
    counts = SizeCounts()
    counts.add(np.array([0, 1, 2, 3, 4, 1023, 1024]))
    assert counts.counts == {-1: 1, 0: 1, 1: 2, 2: 1, 9: 1, 10: 1}


def test_long_keys_are_cut_before_they_are_counted() -> None:
    assert sketches.KEY_BYTES == 256
