"""What the metrics of tiered storage say while a partition is copied, read, throttled and given up.

A metric is of use only if it moves when what it tells of happens, and for the broker that does it.
"""

from dataclasses import replace
from math import isnan

import pytest

from tierlog.broker.metrics.metrics import Metrics
from tierlog.broker.metrics.tier_metrics import register_tier_metrics
from tierlog.clients.errors import KafkaError
from tierlog.tests.simulation.loop import SimulatedLoop

from .tiered_broker import CONFIG, PARTITION, TieredBroker, leading_broker, until

TOPIC = "kafka.server:type=BrokerTopicMetrics,name="
MANAGER = "kafka.log.remote:type=RemoteLogManager"


def figures(broker: TieredBroker) -> dict[str, float]:
    """Every figure of this moment, by name and attribute."""
    metrics = Metrics()
    register_tier_metrics(metrics, broker.manager, broker.log_of)
    return {f"{name} {attribute}": value for name, attribute, value in metrics.samples()}


async def test_copies_and_reads_are_counted_for_the_topic_and_for_all(broker: TieredBroker) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    await broker.read(0)
    found = figures(broker)
    for of in ("", ",topic=orders"):
        assert found[f"{TOPIC}RemoteCopyRequestsPerSec{of} Count"] == 2
        assert found[f"{TOPIC}RemoteCopyBytesPerSec{of} Count"] > 0
        assert found[f"{TOPIC}RemoteFetchRequestsPerSec{of} Count"] == 1
        assert found[f"{TOPIC}RemoteFetchBytesPerSec{of} Count"] > 0
    assert found[f"{TOPIC}RemoteCopyErrorsPerSec Count"] == 0
    assert found[f"{MANAGER},name=RemoteLogReaderFetchRateAndTimeMs Count"] == 1
    assert found[f"{MANAGER},name=RemoteLogManagerTasksAvgIdlePercent Value"] == 1


async def test_lag_is_what_may_be_copied_and_is_not_yet(broker: TieredBroker) -> None:
    broker.tier.is_down = True
    broker.append(4)
    lag = f"{TOPIC}RemoteCopyLagSegments,topic=orders Value"
    await until(lambda: figures(broker).get(lag) == 3)
    assert figures(broker)[f"{TOPIC}RemoteCopyLagBytes Value"] > 0
    errors = f"{TOPIC}RemoteCopyErrorsPerSec,topic=orders Count"
    await until(lambda: figures(broker).get(errors, 0) > 0)
    broker.tier.is_down = False
    await until(lambda: figures(broker)[lag] == 0)
    assert figures(broker)[f"{TOPIC}RemoteCopyLagBytes Value"] == 0


async def test_a_broker_that_follows_reports_no_lag_of_the_partition(broker: TieredBroker) -> None:
    """Else every lag would be told by all replicas, and the sum be a multiple of it."""
    broker.tier.is_down = True
    broker.append(4)
    lag = f"{TOPIC}RemoteCopyLagSegments Value"
    await until(lambda: figures(broker)[lag] == 3)
    broker.manager.on_leadership_change([], [PARTITION])
    await until(lambda: figures(broker)[lag] == 0)
    assert figures(broker)[f"{TOPIC}RemoteCopyLagBytes Value"] == 0


async def test_how_full_retention_is_counts_both_tiers_once(broker: TieredBroker) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    share = f"{MANAGER},name=RetentionSizeInPercent,partition=0,topic=orders Value"
    await until(lambda: share in figures(broker))
    assert figures(broker)[share] == 0
    size = broker.metadata.remote_log(PARTITION).finished_bytes + broker.log.size_in_bytes
    limited = replace(broker.log.config, retention_bytes=2 * size)
    broker.log.update_config(limited)
    await until(lambda: figures(broker)[share] == 50)


async def test_a_throttled_read_and_a_throttled_copy_say_for_how_long(loop: SimulatedLoop) -> None:
    slow = replace(CONFIG, copy_max_bytes_per_second=1)
    async with leading_broker(loop, slow) as broker:
        before = figures(broker)
        kind = "kafka.server:type=RemoteLogManager"
        assert isnan(before[f"{kind} remote-copy-throttle-time-avg"])
        broker.append(4)
        await until(lambda: broker.log.local_log_start_offset == 3)
        waited = figures(broker)
        longest = waited[f"{kind} remote-copy-throttle-time-max"]
        assert longest >= waited[f"{kind} remote-copy-throttle-time-avg"] > 0
        assert isnan(waited[f"{kind} remote-fetch-throttle-time-avg"])
        await broker.read(0)
        broker.manager.reads.fetch_quota.bytes_per_second = 1
        assert broker.manager.is_fetch_throttled
        assert figures(broker)[f"{kind} remote-fetch-throttle-time-max"] > 0
        assert figures(broker)["kafka.server:type=RLMCopy byte-rate"] > 0


async def test_a_read_says_what_the_caches_had(broker: TieredBroker) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    await broker.read(0)
    await broker.read(0)
    found = figures(broker)
    for cache in ("ChunkCache", "RemoteIndexCache"):
        assert found[f"tierlog.tiering:type={cache} misses-total"] == 1
        assert found[f"tierlog.tiering:type={cache} hits-total"] >= 1


async def test_an_error_is_counted_and_its_time_as_well(broker: TieredBroker) -> None:
    broker.append(3)
    await until(lambda: broker.log.local_log_start_offset == 2)
    broker.tier.is_down = True
    with pytest.raises(KafkaError):
        await broker.read(0)
    found = figures(broker)
    assert found[f"{TOPIC}RemoteFetchErrorsPerSec,topic=orders Count"] == 1
    assert found[f"{MANAGER},name=RemoteLogReaderFetchRateAndTimeMs Count"] == 1
