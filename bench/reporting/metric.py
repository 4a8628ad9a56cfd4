"""Interprets a metric's name: its label, its unit, and whether higher or lower is better.

The unit is the name's last part (`p99_ms`, `resident_mib`); the rest is the label. Whether higher
or lower is better is defined for metrics that scenarios share. The others are shown without a
verdict.
"""

from dataclasses import dataclass
from enum import StrEnum


class Better(StrEnum):
    """The direction in which a metric improves."""

    HIGHER = "higher is better"
    LOWER = "lower is better"
    NEITHER = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, with its label and unit."""

    name: str
    label: str
    unit: str
    better: Better

    @property
    def title(self) -> str:
        """Label and unit, for a table's row or a plot's axis."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


_HIGHER, _LOWER, _NEITHER = Better.HIGHER, Better.LOWER, Better.NEITHER

_ENDINGS: dict[str, tuple[str, str, Better]] = {
    "mb_per_s": ("throughput", "MB/s", _HIGHER),
    "records_per_s": ("records", "records/s", _HIGHER),
    "requests_per_s": ("requests", "requests/s", _HIGHER),
    "requests_per_broker_cpu_s": ("requests per broker CPU-second", "1/CPU-s", _HIGHER),
    "broker_cpu_s_per_gb": ("broker CPU", "CPU-s/GB", _LOWER),
    "client_cpu_s_per_gb": ("client CPU", "CPU-s/GB", _LOWER),
    "p50_ms": ("p50", "ms", _LOWER),
    "p95_ms": ("p95", "ms", _LOWER),
    "p99_ms": ("p99", "ms", _LOWER),
    "p999_ms": ("p99.9", "ms", _LOWER),
    "mean_ms": ("mean", "ms", _LOWER),
    "max_ms": ("maximum", "ms", _LOWER),
    "start_s": ("start to the first answer", "s", _LOWER),
    "start_cpu_s": ("CPU of the start", "CPU-s", _LOWER),
    "resident_mib": ("broker's resident memory", "MiB", _LOWER),
    "disk_mb": ("written to and read from disk by the broker", "MB", _NEITHER),
    "network_mb": ("through the network interface", "MB", _NEITHER),
    "requests_per_gb": ("requests", "1/GB", _LOWER),
    "system_calls_per_gb": ("system calls", "1/GB", _LOWER),
    "context_switches_per_gb": ("context switches", "1/GB", _LOWER),
    "system_calls_per_request": ("system calls per request", "", _LOWER),
    "context_switches_per_request": ("context switches per request", "", _LOWER),
    "hit_ratio": ("hits", "share", _HIGHER),
    "kib_per_partition": ("of a partition", "KiB", _LOWER),
    "kib_per_connection": ("of a connection", "KiB", _LOWER),
    "cpu_s_per_minute": ("CPU", "CPU-s/min", _LOWER),
    "per_s": ("", "1/s", _HIGHER),
    "ratio": ("", "ratio", _NEITHER),
    "share": ("", "share", _NEITHER),
    "percent": ("", "%", _NEITHER),
    "seconds": ("duration", "s", _LOWER),
    "cpu_s": ("CPU", "CPU-s", _LOWER),
    "requests": ("requests", "", _NEITHER),
    "count": ("", "", _LOWER),
    "ms": ("", "ms", _LOWER),
    "s": ("", "s", _LOWER),
    "mib": ("", "MiB", _LOWER),
    "mb": ("", "MB", _NEITHER),
    "gb": ("", "GB", _NEITHER),
}
"""By a name's ending (the longest match applies): the label if alone, the unit, what is better."""

_LONGEST_FIRST = sorted(_ENDINGS, key=len, reverse=True)

PERCENTILES = ("p50_ms", "p95_ms", "p99_ms", "p999_ms")
"""The metrics that make up a latency profile, in order."""

HEADLINES = (
    "mb_per_s",
    "records_per_s",
    "requests_per_s",
    "requests_per_broker_cpu_s",
    "broker_cpu_s_per_gb",
    "p50_ms",
    "p99_ms",
    "start_s",
    "start_cpu_s",
    "resident_mib",
    "seconds",
)
"""The endings of the most important metrics, in order."""


def metric_of(name: str) -> Metric:
    """The metric of a name; with an unknown ending, the whole name is the label, without unit."""
    for ending in _LONGEST_FIRST:
        if name == ending or name.endswith(f"_{ending}"):
            label, unit, better = _ENDINGS[ending]
            words = name[: -len(ending)].replace("_", " ").strip()
            return Metric(name, " ".join(filter(None, (words, label))) or ending, unit, better)
    return Metric(name, name.replace("_", " "), "", Better.NEITHER)


def headline_rank(name: str) -> int | None:
    """The rank of a headline metric; None if it is not one."""
    for rank, ending in enumerate(HEADLINES):
        if name == ending or name.endswith(f"_{ending}"):
            return rank
    return None


def percentile_of(name: str) -> tuple[str, str] | None:
    """The latency and percentile of a name such as `produce_p99_ms`; None if it has none."""
    for ending in PERCENTILES:
        if name == ending or name.endswith(f"_{ending}"):
            return name[: -len(ending)].strip("_"), ending
    return None


def in_figures(value: float) -> str:
    """A value with three significant digits, the precision of a benchmark."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    if size == 0:
        return "0"
    return f"{value:.3f}" if size >= 0.1 else f"{value:.3g}"


def ratio_text(ratio: float | None) -> str:
    """A ratio, or a dash if there is none."""
    if ratio is None:
        return "–"
    return f"{ratio:.3f}" if ratio < 0.1 else f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"
