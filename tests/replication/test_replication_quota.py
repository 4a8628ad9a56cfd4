"""The rate of throttled replication: no burst at the start, and bytes ÷ rate in the end."""

from collections.abc import Callable

import pytest

from tierlog.replication.replication_quota import ReplicationQuota

MB = 1 << 20


def quota(rate: int, samples: int = 11) -> ReplicationQuota:
    made = ReplicationQuota(samples)
    made.bytes_per_second = rate
    return made


def test_without_a_limit_nothing_is_ever_exceeded() -> None:
    unlimited = ReplicationQuota()
    unlimited.record(1 << 60, 5.0)
    assert not unlimited.is_exceeded(5.0)
    assert unlimited.wait_seconds(5.0) == 0


@pytest.mark.parametrize(
    ("records", "now", "rate"),
    [
        ([], 7.0, 0.0),
        # Less than a sample counts as a whole one.
        ([(0.0, 100)], 0.2, 100.0),
        ([(0.0, 100)], 2.0, 50.0),
        ([(0.0, 100), (0.5, 100)], 4.0, 50.0),
        # The window ends with the oldest sample that is left.
        ([(0.0, 100), (2.0, 300)], 10.9, 400 / 10.9),
        ([(0.0, 100), (2.0, 300)], 11.0, 300 / 9.0),
        ([(0.0, 100), (2.0, 300)], 13.0, 0.0),
    ],
)
def test_the_rate_is_that_of_the_samples_left(
    records: list[tuple[float, int]], now: float, rate: float
) -> None:
    measured = quota(1)
    for at, nbytes in records:
        measured.record(nbytes, at)
    assert measured.rate(now) == pytest.approx(rate)


@pytest.mark.parametrize("rate", [0, 1, 100, MB])
def test_after_the_wait_the_quota_is_free(rate: int) -> None:
    measured = quota(rate)
    measured.record(3 * MB, 1.0)
    wait = measured.wait_seconds(1.0)
    assert measured.is_exceeded(1.0 + 0.99 * wait)
    assert not measured.is_exceeded(1.0 + wait + 1e-6)


def time_of(
    total: int, part: int, limited: ReplicationQuota, wait: Callable[[float], float]
) -> float:
    """When `total` bytes have been replicated, in parts, each as soon as the quota is free."""
    now, done = 1_000.0, 0
    while done < total:
        while limited.is_exceeded(now):
            now += wait(limited.wait_seconds(now))
        limited.record(part, now)
        done += part
        now += 0.001
    return now - 1_000.0


@pytest.mark.parametrize(("total", "rate"), [(10 * MB, MB), (100 * MB, MB), (64 * MB, 10 * MB)])
@pytest.mark.parametrize("samples", [2, 11])
def test_bytes_take_bytes_by_rate(total: int, rate: int, samples: int) -> None:
    took = time_of(total, MB // 4, quota(rate, samples), lambda wait: max(wait, 0.001))
    assert took == pytest.approx(total / rate, rel=0.1, abs=1.0)


def test_a_new_limit_counts_at_once() -> None:
    measured = quota(MB)
    measured.record(10 * MB, 0.0)
    assert measured.wait_seconds(0.0) == pytest.approx(10.0)
    measured.bytes_per_second = 5 * MB
    assert measured.wait_seconds(0.0) == pytest.approx(2.0)
