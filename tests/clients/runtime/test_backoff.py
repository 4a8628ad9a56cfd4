"""Waits double up to their bound, and clients do not come back together."""

from random import Random

from hypothesis import given, strategies as st

from tierlog.clients.runtime.backoff import Backoff


def test_there_is_no_wait_before_the_first_failure() -> None:
    assert Backoff(100, 1000).delay_seconds(0, Random(0)) == 0


@given(failures=st.integers(1, 10_000), seed=st.integers())
def test_the_wait_is_the_doubled_one_within_a_fifth(failures: int, seed: int) -> None:
    expected = min(0.1 * 2 ** min(failures - 1, 60), 1.0)
    delay = Backoff(100, 1000).delay_seconds(failures, Random(seed))
    assert expected * 0.8 <= delay <= expected * 1.2


def test_waits_after_the_same_failures_differ() -> None:
    random = Random(0)
    assert len({Backoff(100, 1000).delay_seconds(3, random) for _ in range(50)}) == 50
