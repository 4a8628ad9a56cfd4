"""Latencies, kept second by second in histograms, and the percentiles that follow from them.

An HdrHistogram counts values with three significant digits from a microsecond to an hour, so that a
percentile is never averaged and every report can be drawn again from the file. What a figure says
is computed from the histogram that is kept, not beside it.

Whoever records says when a value belongs to (`at_s`, seconds since the load began). A sender that
keeps a pace of its own gives the time at which the record was *meant* to be sent, and counts the
latency from there: a broker that stalls is charged for all that waited (coordinated omission).

hdrh publishes no types; this module is the only one that knows it.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader, HistogramLogWriter

_HOUR_US = 3_600_000_000
_DIGITS = 3
PERCENTILES = {"p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0, "p999_ms": 99.9}


class _Histogram(Protocol):
    """What this module uses of hdrh's class."""

    def record_value(self, value: int, count: int) -> bool: ...
    def add(self, other_hist: "_Histogram") -> None: ...
    def get_value_at_percentile(self, percentile: float) -> int: ...
    def get_mean_value(self) -> float: ...
    def get_max_value(self) -> int: ...
    def get_total_count(self) -> int: ...
    def get_start_time_stamp(self) -> float: ...


class _LogWriter(Protocol):
    def output_comment(self, comment: str) -> None: ...
    def output_log_format_version(self) -> None: ...
    def output_legend(self) -> None: ...
    def output_interval_histogram(
        self, histogram: _Histogram, start_s: float, end_s: float, max_value_unit_ratio: float
    ) -> None: ...


class _LogReader(Protocol):
    def get_next_interval_histogram(self) -> _Histogram | None: ...
    def close(self) -> None: ...


class Histogram:
    """Latencies in milliseconds, counted; three significant digits of each are kept."""

    def __init__(self, counts: _Histogram | None = None) -> None:
        self.counts = counts or cast("_Histogram", HdrHistogram(1, _HOUR_US, _DIGITS))

    def __len__(self) -> int:
        return self.counts.get_total_count()

    def record(self, ms: float, count: int = 1) -> None:
        """Count a value. Raises ValueError for what is no latency, or longer than an hour."""
        microseconds = ms * 1000
        if not 0 <= microseconds <= _HOUR_US:
            raise ValueError(f"{ms} ms is no latency between nothing and an hour.")
        # The histogram begins at a microsecond.
        self.counts.record_value(max(1, round(microseconds)), count)

    def add(self, other: "Histogram") -> None:
        """Count all that the other has counted."""
        self.counts.add(other.counts)

    def percentile_ms(self, percentile: float) -> float:
        """The value that this share, in percent, does not exceed."""
        return self.counts.get_value_at_percentile(percentile) / 1000

    @property
    def mean_ms(self) -> float:
        return self.counts.get_mean_value() / 1000

    @property
    def max_ms(self) -> float:
        return self.counts.get_max_value() / 1000


class Interval(NamedTuple):
    """One second of a histogram's file: when it began, counted from the load's beginning."""

    start_s: float
    latencies: Histogram


class LatencyRecorder:
    """Collects one run's latencies, in the process that measures them or from its file."""

    def __init__(self) -> None:
        self._recorded: dict[int, array[float]] = {}
        self._read: dict[int, Histogram] = {}

    def record(self, ms: float, at_s: float) -> None:
        """One latency, and the second of the load to which it belongs."""
        second = int(at_s)
        if second not in self._recorded:
            self._recorded[second] = array("d")
        self._recorded[second].append(ms)

    def add(self, path: Path) -> None:
        """All that the file of another recorder holds, second by second."""
        for interval in read_intervals(path):
            self._read.setdefault(int(interval.start_s), Histogram()).add(interval.latencies)

    def intervals(self) -> Iterator[Interval]:
        """What was recorded, a second at a time."""
        for second in sorted({*self._recorded, *self._read}):
            latencies = Histogram()
            if second in self._read:
                latencies.add(self._read[second])
            # Many values are the same to a microsecond: counting them first is cheaper.
            rounded = Counter(round(ms, 3) for ms in self._recorded.get(second, ()))
            for ms, count in rounded.items():
                latencies.record(ms, count)
            yield Interval(float(second), latencies)

    def total(self) -> Histogram:
        """All of it."""
        total = Histogram()
        for interval in self.intervals():
            total.add(interval.latencies)
        return total

    def figures(self) -> dict[str, float]:
        """By metric: mean, maximum and percentiles in milliseconds; empty if nothing came."""
        total = self.total()
        if not len(total):
            return {}
        figures = {name: total.percentile_ms(share) for name, share in PERCENTILES.items()}
        return {**figures, "mean_ms": total.mean_ms, "max_ms": total.max_ms}

    def write(self, path: Path, comment: str = "") -> None:
        """As a histogram log of one-second intervals, in milliseconds from the load's beginning."""
        with path.open("w", encoding="utf-8") as file:
            log = cast("_LogWriter", HistogramLogWriter(file))
            log.output_comment(comment)
            log.output_log_format_version()
            log.output_legend()
            for start_s, latencies in self.intervals():
                # The log's own unit of a maximum is the millisecond; we count microseconds.
                log.output_interval_histogram(latencies.counts, start_s, start_s + 1, 1000.0)


def read_intervals(path: Path) -> Iterator[Interval]:
    """The seconds of a histogram's file, in order."""
    reference = HdrHistogram(1, _HOUR_US, _DIGITS)
    log = cast("_LogReader", HistogramLogReader(str(path), reference))
    try:
        while (counts := log.get_next_interval_histogram()) is not None:
            yield Interval(counts.get_start_time_stamp() / 1000, Histogram(counts))
    finally:
        log.close()
