"""Counts of what goes to and comes from the tier, for the metrics of KIP-405 and KIP-963.

Each count is kept per topic; the sum over topics is Kafka's broker-wide metric of the same name.
"""

from collections import Counter


class TierStatistics:
    """Monotonic counters by topic, under Kafka's metric names without their rate suffix."""

    def __init__(self) -> None:
        self.remote_copy_requests: Counter[str] = Counter()
        self.remote_copy_bytes: Counter[str] = Counter()
        self.remote_copy_errors: Counter[str] = Counter()
        self.remote_fetch_requests: Counter[str] = Counter()
        self.remote_fetch_bytes: Counter[str] = Counter()
        self.remote_fetch_errors: Counter[str] = Counter()

    def copy_began(self, topic: str) -> None:
        """A segment is about to be copied."""
        self.remote_copy_requests[topic] += 1

    def copied(self, topic: str, nbytes: int) -> None:
        """A segment is in the tier."""
        self.remote_copy_bytes[topic] += nbytes

    def copy_failed(self, topic: str) -> None:
        """A step of a copy has failed."""
        self.remote_copy_errors[topic] += 1

    def fetch_began(self, topic: str) -> None:
        """A reader wants remote data."""
        self.remote_fetch_requests[topic] += 1

    def fetched(self, topic: str, nbytes: int) -> None:
        """A reader got remote data."""
        self.remote_fetch_bytes[topic] += nbytes

    def fetch_failed(self, topic: str) -> None:
        """A reader got an error."""
        self.remote_fetch_errors[topic] += 1
