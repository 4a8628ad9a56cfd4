"""Decides how far the next micro-batch of a stream reads, as Spark's Kafka source does.

`maxOffsetsPerTrigger` is shared among the partitions by their lag, at least one offset for each, so
that all advance. With `minOffsetsPerTrigger`, a micro-batch waits until there are so many offsets,
but not longer than `maxTriggerDelay` after the one before; the first of a run does not wait.
"""

from typing import NamedTuple

from .stream_offset import Offsets


class Lag(NamedTuple):
    """What a stream has to read still."""

    reached: Offsets
    """Where each partition's reading goes on; a new one's at its first offset in the tier."""
    latest: Offsets
    """Where each partition ends; never before what is reached."""

    @property
    def records(self) -> int:
        """The number of offsets: an upper bound for the number of records."""
        return sum(end - self.reached[partition] for partition, end in self.latest.items())

    def bounded(self, at_most: int | None) -> Offsets:
        """The end of a micro-batch of about so many offsets; None means all of them."""
        total = self.records
        if at_most is None or total <= at_most:
            return self.latest
        lags = {partition: end - self.reached[partition] for partition, end in self.latest.items()}
        return {
            partition: self.reached[partition] + min(lag, max(1, lag * at_most // total))
            for partition, lag in lags.items()
        }


def lag_of(reached: Offsets, begins: Offsets, ends: Offsets) -> Lag:
    """The lag behind a tier whose partitions begin and end at these offsets.

    A stream never goes back, even if the tier does. A partition that is gone from the tier has no
    lag.
    """
    latest = {
        **reached,
        **{partition: max(end, reached.get(partition, 0)) for partition, end in ends.items()},
    }
    return Lag(
        {partition: reached.get(partition, begins.get(partition, 0)) for partition in latest},
        latest,
    )


class TriggerPace:
    """Decides whether a micro-batch waits for more offsets."""

    def __init__(self, at_least: int | None, delay_ms: int) -> None:
        """`delay_ms` is the longest wait for `at_least` offsets; None means never to wait."""
        self._at_least = at_least
        self._delay_ms = delay_ms
        self._last_ms: float | None = None
        """When the last micro-batch was due; None before the first."""

    def waits(self, records: int, now_ms: float) -> bool:
        """Whether so many offsets are too few at this time of a monotonic clock."""
        if self._at_least is None:
            return False
        is_late = self._last_ms is None or now_ms - self._last_ms >= self._delay_ms
        if records < self._at_least and not is_late:
            return True
        self._last_ms = now_ms
        return False
