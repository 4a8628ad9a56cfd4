"""The rate of throttled replication on one side, leader or follower (KIP-73). Pure.

Kafka's `ReplicationQuotaManager` measures with `SimpleRate`: the bytes of the samples, over the
time since the first of them began, which counts as one whole sample at least. So there is no burst
at the start, and `n` bytes at a limit of `r` take `n / r` seconds. Callers pass the time, in
seconds of the event loop.
"""

from collections import deque

UNLIMITED = 2**63 - 1
"""The limit if none is set, in bytes per second."""


class ReplicationQuota:
    """A limit on bytes per second, and the samples of the last seconds."""

    def __init__(self, samples: int = 11, sample_seconds: int = 1) -> None:
        """replication.quota.window.num and replication.quota.window.size.seconds."""
        self.bytes_per_second = UNLIMITED
        """May be changed at any time; 0 lets a first response through in each window."""
        self._samples_max = samples
        self._sample_seconds = sample_seconds
        # When each sample began, and its bytes. No two begin within the time of one sample, and old
        # ones leave, so that there are `samples` at most.
        self._samples: deque[tuple[float, int]] = deque()
        self._total = 0

    def record(self, nbytes: int, now: float) -> None:
        """Count bytes that were replicated, even without a limit."""
        self._expire(now)
        if self._samples and now - self._samples[-1][0] < self._sample_seconds:
            began, before = self._samples.pop()
        else:
            began, before = now, 0
        self._samples.append((began, before + nbytes))
        self._total += nbytes

    def rate(self, now: float) -> float:
        """Bytes per second (the metric `byte-rate`)."""
        self._expire(now)
        if not self._samples:
            return 0.0
        return self._total / max(now - self._samples[0][0], self._sample_seconds)

    def is_exceeded(self, now: float) -> bool:
        """Whether throttled replicas must wait."""
        return self.bytes_per_second < UNLIMITED and self.rate(now) > self.bytes_per_second

    def wait_seconds(self, now: float) -> float:
        """How long the quota stays exceeded if nothing more is recorded; 0 if it is not."""
        if not self.is_exceeded(now):
            return 0.0
        lasts = self._samples_max * self._sample_seconds
        limit = self.bytes_per_second
        return self._samples[0][0] + (min(self._total / limit, lasts) if limit else lasts) - now

    def _expire(self, now: float) -> None:
        oldest = now - self._samples_max * self._sample_seconds
        while self._samples and self._samples[0][0] <= oldest:
            self._total -= self._samples.popleft()[1]
