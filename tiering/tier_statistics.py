"""Counters of traffic to and from the tier, and gauges of what is yet to be copied or deleted.

These are the figures behind the metrics of KIP-405, 956, 963 and 1018. Counters only grow, one
number per topic. Gauges are set by the leader of a partition and kept per partition: a topic's
gauge is the sum over the partitions that this broker leads, and a partition that it no longer
leads is not counted, so that no partition's lag is reported by two brokers. The sum over topics is
Kafka's metric of the same name without a topic.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import nan
from typing import NamedTuple

from ..clients.topic_partition import TopicPartition

_WINDOW_SECONDS = 30.0


def _elapsed_seconds() -> float:
    return asyncio.get_running_loop().time()


class PartitionGauge:
    """One number per partition, set again from time to time."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, float]] = {}

    def set(self, partition: TopicPartition, value: float) -> None:
        self._topics.setdefault(partition.topic, {})[partition.partition] = value

    def forget(self, partition: TopicPartition) -> None:
        """Remove its number; its topic's gauge stays, with the remaining partitions."""
        self._topics.get(partition.topic, {}).pop(partition.partition, None)

    def forget_topic(self, topic: str) -> None:
        self._topics.pop(topic, None)

    def by_partition(self) -> Iterator[tuple[TopicPartition, float]]:
        """The numbers as they were set; numbers may be set and removed meanwhile."""
        for topic, values in list(self._topics.items()):
            for partition, value in list(values.items()):
                yield TopicPartition(topic, partition), value

    def by_topic(self) -> dict[str, float]:
        """The sum over the partitions of each topic."""
        return {topic: sum(values.values()) for topic, values in self._topics.items()}


class _Window(NamedTuple):
    """The times of one half minute: their number, sum and maximum."""

    times: int = 0
    total: float = 0.0
    longest: float = 0.0


class RecentTimes:
    """The total number and sum of measured times; average and maximum of recent ones.

    As in Kafka's sensors, recent is this half minute and the one before. When neither has a
    time, average and maximum are NaN, as in Kafka. All times are in milliseconds.
    """

    def __init__(self, clock: Callable[[], float] = _elapsed_seconds) -> None:
        self.count = 0
        self.total = 0.0
        self._clock = clock
        self._number: int = 0
        self._current = self._previous = _Window()

    def record(self, milliseconds: float) -> None:
        self.count += 1
        self.total += milliseconds
        self._turn()
        count, total, longest = self._current
        self._current = _Window(count + 1, total + milliseconds, max(longest, milliseconds))

    @property
    def average(self) -> float:
        self._turn()
        count = self._current.times + self._previous.times
        return (self._current.total + self._previous.total) / count if count else nan

    @property
    def maximum(self) -> float:
        self._turn()
        if not self._current.times and not self._previous.times:
            return nan
        return max(self._current.longest, self._previous.longest)

    def _turn(self) -> None:
        """Start a new window if the current one has ended."""
        number = int(self._clock() / _WINDOW_SECONDS)
        if number != self._number:
            self._previous = self._current if number == self._number + 1 else _Window()
            self._current = _Window()
            self._number = number


class TierStatistics:
    """Counters by topic and gauges by partition, under Kafka's names without their rate suffix."""

    def __init__(self, clock: Callable[[], float] = _elapsed_seconds) -> None:
        self.remote_copy_requests: Counter[str] = Counter()
        self.remote_copy_bytes: Counter[str] = Counter()
        self.remote_copy_errors: Counter[str] = Counter()
        self.remote_fetch_requests: Counter[str] = Counter()
        self.remote_fetch_bytes: Counter[str] = Counter()
        self.remote_fetch_errors: Counter[str] = Counter()
        self.remote_delete_requests: Counter[str] = Counter()
        self.remote_delete_errors: Counter[str] = Counter()
        self.build_aux_requests: Counter[str] = Counter()
        self.build_aux_errors: Counter[str] = Counter()
        self.remote_copy_lag_bytes = PartitionGauge()
        self.remote_copy_lag_segments = PartitionGauge()
        self.remote_delete_lag_bytes = PartitionGauge()
        self.remote_delete_lag_segments = PartitionGauge()
        self.remote_log_metadata_count = PartitionGauge()
        self.remote_log_size_bytes = PartitionGauge()
        self.remote_log_size_computation_ms = PartitionGauge()
        self.copy_throttle_times = RecentTimes(clock)
        self.fetch_throttle_times = RecentTimes(clock)
        self.fetch_times = RecentTimes(clock)

    @property
    def counters(self) -> Mapping[str, Counter[str]]:
        """Every counter under the name of its metric in `BrokerTopicMetrics`."""
        return {
            "RemoteCopyRequestsPerSec": self.remote_copy_requests,
            "RemoteCopyBytesPerSec": self.remote_copy_bytes,
            "RemoteCopyErrorsPerSec": self.remote_copy_errors,
            "RemoteFetchRequestsPerSec": self.remote_fetch_requests,
            "RemoteFetchBytesPerSec": self.remote_fetch_bytes,
            "RemoteFetchErrorsPerSec": self.remote_fetch_errors,
            "RemoteDeleteRequestsPerSec": self.remote_delete_requests,
            "RemoteDeleteErrorsPerSec": self.remote_delete_errors,
            "BuildRemoteLogAuxStateRequestsPerSec": self.build_aux_requests,
            "BuildRemoteLogAuxStateErrorsPerSec": self.build_aux_errors,
        }

    @property
    def gauges(self) -> Mapping[str, PartitionGauge]:
        """Every gauge under the name of its metric in `BrokerTopicMetrics`."""
        return {
            "RemoteCopyLagBytes": self.remote_copy_lag_bytes,
            "RemoteCopyLagSegments": self.remote_copy_lag_segments,
            "RemoteDeleteLagBytes": self.remote_delete_lag_bytes,
            "RemoteDeleteLagSegments": self.remote_delete_lag_segments,
            "RemoteLogMetadataCount": self.remote_log_metadata_count,
            "RemoteLogSizeBytes": self.remote_log_size_bytes,
            "RemoteLogSizeComputationTime": self.remote_log_size_computation_ms,
        }

    def copy_began(self, topic: str) -> None:
        """Count a segment that is about to be copied."""
        self.remote_copy_requests[topic] += 1

    def copied(self, topic: str, nbytes: int) -> None:
        """Count the bytes of a segment that was copied."""
        self.remote_copy_bytes[topic] += nbytes

    def copy_failed(self, topic: str) -> None:
        """Count a failed step of a copy."""
        self.remote_copy_errors[topic] += 1

    def copy_throttled(self, seconds: float) -> None:
        """Record how long a copy waited for the broker's copy quota."""
        self.copy_throttle_times.record(seconds * 1000)

    def fetch_began(self, topic: str) -> None:
        """Count a reader's request for remote data."""
        self.remote_fetch_requests[topic] += 1

    def fetched(self, topic: str, nbytes: int) -> None:
        """Count the bytes of remote data that a reader got."""
        self.remote_fetch_bytes[topic] += nbytes

    def fetch_failed(self, topic: str) -> None:
        """Count a failed read of remote data."""
        self.remote_fetch_errors[topic] += 1

    def fetch_took(self, seconds: float) -> None:
        """Record how long a reader waited for its answer or error."""
        self.fetch_times.record(seconds * 1000)

    def fetch_throttled(self, seconds: float) -> None:
        """Record how long a remote fetch was delayed because the quota is exhausted."""
        self.fetch_throttle_times.record(seconds * 1000)

    def delete_began(self, topic: str) -> None:
        """Count a segment that is about to be deleted from the tier."""
        self.remote_delete_requests[topic] += 1

    def deleted(self, topic: str) -> None:
        """Do nothing: Kafka has no metric of deleted segments; it is requests minus errors."""

    def delete_failed(self, topic: str) -> None:
        """Count a failed deletion of a segment; it will be retried."""
        self.remote_delete_errors[topic] += 1

    def build_aux_began(self, topic: str) -> None:
        """Count a follower that is about to build its aux state from the tier."""
        self.build_aux_requests[topic] += 1

    def build_aux_failed(self, topic: str) -> None:
        """Count a follower that could not build its aux state from the tier."""
        self.build_aux_errors[topic] += 1

    def set_copy_lag(self, partition: TopicPartition, nbytes: int, segments: int) -> None:
        """Set how much of the closed segments is not copied yet."""
        self.remote_copy_lag_bytes.set(partition, nbytes)
        self.remote_copy_lag_segments.set(partition, segments)

    def set_delete_lag(self, partition: TopicPartition, nbytes: int, segments: int) -> None:
        """Set how much in the tier is past retention and not yet deleted."""
        self.remote_delete_lag_bytes.set(partition, nbytes)
        self.remote_delete_lag_segments.set(partition, segments)

    def set_log_size(self, partition: TopicPartition, nbytes: int, computation_ms: float) -> None:
        """Set a partition's size in the tier and how long its computation took."""
        self.remote_log_size_bytes.set(partition, nbytes)
        self.remote_log_size_computation_ms.set(partition, computation_ms)

    def set_metadata_count(self, partition: TopicPartition, count: int) -> None:
        """Set how many segments of the partition the metadata has."""
        self.remote_log_metadata_count.set(partition, count)

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition's gauges: another broker leads it and reports them."""
        for gauge in self.gauges.values():
            gauge.forget(partition)

    def forget_topic(self, topic: str) -> None:
        """Drop the metrics of a deleted topic."""
        for counter in self.counters.values():
            counter.pop(topic, None)
        for gauge in self.gauges.values():
            gauge.forget_topic(topic)
