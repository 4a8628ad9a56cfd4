"""What is counted about the tier, and for whom (KIP-405, 930, 963, 956)."""

from math import isnan

import pytest

from tierlog.clients.topic_partition import TopicPartition
from tierlog.tiering.tier_statistics import PartitionGauge, RecentTimes, TierStatistics

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_topics_gauge_is_the_sum_over_the_partitions_led_here() -> None:
    gauge = PartitionGauge()
    gauge.set(ORDERS_0, 5)
    gauge.set(ORDERS_1, 7)
    gauge.set(ORDERS_1, 3)
    assert gauge.by_topic() == {"orders": 8}


def test_lag_is_reset_when_the_partition_is_led_elsewhere() -> None:
    """A follower that went on reporting would have every lag counted twice."""
    statistics = TierStatistics()
    for partition in (ORDERS_0, ORDERS_1):
        statistics.set_copy_lag(partition, 100, 1)
        statistics.set_delete_lag(partition, 200, 2)
        statistics.set_log_size(partition, 300, 3.0)
        statistics.set_metadata_count(partition, 4)
    statistics.forget(ORDERS_0)
    once = {name: gauge.by_topic()["orders"] for name, gauge in statistics.gauges.items()}
    assert once == {
        "RemoteCopyLagBytes": 100,
        "RemoteCopyLagSegments": 1,
        "RemoteDeleteLagBytes": 200,
        "RemoteDeleteLagSegments": 2,
        "RemoteLogSizeBytes": 300,
        "RemoteLogSizeComputationTime": 3,
        "RemoteLogMetadataCount": 4,
    }
    statistics.forget(ORDERS_1)
    assert {gauge.by_topic()["orders"] for gauge in statistics.gauges.values()} == {0}


def test_to_forget_what_was_never_reported_is_nothing() -> None:
    statistics = TierStatistics()
    statistics.forget(ORDERS_0)
    statistics.forget_topic("orders")
    assert all(gauge.by_topic() == {} for gauge in statistics.gauges.values())


def test_every_event_has_its_counter_by_topic() -> None:
    statistics = TierStatistics()
    statistics.copy_began("a")
    statistics.copied("a", 10)
    statistics.copy_failed("a")
    statistics.fetch_began("a")
    statistics.fetched("a", 20)
    statistics.fetch_failed("a")
    statistics.delete_began("a")
    statistics.deleted("a")
    statistics.delete_failed("a")
    statistics.build_aux_began("a")
    statistics.build_aux_failed("a")
    counted = {name: counter["a"] for name, counter in statistics.counters.items()}
    assert counted.pop("RemoteCopyBytesPerSec") == 10
    assert counted.pop("RemoteFetchBytesPerSec") == 20
    assert set(counted.values()) == {1}
    assert len(counted) == 8


def test_the_metrics_of_a_deleted_topic_go_with_it() -> None:
    statistics = TierStatistics()
    for topic in ("a", "b"):
        statistics.copy_began(topic)
        statistics.set_copy_lag(TopicPartition(topic, 0), 1, 1)
    statistics.forget_topic("a")
    assert statistics.remote_copy_requests == {"b": 1}
    assert statistics.remote_copy_lag_bytes.by_topic() == {"b": 1}


def test_throttle_times_are_reported_as_average_and_maximum() -> None:
    clock = _Clock()
    statistics = TierStatistics(clock)
    statistics.copy_throttled(0.1)
    statistics.copy_throttled(0.3)
    statistics.fetch_throttled(2)
    assert statistics.copy_throttle_times.average == pytest.approx(200)
    assert statistics.copy_throttle_times.maximum == pytest.approx(300)
    assert statistics.fetch_throttle_times.maximum == 2000


def test_times_are_of_this_half_minute_and_the_one_before() -> None:
    clock = _Clock()
    times = RecentTimes(clock)
    assert isnan(times.average)
    assert isnan(times.maximum)
    times.record(100)
    clock.now = 31
    times.record(300)
    assert (times.average, times.maximum) == (200, 300)
    clock.now = 61
    assert (times.average, times.maximum) == (300, 300)
    clock.now = 91
    assert isnan(times.average)
    assert (times.count, times.total) == (2, 400)


def test_after_a_long_silence_nothing_is_recent() -> None:
    clock = _Clock()
    times = RecentTimes(clock)
    times.record(100)
    clock.now = 3600
    assert isnan(times.maximum)
    times.record(5)
    assert (times.average, times.maximum) == (5, 5)
