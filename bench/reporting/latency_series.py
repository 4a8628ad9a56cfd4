"""Latency over time: the seconds of several runs' histograms, combined.

The percentile of a second comes from that second's own histogram, in each run; a line is the median
of the runs, its band their minimum and maximum. A second that only some of the runs have is left
out, so that no line jumps where a run ended earlier.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..figures import HistogramKey, ResultsError, RunKey
from ..harness.loads.latencies import read_intervals
from .spread import Series, in_order

PERCENTILES_OVER_TIME: Mapping[float, str] = {50.0: "p50", 99.0: "p99", 100.0: "slowest"}

_A_SECOND_MIN = 10
"""The least average number of latencies per second: with fewer, all percentiles are the same."""

Seconds = dict[int, dict[float, float]]
"""Milliseconds by second of the load and by percentile."""


@dataclass(frozen=True, slots=True)
class TimeLine:
    """One series: the seconds, and the milliseconds at each, by percentile."""

    seconds: list[float]
    medians: Mapping[float, list[float]]
    lows: Mapping[float, list[float]]
    highs: Mapping[float, list[float]]


class Loads(NamedTuple):
    """Identifies a plot: one load of a case, at every target."""

    scenario: str
    case: str
    of: str


def read_seconds(path: Path) -> Seconds:
    """The percentiles of each second; empty if there are too few latencies per second.

    Raises ResultsError for an unreadable file.
    """
    try:
        intervals = [interval for interval in read_intervals(path) if len(interval.latencies)]
        seconds = {
            int(interval.start_s): {
                percentile: interval.latencies.percentile_ms(percentile)
                for percentile in PERCENTILES_OVER_TIME
            }
            for interval in intervals
        }
    except Exception as error:
        # The library has no specific error for an incomplete line.
        raise ResultsError(f"{path} is not a whole HdrHistogram log.") from error
    if not seconds:
        raise ResultsError(f"{path} holds no latencies.")
    is_dense = sum(len(interval.latencies) for interval in intervals) >= _A_SECOND_MIN * len(
        intervals
    )
    return seconds if is_dense else {}


def time_line(runs: Sequence[Seconds]) -> TimeLine:
    """One line from at least one run of the same load."""
    seconds = [each for each in sorted(runs[0]) if all(each in run for run in runs)]

    def line(of_runs: Callable[[list[float]], float]) -> dict[float, list[float]]:
        return {
            percentile: [of_runs([run[second][percentile] for run in runs]) for second in seconds]
            for percentile in PERCENTILES_OVER_TIME
        }

    return TimeLine(
        [float(second) for second in seconds], line(statistics.median), line(min), line(max)
    )


def time_lines(
    histograms: Mapping[HistogramKey, Path], failed: Iterable[RunKey] = ()
) -> dict[Loads, dict[Series, TimeLine]]:
    """The series of every load, tierlog's first, without failed runs."""
    left_out = set(failed)
    runs: dict[Loads, dict[Series, list[Seconds]]] = {}
    for key, path in histograms.items():
        if RunKey(key.scenario, key.case, key.target, key.tiered, key.run) in left_out:
            continue
        load = runs.setdefault(Loads(key.scenario, key.case, key.name), {})
        load.setdefault(Series(key.target, key.tiered), []).append(read_seconds(path))
    return {
        load: {each: time_line(series[each]) for each in in_order(series)}
        for load, series in runs.items()
    }
