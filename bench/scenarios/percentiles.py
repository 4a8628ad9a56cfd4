"""The median, the 99th percentile and the maximum of some seconds, as figures of a run."""

import math
from collections.abc import Sequence

from ..recorder import Recorder


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def record_percentiles(recorder: Recorder, name: str, seconds: Sequence[float]) -> None:
    """Record them as NAME_p50_s, NAME_p99_s and NAME_max_s, and how many there are."""
    recorder.figure(f"{name}_count", len(seconds))
    if seconds:
        recorder.figure(f"{name}_p50_s", percentile(seconds, 50))
        recorder.figure(f"{name}_p99_s", percentile(seconds, 99))
        recorder.figure(f"{name}_max_s", max(seconds))
