"""KIP-956's quota: bytes a second over a window of samples."""

from hypothesis import given, strategies as st

from tierlog.tiering.quota import UNLIMITED, ByteRateQuota


def test_without_a_limit_nothing_waits() -> None:
    quota = ByteRateQuota(UNLIMITED)
    quota.record(2**40, 1.0)
    assert quota.throttle_seconds(1.0) == 0


def test_a_large_segment_overshoots_and_the_next_one_waits() -> None:
    quota = ByteRateQuota(100)
    assert quota.throttle_seconds(50.0) == 0
    quota.record(5000, 50.0)
    assert quota.throttle_seconds(50.0) == (5000 - 100 * 10) / 100
    assert quota.throttle_seconds(61.0) == 0


def test_what_is_older_than_the_window_is_forgotten() -> None:
    quota = ByteRateQuota(100, samples=3)
    quota.record(200, 10.0)
    quota.record(200, 11.5)
    assert quota.throttle_seconds(11.5) > 0
    assert quota.throttle_seconds(13.9) == 0


def test_the_limit_may_change_at_any_time() -> None:
    quota = ByteRateQuota(10)
    quota.record(1000, 1.0)
    assert quota.throttle_seconds(1.0) > 0
    quota.bytes_per_second = 1000
    assert quota.throttle_seconds(1.0) == 0


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 500)), max_size=60))
def test_obedient_callers_stay_within_the_quota_but_for_one_overshoot(
    steps: list[tuple[float, int]],
) -> None:
    quota = ByteRateQuota(100)
    now, total, largest = 1000.0, 0, 0
    for pause, nbytes in steps:
        now += pause
        for _ in range(1000):
            wait = quota.throttle_seconds(now)
            if wait <= 0:
                break
            now += min(wait, 1.0)
        quota.record(nbytes, now)
        total += nbytes
        largest = max(largest, nbytes)
    windows = (now - 1000.0) / 10 + 2
    assert total <= windows * (100 * 11 + largest)
