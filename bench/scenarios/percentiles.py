"""Seconds as figures of a run: the median, the 99th percentile and the maximum."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..recorder import Recorder

if TYPE_CHECKING:
    from ..harness.checker.acknowledged import Acknowledged


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


def record_clients(
    recorder: Recorder,
    acknowledged: "Mapping[str, Acknowledged]",
    unavailable_s: Callable[[str], Sequence[float]],
) -> None:
    """Record what each client was acknowledged, and for how long it was not."""
    for client, answers in acknowledged.items():
        recorder.figure(f"{client}_records", answers.records)
        recorder.figure(f"{client}_failed_records", len(answers.failures))
        record_percentiles(recorder, f"{client}_unavailable", unavailable_s(client))
