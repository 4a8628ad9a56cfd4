"""A limit on bytes per second to or from the tier (KIP-956, `RLMQuotaManager`).

The rate is measured over a few whole samples and the current one. Bytes are recorded when an
operation begins, so one large segment may overshoot; the operations after it wait until the rate
over the window is below the quota again. Callers pass the time, in seconds of the event loop.
"""

from collections import deque

UNLIMITED = 2**63 - 1


class ByteRateQuota:
    """A limit on bytes per second over a sliding window of samples."""

    def __init__(self, bytes_per_second: int, samples: int = 11, sample_seconds: int = 1) -> None:
        self.bytes_per_second = bytes_per_second
        """May be changed at any time."""
        self._samples_max = samples
        self._sample_seconds = sample_seconds
        self._samples: deque[tuple[int, int]] = deque()
        self._total = 0

    def record(self, nbytes: int, now: float) -> None:
        """Count bytes that are about to be moved, even without a limit."""
        self._expire(now)
        sample = int(now / self._sample_seconds)
        if self._samples and self._samples[-1][0] == sample:
            nbytes_before = self._samples.pop()[1]
        else:
            nbytes_before = 0
        self._samples.append((sample, nbytes_before + nbytes))
        self._total += nbytes

    def rate(self, now: float) -> float:
        """Bytes per second over the window (`byte-rate` of Kafka's RLMCopy and RLMFetch)."""
        self._expire(now)
        return self._total / max(self._window_seconds(now), 1.0)

    def throttle_seconds(self, now: float) -> float:
        """How long to wait before the next operation; 0 if it may begin."""
        if self.bytes_per_second >= UNLIMITED:
            return 0.0
        self._expire(now)
        window = self._window_seconds(now)
        excess = self._total - self.bytes_per_second * window
        return excess / self.bytes_per_second if excess > 0 else 0.0

    def _expire(self, now: float) -> None:
        oldest = int(now / self._sample_seconds) - self._samples_max + 1
        while self._samples and self._samples[0][0] < oldest:
            self._total -= self._samples.popleft()[1]

    def _window_seconds(self, now: float) -> float:
        """The window; earlier samples count as full, so that a start from idle is not a burst."""
        return (self._samples_max - 1) * self._sample_seconds + now % self._sample_seconds
