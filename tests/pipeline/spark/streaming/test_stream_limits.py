"""How far a micro-batch goes, and when it waits for more."""

from hypothesis import given, strategies as st

from tierlog.clients.topic_partition import TopicPartition
from tierlog.pipeline.spark.streaming.stream_limits import TriggerPace, lag_of


def at(*offsets: int) -> dict[TopicPartition, int]:
    return {TopicPartition("t", number): offset for number, offset in enumerate(offsets)}


LAGS = st.lists(st.integers(0, 10**9), min_size=1, max_size=9)


@given(LAGS, st.integers(1, 10**9))
def test_a_bounded_micro_batch_is_about_as_large_as_asked_and_all_partitions_advance(
    lags: list[int], at_most: int
) -> None:
    reached = at(*(17 for _ in lags))
    lag = lag_of(reached, reached, at(*(17 + each for each in lags)))
    ends = lag.bounded(at_most)
    sizes = [end - 17 for end in ends.values()]
    assert sum(sizes) <= at_most + len(lags)
    for size, each in zip(sizes, lags, strict=True):
        assert size <= each
        assert (size > 0) == (each > 0)


def test_a_new_partition_lags_from_where_it_begins_and_none_goes_back() -> None:
    lag = lag_of(at(10), at(0, 500), at(8, 600))
    assert lag.records == 100
    assert lag.bounded(None) == at(10, 600)
    assert lag.bounded(30) == at(10, 530)


def test_a_micro_batch_waits_for_enough_offsets_or_for_the_longest_delay() -> None:
    pace = TriggerPace(100, 5_000)
    assert not pace.waits(1, 0)
    assert pace.waits(99, 4_999)
    assert not pace.waits(100, 4_999)
    assert pace.waits(99, 9_998)
    assert not pace.waits(0, 9_999)
    assert not TriggerPace(None, 5_000).waits(0, 0)
