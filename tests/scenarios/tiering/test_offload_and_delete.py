"""Segments go to the tier, are read from there, and are deleted there (scenarios 2.1 to 2.9)."""

import time
from pathlib import Path

import pytest

from tierlog.tests.scenarios.tiering.one_broker import EARLIEST, LATEST_TIERED, OneBroker
from tierlog.tests.scenarios.tiering.tier_stores import DirectoryTier, TierStore

pytestmark = pytest.mark.slow

DAY_MS = 24 * 3_600 * 1_000


@pytest.mark.scenario("2.1")
def test_offload_and_consume_from_the_leader(tmp_path: Path, each_store: TierStore) -> None:
    with OneBroker(tmp_path, each_store) as broker:
        broker.create("topicA", per_segment=1)
        broker.produce("topicA", range(3))
        broker.wait_for_segments("topicA", {0: [0], 1: [1]})
        broker.wait_for_local("topicA", 2)
        broker.create("topicB", per_segment=2)
        broker.produce("topicB", range(5))
        broker.wait_for_segments("topicB", {0: [0, 1], 2: [2, 3]})
        broker.wait_for_local("topicB", 4)
        assert broker.count("RemoteCopyRequestsPerSec", "topicA") == 2
        assert broker.count("RemoteCopyRequestsPerSec", "topicB") == 2
        broker.bounce()
        broker.consume("topicA", 1, 2, tier=1, fetches=1)
        broker.consume("topicB", 1, 4, tier=3, fetches=2)
        assert broker.count("RemoteCopyRequestsPerSec", "topicA") == 0


@pytest.mark.scenario("2.4")
def test_the_active_segment_is_rolled_and_offloaded(tmp_path: Path, store: DirectoryTier) -> None:
    """For a topic that gets too little to ever fill one (KAFKA-15047)."""
    with OneBroker(tmp_path, store) as broker:
        broker.create("topicA")
        broker.alter("topicA", local_retention_ms=1)
        broker.produce("topicA", range(4))
        broker.wait_for_segments("topicA", {number: [number] for number in range(4)})
        broker.wait_for_local("topicA", 4)
        assert broker.local_starts("topicA") == [4]
        broker.consume("topicA", 0, 4, tier=4, fetches=4)
        broker.crash()
        broker.consume("topicA", 0, 4, tier=4, fetches=4)
        broker.produce("topicA", [4])
        broker.wait_for_local("topicA", 5)


def with_a_record_from_tomorrow(broker: OneBroker) -> None:
    """Three records of now in the tier, and one of tomorrow in the active segment."""
    broker.create("topicA", message_timestamp_after_max_ms=2**62)
    now_ms = int(time.time() * 1_000)
    broker.produce("topicA", range(3), timestamp=now_ms)
    broker.produce("topicA", [3], timestamp=now_ms + DAY_MS)
    broker.wait_for_segments("topicA", {0: [0], 1: [1], 2: [2]})
    broker.wait_for_local("topicA", 3)


@pytest.mark.scenario("2.6")
def test_segments_are_deleted_by_size(tmp_path: Path, each_store: TierStore) -> None:
    with OneBroker(tmp_path, each_store) as broker:
        with_a_record_from_tomorrow(broker)
        broker.alter("topicA", retention_bytes=1)
        broker.wait_for_count("RemoteDeleteRequestsPerSec", "topicA", 3)
        broker.wait_until_empty("topicA")
        broker.wait_for_first_epoch("topicA", (0, 3))
        assert broker.offset("topicA", EARLIEST) == (3, 0)
        found = broker.consume("topicA", 0, 1, tier=0, fetches=0)
        assert found[0].offset == 3
        assert broker.local_starts("topicA") == [3]
        assert broker.count("RemoteDeleteRequestsPerSec", "topicA") == 3
        assert broker.count("RemoteDeleteErrorsPerSec", "topicA") == 0


@pytest.mark.scenario("2.6")
def test_segments_are_deleted_by_time(tmp_path: Path, each_store: TierStore) -> None:
    """A record from the future keeps its copy in the tier, and no longer its local segment.

    So it is from KAFKA-20609 on; Kafka 4.3.1 would keep the segment here until tomorrow.
    """
    with OneBroker(tmp_path, each_store) as broker:
        with_a_record_from_tomorrow(broker)
        broker.alter("topicA", retention_ms=1)
        broker.wait_for_count("RemoteDeleteRequestsPerSec", "topicA", 3)
        broker.wait_for_segments("topicA", {3: [3]})
        broker.wait_for_local("topicA", 4)
        broker.wait_for_first_epoch("topicA", (0, 3))
        assert broker.offset("topicA", EARLIEST) == (3, 0)
        broker.consume("topicA", 3, 1, tier=1, fetches=1)
        assert broker.count("RemoteDeleteRequestsPerSec", "topicA") == 3
        assert broker.count("RemoteDeleteErrorsPerSec", "topicA") == 0


@pytest.mark.scenario("2.8")
def test_a_deleted_topic_leaves_nothing(tmp_path: Path, each_store: TierStore) -> None:
    with OneBroker(tmp_path, each_store) as broker:
        broker.create("topicA", partitions=2)
        for partition in range(2):
            broker.produce("topicA", range(3), partition=partition)
        for partition in range(2):
            broker.wait_for_segments("topicA", {0: [0], 1: [1]}, partition)
            broker.wait_for_local("topicA", 2, partition)
        broker.create("other")
        broker.produce("other", range(2))
        broker.wait_for_segments("other", {0: [0]})
        before = broker.count("RemoteDeleteRequestsPerSec")
        broker.delete_topic("topicA")
        for partition in range(2):
            broker.wait_until_empty("topicA", partition)
        assert broker.count("RemoteDeleteRequestsPerSec") - before == 4
        broker.wait_for_segments("other", {0: [0]})
        # One of the same name has nothing to do with it.
        broker.create("topicA", partitions=2)
        broker.produce("topicA", range(2))
        broker.wait_for_segments("topicA", {0: [0]})
        broker.consume("topicA", 0, 2, tier=1)


@pytest.mark.scenario("2.9")
def test_remote_storage_is_switched_off_for_a_topic(tmp_path: Path, each_store: TierStore) -> None:
    """KIP-950: first to read only, then away."""
    with OneBroker(tmp_path, each_store) as broker:
        broker.create("topicA")
        broker.produce("topicA", range(3))
        broker.wait_for_segments("topicA", {0: [0], 1: [1]})
        broker.wait_for_local("topicA", 2)
        read_only = {"local_retention_bytes": -2, "local_retention_ms": -2}
        broker.alter("topicA", remote_log_copy_disable=True, **read_only)
        broker.consume("topicA", 0, 3, tier=2, fetches=2)
        broker.alter("topicA", remote_log_copy_disable=False, local_retention_bytes=1)
        broker.produce("topicA", [3])
        broker.wait_for_segments("topicA", {0: [0], 1: [1], 2: [2]})
        broker.wait_for_local("topicA", 3)
        broker.alter("topicA", remote_log_copy_disable=True, **read_only)
        broker.consume("topicA", 0, 4, tier=3, fetches=3)
        broker.delete_records("topicA", 1)
        broker.wait_for_segments("topicA", {1: [1], 2: [2]})
        assert broker.count("RemoteDeleteRequestsPerSec", "topicA") == 1
        broker.alter("topicA", remote_storage_enable=False, remote_log_delete_on_disable=True)
        broker.wait_until_empty("topicA")
        broker.wait_for_offset("topicA", EARLIEST, (3, 0))
        assert broker.offset("topicA", LATEST_TIERED) == (-1, -1)
        broker.consume("topicA", 3, 1, tier=0)
        broker.crash()
        assert broker.offset("topicA", EARLIEST) == (3, 0)
        broker.consume("topicA", 0, 1, tier=0)
        assert broker.count("RemoteFetchRequestsPerSec", "topicA") == 0
