"""The scenarios of a tiered topic, step by step beside a Kafka: disk, tier, offsets are the same.

The tier of Kafka is its own `LocalTieredStorage`. Segments are cut by their time index, one batch
or two to each, so that both brokers cut at the same offsets.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.processes.live_files import live_paths
from tierlog.bench.harness.processes.tierlog_node import TierlogNode

from ..scenarios.tiering.one_broker import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    PENDING,
    PROPERTIES,
    WAIT_S,
    OneBroker,
    numbered,
)
from ..scenarios.tiering.tier_stores import DirectoryTier
from ..waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requires("java", "mvn")]

DAY_MS = 24 * 3_600 * 1_000
NAMES = (EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, PENDING)


class Observed(NamedTuple):
    """What can be seen of a partition from outside."""

    disk: list[int]
    tier: list[int]
    offsets: list[tuple[int, int]]
    first_epoch: tuple[int, int]


class Beside(OneBroker):
    """One of the two brokers, with its tier in the directory `remote`."""

    def __init__(self, directory: Path, node: BrokerNode) -> None:
        super().__init__(directory, DirectoryTier(directory))
        self.node = node
        self.log_dirs = [directory / "logs"]
        self._tier = directory / "remote"

    def observe(self, topic: str) -> Observed:
        return Observed(
            self.local_starts(topic),
            sorted(int(path.name[:20]) for path in live_paths(self._tier, f"**/{topic}-0-*/*.log")),
            [self.offset(topic, name) for name in NAMES],
            self.first_epoch(topic),
        )

    def wait_for_tier(self, topic: str, starts: list[int]) -> None:
        """Until just these segments are in the tier."""
        self._wait(topic, lambda seen: seen.tier == starts)

    def wait_for_both(self, topic: str, disk: list[int], tier: list[int]) -> None:
        """Until just these segments are here, and those in the tier."""
        self._wait(topic, lambda seen: (seen.disk, seen.tier) == (disk, tier))

    def _wait(self, topic: str, is_so: Callable[[Observed], bool]) -> None:
        name = type(self.node).__name__
        wait_until(
            lambda: is_so(self.observe(topic)), WAIT_S, lambda: f"{name}: {self.observe(topic)}"
        )


class Twins(NamedTuple):
    """Both brokers, and that they agree."""

    kafka: Beside
    ours: Beside

    def settle(self, topic: str, tier: Sequence[int], disk: Sequence[int]) -> Observed:
        """Until both hold just these segments in the tier and here, and say the same."""
        for broker in self:
            broker.wait_for_both(topic, list(disk), list(tier))
        wait_until(
            lambda: self.kafka.observe(topic) == self.ours.observe(topic),
            WAIT_S,
            lambda: f"{self.kafka.observe(topic)} and ours {self.ours.observe(topic)}",
        )
        return self.ours.observe(topic)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    directories = [tmp_path_factory.mktemp(name) for name in ("kafka", "ours")]
    same = {"auto.create.topics.enable": "false", **PROPERTIES, "node.id": "1"}
    kafka = KafkaNode(directories[0], tiered=True, properties=same, heap="512m")
    ours = TierlogNode(directories[1], properties=same)
    with kafka, ours:
        yield Twins(Beside(directories[0], kafka), Beside(directories[1], ours))
        assert "Traceback" not in ours.output


@pytest.mark.scenario("2.1")
def test_segments_are_cut_and_offloaded_alike(twins: Twins) -> None:
    for broker in twins:
        broker.create("one", per_segment=1)
        broker.produce("one", range(3))
        broker.create("two", per_segment=2)
        broker.produce("two", range(5))
    twins.settle("one", tier=[0, 1], disk=[2])
    twins.settle("two", tier=[0, 2], disk=[4])
    for broker in twins:
        assert broker.read("one", 1, 2) == numbered([1, 2])
        assert broker.read("two", 1, 4) == numbered(range(1, 5))


@pytest.mark.scenario("2.4")
def test_the_active_segment_is_rolled_alike(twins: Twins) -> None:
    for broker in twins:
        broker.create("idle")
        broker.alter("idle", local_retention_ms=1)
        broker.produce("idle", range(4))
    twins.settle("idle", tier=[0, 1, 2, 3], disk=[4])


@pytest.mark.scenario("2.6")
def test_size_takes_away_the_same_segments(twins: Twins) -> None:
    for broker in twins:
        with_a_record_from_tomorrow(broker, "small")
    twins.settle("small", tier=[0, 1, 2], disk=[3])
    for broker in twins:
        broker.alter("small", retention_bytes=1)
    assert twins.settle("small", tier=[], disk=[3]).first_epoch == (0, 3)


@pytest.mark.scenario("2.6")
def test_a_record_from_tomorrow_keeps_its_segment_in_kafka_alone(twins: Twins) -> None:
    """KAFKA-20609 is not in Kafka 4.3.1: here we are ahead of it."""
    for broker in twins:
        with_a_record_from_tomorrow(broker, "brief")
    twins.settle("brief", tier=[0, 1, 2], disk=[3])
    for broker in twins:
        broker.alter("brief", retention_ms=1)
    twins.ours.wait_for_local("brief", 4)
    twins.ours.wait_for_tier("brief", [3])
    twins.kafka.wait_for_tier("brief", [])
    assert twins.kafka.local_starts("brief") == [3]
    for broker in twins:
        assert broker.offset("brief", EARLIEST) == (3, 0)
        assert broker.read("brief", 3, 1) == numbered([3])


def with_a_record_from_tomorrow(broker: OneBroker, topic: str) -> None:
    broker.create(topic, message_timestamp_after_max_ms=2**62)
    now_ms = int(time.time() * 1_000)
    broker.produce(topic, range(3), timestamp=now_ms)
    broker.produce(topic, [3], timestamp=now_ms + DAY_MS)


@pytest.mark.scenario("2.7")
@pytest.mark.scenario("2.11")
def test_deleted_records_leave_the_same_behind(twins: Twins) -> None:
    for broker in twins:
        broker.create("cut", per_segment=2)
        broker.produce("cut", range(9))
    twins.settle("cut", tier=[0, 2, 4, 6], disk=[8])
    for before, tier, disk in ((1, [0, 2, 4, 6], [8]), (5, [4, 6], [8]), (8, [], [8])):
        for broker in twins:
            broker.delete_records("cut", before)
        seen = twins.settle("cut", tier=tier, disk=disk)
        assert seen.offsets[0][0] == before
        for broker in twins:
            assert broker.read("cut", 0, 9 - before) == numbered(range(before, 9))


@pytest.mark.scenario("2.9")
def test_read_only_and_off_alike(twins: Twins) -> None:
    read_only = {"local_retention_bytes": -2, "local_retention_ms": -2}
    for broker in twins:
        broker.create("off")
        broker.produce("off", range(3))
    twins.settle("off", tier=[0, 1], disk=[2])
    for broker in twins:
        broker.alter("off", remote_log_copy_disable=True, **read_only)
        broker.produce("off", [3])
    twins.settle("off", tier=[0, 1], disk=[2, 3])
    for broker in twins:
        broker.delete_records("off", 1)
    twins.settle("off", tier=[1], disk=[2, 3])
    for broker in twins:
        broker.alter("off", remote_storage_enable=False, remote_log_delete_on_disable=True)
    twins.settle("off", tier=[], disk=[2, 3])
    for broker in twins:
        assert broker.read("off", 0, 2) == numbered([2, 3])


@pytest.mark.scenario("2.11")
def test_a_new_leader_epoch_and_the_end_of_the_old_one(twins: Twins) -> None:
    for broker in twins:
        broker.create("epochs")
        broker.produce("epochs", range(3))
    twins.settle("epochs", tier=[0, 1], disk=[2])
    for broker in twins:
        broker.bounce()
        broker.produce("epochs", [3])
        broker.wait_for_local("epochs", 3)
        assert broker.offset("epochs", LATEST_TIERED) == (2, 0)
        broker.delete_records("epochs", 3)
        broker.wait_for_tier("epochs", [])
        # The epoch of the last tiered offset has gone with its records.
        assert broker.offset("epochs", LATEST_TIERED) == (2, -1)
        assert broker.offset("epochs", EARLIEST)[0] == broker.offset("epochs", PENDING)[0] == 3
