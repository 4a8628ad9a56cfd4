"""Records latencies in one histogram per second, and computes percentiles from them.

An HdrHistogram counts values with three significant digits from a microsecond to an hour, so that
percentiles are never averaged and every report can be redrawn from the file. All figures are
computed from the stored histograms.

Each value has a time (`at_s`, seconds since the load began). For a sender at a fixed rate this is
the time at which the record was *meant* to be sent, and its latency counts from then, so that a
stalled broker is charged for all records that had to wait (coordinated omission).

hdrh has no type hints; only this module uses it.
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
    """The methods of hdrh's class that this module uses."""

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
    """Counts latencies in milliseconds, to three significant digits."""

    def __init__(self, counts: _Histogram | None = None) -> None:
        self.counts = counts or cast("_Histogram", HdrHistogram(1, _HOUR_US, _DIGITS))

    def __len__(self) -> int:
        return self.counts.get_total_count()

    def record(self, ms: float, count: int = 1) -> None:
        """Count a value. Raises ValueError if it is negative or longer than an hour."""
        microseconds = ms * 1000
        if not 0 <= microseconds <= _HOUR_US:
            raise ValueError(f"{ms} ms is no latency between 0 and one hour.")
        # The histogram's smallest value is a microsecond.
        self.counts.record_value(max(1, round(microseconds)), count)

    def add(self, other: "Histogram") -> None:
        """Add the counts of the other histogram."""
        self.counts.add(other.counts)

    def percentile_ms(self, percentile: float) -> float:
        """The value that this percentage of latencies does not exceed."""
        return self.counts.get_value_at_percentile(percentile) / 1000

    @property
    def mean_ms(self) -> float:
        return self.counts.get_mean_value() / 1000

    @property
    def max_ms(self) -> float:
        return self.counts.get_max_value() / 1000


class Interval(NamedTuple):
    """One second of a histogram file; `start_s` counts from the start of the load."""

    start_s: float
    latencies: Histogram


class LatencyRecorder:
    """Collects one run's latencies, in the measuring process or from its file."""

    def __init__(self) -> None:
        self._recorded: dict[int, array[float]] = {}
        self._read: dict[int, Histogram] = {}

    def record(self, ms: float, at_s: float) -> None:
        """Record one latency at its time in the load."""
        second = int(at_s)
        if second not in self._recorded:
            self._recorded[second] = array("d")
        self._recorded[second].append(ms)

    def add(self, path: Path) -> None:
        """Add the file of another recorder, second by second."""
        for interval in read_intervals(path):
            self._read.setdefault(int(interval.start_s), Histogram()).add(interval.latencies)

    def intervals(self) -> Iterator[Interval]:
        """The recorded latencies, second by second."""
        for second in sorted({*self._recorded, *self._read}):
            latencies = Histogram()
            if second in self._read:
                latencies.add(self._read[second])
            # Many values are equal to the microsecond, so counting them first is cheaper.
            rounded = Counter(round(ms, 3) for ms in self._recorded.get(second, ()))
            for ms, count in rounded.items():
                latencies.record(ms, count)
            yield Interval(float(second), latencies)

    def total(self) -> Histogram:
        """All recorded latencies in one histogram."""
        total = Histogram()
        for interval in self.intervals():
            total.add(interval.latencies)
        return total

    def figures(self) -> dict[str, float]:
        """Mean, maximum and percentiles in milliseconds, by metric; empty without latencies."""
        total = self.total()
        if not len(total):
            return {}
        figures = {name: total.percentile_ms(share) for name, share in PERCENTILES.items()}
        return {**figures, "mean_ms": total.mean_ms, "max_ms": total.max_ms}

    def write(self, path: Path, comment: str = "") -> None:
        """Write a histogram log of one-second intervals, counted from the start of the load."""
        with path.open("w", encoding="utf-8") as file:
            log = cast("_LogWriter", HistogramLogWriter(file))
            log.output_comment(comment)
            log.output_log_format_version()
            log.output_legend()
            for start_s, latencies in self.intervals():
                # The log's maxima are in milliseconds; we count microseconds.
                log.output_interval_histogram(latencies.counts, start_s, start_s + 1, 1000.0)


def read_intervals(path: Path) -> Iterator[Interval]:
    """The one-second intervals of a histogram file, in order."""
    reference = HdrHistogram(1, _HOUR_US, _DIGITS)
    log = cast("_LogReader", HistogramLogReader(str(path), reference))
    try:
        while (counts := log.get_next_interval_histogram()) is not None:
            yield Interval(counts.get_start_time_stamp() / 1000, Histogram(counts))
    finally:
        log.close()
