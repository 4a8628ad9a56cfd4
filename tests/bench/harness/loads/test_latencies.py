"""Known latencies give the known percentiles, also after a way through a file."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tierlog.bench.harness.loads.latencies import Histogram, LatencyRecorder, read_intervals

WITHIN = 0.002
"""Three significant digits, whichever way they are rounded."""


def known(count: int = 10_000) -> LatencyRecorder:
    """1, 2, … milliseconds, each ten times, over five seconds."""
    latencies = LatencyRecorder()
    for number in range(count):
        latencies.record(number % 1000 + 1, number * 5 / count)
    return latencies


def test_known_latencies_give_the_known_percentiles() -> None:
    assert known().figures() == {
        "p50_ms": pytest.approx(500, WITHIN),
        "p95_ms": pytest.approx(950, WITHIN),
        "p99_ms": pytest.approx(990, WITHIN),
        "p999_ms": pytest.approx(999, WITHIN),
        "mean_ms": pytest.approx(500.5, WITHIN),
        "max_ms": pytest.approx(1000, WITHIN),
    }


def test_one_stall_is_charged_for_all_that_waited() -> None:
    """A second's stall at 1,000 records a second: a thousand records waited, not one."""
    latencies = LatencyRecorder()
    for number in range(10_000):
        meant_for = number / 1000
        waited = 3.0 - meant_for if 2.0 <= meant_for < 3.0 else 0.0
        latencies.record(waited * 1000 + 1, meant_for)
    figures = latencies.figures()
    assert figures["p50_ms"] == pytest.approx(1, WITHIN)
    assert figures["p95_ms"] == pytest.approx(501, 0.01)
    assert figures["p99_ms"] == pytest.approx(901, 0.01)


def test_a_file_holds_every_second_of_it(tmp_path: Path) -> None:
    written = known()
    written.write(tmp_path / "latencies.hlog", "whose it is")
    intervals = list(read_intervals(tmp_path / "latencies.hlog"))
    assert [interval.start_s for interval in intervals] == [0, 1, 2, 3, 4]
    assert [len(interval.latencies) for interval in intervals] == [2000] * 5
    read = LatencyRecorder()
    read.add(tmp_path / "latencies.hlog")
    assert read.figures() == written.figures()


def test_two_clients_of_the_same_second_are_counted_together(tmp_path: Path) -> None:
    for name, ms in (("a", 10.0), ("b", 20.0)):
        one = LatencyRecorder()
        one.record(ms, 0.5)
        one.write(tmp_path / name)
    both = LatencyRecorder()
    both.record(30.0, 0.9)
    both.add(tmp_path / "a")
    both.add(tmp_path / "b")
    (interval,) = both.intervals()
    assert len(interval.latencies) == 3
    assert both.figures()["mean_ms"] == pytest.approx(20, WITHIN)


def test_nothing_recorded_is_no_figure() -> None:
    assert LatencyRecorder().figures() == {}


@pytest.mark.parametrize("ms", [-1.0, 3_600_001.0, float("nan"), float("inf")])
def test_what_is_no_latency_is_refused(ms: float) -> None:
    with pytest.raises(ValueError, match="no latency"):
        Histogram().record(ms)


@given(st.lists(st.floats(0.001, 3_600_000), min_size=1, max_size=300), st.floats(1, 100))
def test_a_percentile_is_a_value_to_three_digits(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    found = histogram.percentile_ms(share)
    assert any(found == pytest.approx(value, 0.002, abs=0.001) for value in values)
    assert found <= histogram.max_ms
