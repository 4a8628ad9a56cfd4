"""Exponential back-off with jitter (`ExponentialBackoff` in Kafka).

The wait doubles with each failure up to a bound, with a jitter of ±20 %, so that clients that lost
the same broker at the same time do not reconnect at the same time (KIP-144).
"""

from random import Random
from typing import NamedTuple

_JITTER = 0.2
_DOUBLINGS_MAX = 32


class Backoff(NamedTuple):
    """The first wait and the longest one, both before jitter."""

    initial_ms: int
    max_ms: int

    def delay_seconds(self, failures: int, random: Random) -> float:
        """The wait after this many failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        doublings = min(failures - 1, _DOUBLINGS_MAX)
        delay_ms = min(self.initial_ms << doublings, self.max_ms)
        return delay_ms * random.uniform(1 - _JITTER, 1 + _JITTER) / 1000
