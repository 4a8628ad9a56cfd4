"""Wherever the power goes while a follower begins after the tier, it becomes like its leader."""

import pytest

from tierlog.storage.manager.future_copy import FutureCopy
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.replication.tiered_consumer import whole_log
from tierlog.tests.replication.tiered_replicas import (
    NAME,
    NOW_MS,
    PARTITION,
    TIERED,
    ReplicaGroup,
    ReplicaNode,
    local_batches,
)
from tierlog.tests.simulation.crash_points import cut_power_everywhere
from tierlog.tests.simulation.files import SimulatedFiles


class NewFollower:
    """A follower that has nothing, of a leader whose older records are only in the tier."""

    def __init__(self) -> None:
        self.group = ReplicaGroup()
        self.leader, self.follower = self.group.nodes[1], self.group.nodes[2]

    def prepare(self, files: SimulatedFiles) -> None:
        self.follower.disk = files.disk
        self.follower.start()
        self.fill_follower()
        self.follower.log.flush()
        self.follower.checkpoint()
        self.grow_leader()

    def fill_follower(self) -> None:
        self.group.elect(1)
        self.produce(3)

    def produce(self, count: int) -> None:
        leader = self.leader
        leader.produce(count, producer_id=7, sequence=leader.log.log_end_offset)

    def grow_leader(self) -> None:
        """The leader has 0-8 in the epochs 0, 1, 3; from 6 on they are local."""
        leader = self.leader
        leader.roll()
        for _ in range(2):
            self.group.elect(1)
        self.produce(6 - leader.log.log_end_offset)
        leader.roll()
        self.group.elect(1)
        self.produce(3)
        leader.copy()
        leader.expire_local(6)
        assert leader.bounds == (0, 6, 9)

    def restart(self, files: SimulatedFiles) -> ReplicaNode:
        follower = self.follower
        follower.disk = files.disk
        follower.start()
        return follower

    def work(self, files: SimulatedFiles) -> None:
        follower = self.restart(files)
        self.group.notify(follower)
        follower.catch_up()
        follower.log.flush()
        follower.checkpoint()

    def check(self, files: SimulatedFiles) -> None:
        follower = self.restart(files)
        log = follower.log
        assert log.log_start_offset == 0, "what is in the tier is not given up"
        if log.local.segments.first.base_offset == 6:
            assert follower.epochs.items() >= {0: 0, 2: 3}.items(), "the way into the tier is lost"
            producer = log.producers.get(7)
            assert producer is not None
            assert producer.last_sequence >= 5
        self.group.notify(follower)
        follower.catch_up()
        self.check_is_like_the_leader(follower)

    def check_is_like_the_leader(self, follower: ReplicaNode) -> None:
        leader = self.leader
        assert follower.bounds == leader.bounds
        assert follower.epochs == follower.epochs_on_disk == leader.epochs
        assert [bytes(batch.view) for batch in local_batches(follower.log)] == [
            bytes(batch.view) for batch in local_batches(leader.log)
        ]
        ours, its = follower.log.producers.get(7), leader.log.producers.get(7)
        assert ours is not None
        assert its is not None
        assert ours.last_sequence == its.last_sequence
        assert not [
            name for name in follower.files.listdir(follower.log.directory) if ".tmp" in name
        ]


class LateFollower(NewFollower):
    """It has the first records, in several segments, and all of them go."""

    def fill_follower(self) -> None:
        self.group.elect(1)
        for _ in range(3):
            self.produce(1)
            self.follower.catch_up()
            self.follower.roll()


class DivergedFollower(NewFollower):
    """It led in an epoch that nobody else knows of: none of that may be taken for the leader's."""

    def fill_follower(self) -> None:
        self.group.elect(1)
        self.produce(1)
        self.follower.catch_up()
        self.group.elect(2)
        self.follower.produce(1)
        self.follower.roll()
        self.follower.produce(1)
        self.group.elect(1)
        self.produce(2)

    def grow_leader(self) -> None:
        leader = self.leader
        leader.roll()
        self.group.elect(1)
        self.produce(3)
        leader.roll()
        self.group.elect(1)
        self.produce(3)
        leader.copy()
        leader.expire_local(6)
        assert leader.bounds == (0, 6, 9)

    def check(self, files: SimulatedFiles) -> None:
        follower = self.restart(files)
        self.group.notify(follower)
        follower.catch_up()
        self.check_is_like_the_leader(follower)
        # Nobody else knows the end of this replica's own epoch, 1.
        assert 1 not in follower.epochs


class CutBelowItsFirstSegment(NewFollower):
    """An unclean leader's log ends below the follower's first segment: its history stays."""

    def fill_follower(self) -> None:
        self.group.elect(1)
        self.produce(6)

    def grow_leader(self) -> None:
        leader, follower = self.leader, self.follower
        leader.roll()
        self.produce(1)
        leader.copy()
        leader.expire_local(6)
        follower.catch_up()
        assert follower.bounds == (0, 6, 7)
        follower.log.flush()
        follower.checkpoint()
        # The leader's disk is replaced, and it leads with less than it had: 0-3 and then epoch 1.
        leader.reimage()
        self.produce(4)
        self.group.elect(1)
        self.produce(1)
        assert leader.epochs == {0: 0, 1: 4}

    def check(self, files: SimulatedFiles) -> None:
        follower = self.restart(files)
        assert follower.log.log_start_offset == 0
        self.group.notify(follower)
        follower.catch_up()
        assert follower.log.log_start_offset == 0
        assert follower.epochs == {0: 0, 1: 4}
        assert follower.local[4] == 1
        assert whole_log(follower) == {0: 0, 1: 0, 2: 0, 3: 0, 4: 1}


@pytest.mark.scenario("5")
@pytest.mark.parametrize("story", [NewFollower, LateFollower, DivergedFollower])
def test_a_follower_that_begins_after_the_tier_survives_every_crash(
    story: type[NewFollower],
) -> None:
    assert cut_power_everywhere(story, chances_per_point=3) > 20


@pytest.mark.scenario("3.5")
def test_a_tiered_log_that_is_cut_below_its_first_segment_survives_every_crash() -> None:
    assert cut_power_everywhere(CutBelowItsFirstSegment, chances_per_point=3) > 20


class TieredMove:
    """A log whose older records are in the tier is copied to another directory, half the way."""

    def __init__(self) -> None:
        self.group = ReplicaGroup((1,))
        self.node = self.group.nodes[1]

    def manager(self, files: SimulatedFiles) -> LogManager:
        for path in ("/data", "/other"):
            files.mkdirs(path)
        files.sync_dir("/")
        logs = LogManager(files, ["/data", "/other"], TIERED)
        logs.start(NOW_MS)
        self.node.logs = logs
        log = logs.get_or_create_log(NAME, PARTITION.topic_id, TIERED, NOW_MS)
        self.node.log = log
        log.update_high_watermark(log.log_end_offset)
        return logs

    def prepare(self, files: SimulatedFiles) -> None:
        node = self.node
        node.disk, node.files = files.disk, files
        self.manager(files)
        node.partition.log = node.log
        for epoch in range(3):
            self.group.elect(1)
            node.produce(2, producer_id=7, sequence=2 * epoch)
            node.roll()
        node.produce(2, producer_id=7, sequence=6)
        node.copy()
        node.expire_local(4)
        assert node.bounds == (0, 4, 8)
        node.log.flush()
        node.checkpoint()

    def work(self, files: SimulatedFiles) -> None:
        logs = self.manager(files)
        current = self.node.log
        other = logs.placement.directory_at("/other")
        future = logs.create_future_log(current, other, "0" * 32, NOW_MS)
        copy = FutureCopy(current, future)
        read = copy.next_read(1)
        assert read is not None
        # The future log begins where the local one does: nothing is fetched from the tier.
        assert read.offset == 4
        copy.append(read, read.read(), NOW_MS)
        self.node.checkpoint()
        copy.finish(1 << 20, NOW_MS)
        future.flush()
        self.node.checkpoint()

    def check(self, files: SimulatedFiles) -> None:
        logs = self.manager(files)
        current, future = self.node.log, logs.future_logs.get(NAME)
        if future is None or future.topic_id != PARTITION.topic_id:
            if future is not None:
                logs.delete_future_log(NAME, NOW_MS)
            other = logs.placement.directory_at("/other")
            future = logs.create_future_log(current, other, "1" * 32, NOW_MS)
        copy = FutureCopy(current, future)
        copy.finish(1 << 20, NOW_MS)
        assert copy.is_caught_up
        assert future.leader_epochs.entries == current.leader_epochs.entries
        assert (future.log_start_offset, future.local_log_start_offset) == (0, 4)
        assert future.log_end_offset == 8
        producer = future.producers.get(7)
        assert producer is not None
        assert producer.last_sequence == 7


@pytest.mark.scenario("5.7")
def test_a_tiered_log_on_the_move_keeps_its_way_into_the_tier_at_every_crash() -> None:
    """(KAFKA-16711, KAFKA-20961)"""
    assert cut_power_everywhere(TieredMove, chances_per_point=3) > 20
