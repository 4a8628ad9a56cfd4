"""The metrics of tiered storage, as in Kafka with remote storage (KIP-405, 963, 956).

Each metric of `BrokerTopicMetrics` always exists for all topics together, and also for each topic
with a value. A rate in Kafka is a total here; a timer has Count and Total, and Mean and Max of
recent times, in milliseconds. The reader's queue size and idle percentage have two names each;
Kafka has deprecated the one that begins with ``org.apache.kafka``.

Retention percentages are computed when they are read; Kafka computes them when it looks for
segments to delete. One compares a partition's bytes in the tier, plus its local segments that are
not in the tier, with `retention.bytes`; the other compares all its local bytes with
`local.retention.bytes`. Without a limit they are 0.

Kafka has no metrics of its caches, nor of undecodable records of the metadata topic. Those are in a
domain of their own, ``tierlog.tiering``.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...clients.topic_partition import TopicPartition
from ...storage.log.unified_log import UnifiedLog
from .metrics import COUNT, VALUE, Metrics, Sample

if TYPE_CHECKING:
    from ...replication.metadata.cluster_image import ClusterDelta, ClusterImage
    from ...tiering.remote_log_manager import RemoteLogManager
    from ...tiering.tier_statistics import TierStatistics

_TOPIC = "kafka.server:type=BrokerTopicMetrics"
_MANAGER = "kafka.log.remote:type=RemoteLogManager"
_POOLS = (
    "kafka.log.remote:type=RemoteStorageThreadPool",
    "org.apache.kafka.storage.internals.log:type=RemoteStorageThreadPool",
)
_CACHES = "tierlog.tiering:type="
_SKIPPED = "tierlog.tiering:type=RemoteLogMetadataManager,name=SkippedRecordsPerSec"
_THROTTLE = "kafka.server:type=RemoteLogManager"
_FETCH_TIMES = f"{_MANAGER},name=RemoteLogReaderFetchRateAndTimeMs"
_PURGATORY = "kafka.server:type=DelayedOperationPurgatory"
_SEARCHES_EXPIRED = "kafka.server:type=DelayedRemoteListOffsetsMetrics,name=ExpiresPerSec"
_EXPIRED = {
    "Produce": "kafka.server:type=DelayedProduceMetrics,name=ExpiresPerSec",
    "Fetch": "kafka.server:type=DelayedFetchMetrics,name=ExpiresPerSec,fetcherType=consumer",
    "RemoteFetch": "kafka.server:type=DelayedRemoteFetchMetrics,name=ExpiresPerSec",
    "RemoteListOffsets": _SEARCHES_EXPIRED,
}
"""The MBean that counts expired operations, by the purgatory's name."""


class WaitingOperations(Protocol):
    """The part of a purgatory that its metrics use."""

    name: str

    def __len__(self) -> int: ...

    @property
    def watched(self) -> int: ...

    @property
    def expired_total(self) -> int: ...


def register_tier_metrics(
    metrics: Metrics,
    manager: "RemoteLogManager",
    log_of: Callable[[TopicPartition], UnifiedLog | None],
) -> None:
    """Register the metrics of `manager`."""
    statistics = manager.statistics
    _register_manager(metrics, manager)
    metrics.family(lambda: _topic_samples(statistics))
    metrics.family(lambda: _retention_samples(statistics, log_of))


def forget_deleted_topics(
    statistics: "TierStatistics", image: "ClusterImage", delta: "ClusterDelta"
) -> None:
    """Remove the metrics of deleted topics: a controller listener, with `statistics` bound."""
    for topic in delta.deleted_topics.values():
        if topic.name not in image.topics_by_name:
            statistics.forget_topic(topic.name)


def _register_manager(metrics: Metrics, manager: "RemoteLogManager") -> None:
    statistics, reads = manager.statistics, manager.reads
    metrics.gauge(
        f"{_MANAGER},name=RemoteLogManagerTasksAvgIdlePercent", lambda: manager.idle_share
    )
    for pool in _POOLS:
        metrics.gauge(f"{pool},name=RemoteLogReaderTaskQueueSize", lambda: reads.waiting)
        metrics.gauge(f"{pool},name=RemoteLogReaderAvgIdlePercent", lambda: reads.idle_share)
    times = statistics.fetch_times
    metrics.gauge(_FETCH_TIMES, lambda: times.count, COUNT)
    metrics.gauge(_FETCH_TIMES, lambda: times.total, "Total")
    metrics.gauge(_FETCH_TIMES, lambda: times.average, "Mean")
    metrics.gauge(_FETCH_TIMES, lambda: times.maximum, "Max")
    fetch_waits, copy_waits = statistics.fetch_throttle_times, statistics.copy_throttle_times
    metrics.gauge(_THROTTLE, lambda: fetch_waits.average, "remote-fetch-throttle-time-avg")
    metrics.gauge(_THROTTLE, lambda: fetch_waits.maximum, "remote-fetch-throttle-time-max")
    metrics.gauge(_THROTTLE, lambda: copy_waits.average, "remote-copy-throttle-time-avg")
    metrics.gauge(_THROTTLE, lambda: copy_waits.maximum, "remote-copy-throttle-time-max")
    for cache, counts in (
        ("ChunkCache", reads.chunk_counts),
        ("RemoteIndexCache", reads.index_counts),
    ):
        for attribute in ("hits", "joined", "misses"):
            read = partial(getattr, counts, attribute)
            metrics.gauge(f"{_CACHES}{cache}", read, f"{attribute}-total")
    metrics.gauge(_SKIPPED, lambda: manager.metadata_records_skipped, COUNT)
    copied, fetched = manager.copy_quota, reads.fetch_quota
    metrics.gauge("kafka.server:type=RLMCopy", lambda: copied.rate(_now()), "byte-rate")
    metrics.gauge("kafka.server:type=RLMFetch", lambda: fetched.rate(_now()), "byte-rate")


def register_purgatories(
    metrics: Metrics,
    purgatories: Iterable[WaitingOperations],
    expired_searches: Mapping[TopicPartition, int],
) -> None:
    """Register, for each purgatory, the operations that wait and those that expired."""
    for purgatory in purgatories:
        tag = f"delayedOperation={purgatory.name}"
        metrics.gauge(f"{_PURGATORY},name=NumDelayedOperations,{tag}", purgatory.__len__)
        metrics.gauge(
            f"{_PURGATORY},name=PurgatorySize,{tag}", partial(getattr, purgatory, "watched")
        )
        name = _EXPIRED.get(purgatory.name)
        if name is not None:
            metrics.gauge(name, partial(getattr, purgatory, "expired_total"), COUNT)
    metrics.family(lambda: _expired_searches(expired_searches))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _topic_samples(statistics: "TierStatistics") -> Iterator[Sample]:
    for name, counter in statistics.counters.items():
        yield from _total_and_topics(name, COUNT, counter)
    for name, gauge in statistics.gauges.items():
        yield from _total_and_topics(name, VALUE, gauge.by_topic())


def _total_and_topics(
    name: str, attribute: str, by_topic: "dict[str, int] | dict[str, float]"
) -> Iterator[Sample]:
    yield Sample(f"{_TOPIC},name={name}", attribute, sum(by_topic.values()))
    for topic, value in list(by_topic.items()):
        yield Sample(f"{_TOPIC},name={name},topic={topic}", attribute, value)


def _expired_searches(expired: Mapping[TopicPartition, int]) -> Iterator[Sample]:
    for (topic, partition), count in list(expired.items()):
        yield Sample(f"{_SEARCHES_EXPIRED},partition={partition},topic={topic}", COUNT, count)


def _retention_samples(
    statistics: "TierStatistics", log_of: Callable[[TopicPartition], UnifiedLog | None]
) -> Iterator[Sample]:
    for partition, in_tier in statistics.remote_log_size_bytes.by_partition():
        log = log_of(partition)
        if log is None:
            continue
        config = log.config
        only_here = sum(
            segment.size
            for segment in log.local.segments.from_offset(log.highest_remote_offset + 1)
        )
        tags = f"partition={partition.partition},topic={partition.topic}"
        yield Sample(
            f"{_MANAGER},name=RetentionSizeInPercent,{tags}",
            VALUE,
            _percent(in_tier + only_here, config.retention_bytes),
        )
        yield Sample(
            f"{_MANAGER},name=LocalRetentionSizeInPercent,{tags}",
            VALUE,
            _percent(log.size_in_bytes, config.effective_local_retention_bytes),
        )


def _percent(nbytes: float, limit: int) -> int:
    return int(nbytes) * 100 // limit if limit > 0 else 0
