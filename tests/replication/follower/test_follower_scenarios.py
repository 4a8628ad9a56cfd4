"""The follower fetch scenarios of KIP-405, each as its tables tell it."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.replication.follower.fetch_state import FetchState
from tierlog.replication.follower.follower_asks import EpochEndAsk
from tierlog.replication.partition.fetch_data import EpochEndOffset
from tierlog.storage.checkpoint import parse_epochs
from tierlog.storage.remote.remote_segment import RemoteLogSegmentMetadata
from tierlog.tests.replication.tiered_consumer import consume, fetch
from tierlog.tests.replication.tiered_replicas import ReplicaGroup, ReplicaNode
from tierlog.tests.simulation.disk import Survival
from tierlog.tests.tiering.memory_tier import INDEX
from tierlog.tiering.remote_storage import IndexType

MOVED = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


def closed(node: ReplicaNode, *counts: int) -> None:
    """Produce records and close a segment after each count."""
    for count in counts:
        node.produce(count)
        node.roll()


def epochs_file(group: ReplicaGroup, segment: RemoteLogSegmentMetadata) -> dict[int, int]:
    """The epoch checkpoint that went to the tier with a segment."""
    content = group.tier.segments[segment.id].indexes[IndexType.LEADER_EPOCH]
    return dict(parse_epochs(content))


def spans(segments: list[RemoteLogSegmentMetadata]) -> list[tuple[int, int]]:
    return [(segment.start_offset, segment.end_offset) for segment in segments]


def grown_leader(group: ReplicaGroup) -> ReplicaNode:
    """0-2 (0), 3-4 (1), 5-6 (2), 7 (3); segments end at 2 and 5."""
    leader = group.elect(1)
    closed(leader, 3)
    group.elect(1)
    leader.produce(2)
    group.elect(1)
    leader.produce()
    leader.roll()
    leader.produce()
    group.elect(1)
    leader.produce()
    return leader


@pytest.mark.scenario("3.1")
def test_a_new_follower_starts_where_the_leaders_local_log_does() -> None:
    group = ReplicaGroup()
    leader, follower = group.nodes[1], group.nodes[2]
    grown_leader(group)
    first, second = leader.copy()
    assert [epochs_file(group, each) for each in (first, second)] == [{0: 0}, {0: 0, 1: 3, 2: 5}]
    assert first.segment_leader_epochs == ((0, 0),)
    assert second.segment_leader_epochs == ((1, 3), (2, 5))
    leader.expire_local(3)
    assert leader.bounds == (0, 3, 8)
    answered = follower.step()
    assert answered is not None
    assert answered.error is MOVED
    assert follower.followed.state is FetchState.TIER_END
    follower.fetch_until(lambda: follower.log.log_end_offset == 3)
    assert follower.asked == [
        ("FetchAsk", 0),
        ("OffsetAsk", -1),
        ("OffsetAsk", -2),
        ("OffsetAsk", -4),
        ("EpochEndAsk", 0),
        ("AuxAsk", 2),
    ]
    assert follower.bounds == (0, 3, 3)
    assert follower.log_files == [3]
    # Apache Kafka has no entry for epoch 1 before its first record has come (KIP: already now).
    assert follower.epochs_on_disk == {0: 0}
    follower.catch_up()
    assert follower.bounds == (0, 3, 8)
    assert follower.local == {3: 1, 4: 1, 5: 2, 6: 2, 7: 3}
    assert follower.epochs == follower.epochs_on_disk == {0: 0, 1: 3, 2: 5, 3: 7}


@pytest.mark.scenario("3.1")
def test_the_follower_serves_as_leader_what_only_the_tier_has() -> None:
    group = ReplicaGroup()
    leader, follower = grown_leader(group), group.nodes[2]
    leader.copy()
    leader.expire_local(3)
    follower.catch_up()
    group.elect(2)
    expected = ["0/0", "1/0", "2/0", "3/1", "4/1", "5/2", "6/2", "7/3"]
    assert consume(follower, 0) == expected
    assert fetch(follower, 0).values == expected[:3]
    assert fetch(follower, 0).from_tier
    assert not fetch(follower, 3).from_tier


@pytest.mark.scenario("3.1")
def test_a_consumer_never_gets_offset_moved_to_tiered_storage() -> None:
    group = ReplicaGroup()
    leader = grown_leader(group)
    leader.copy()
    leader.expire_local(3)
    assert fetch(leader, 0).error is ErrorCode.NONE
    assert fetch(leader, 0, epoch=3, last_epoch=0).error is ErrorCode.NONE


def behind_by_epochs(group: ReplicaGroup) -> tuple[ReplicaNode, ReplicaNode]:
    """The leader has 0-9 in four epochs, the follower stopped at 3; segments end at 2, 5 and 8."""
    leader, follower = group.elect(1), group.nodes[2]
    closed(leader, 3)
    group.elect(1)
    leader.produce()
    follower.catch_up()
    assert follower.epochs == {0: 0, 1: 3}
    leader.produce()
    group.elect(1)
    leader.produce()
    leader.roll()
    leader.produce()
    group.elect(1)
    leader.produce(2)
    leader.roll()
    leader.produce()
    return leader, follower


@pytest.mark.scenario("3.2")
def test_a_follower_that_reaches_the_leaders_local_log_needs_no_tier() -> None:
    group = ReplicaGroup()
    leader, follower = behind_by_epochs(group)
    leader.copy()
    leader.expire_local(3)
    follower.history.clear()
    follower.catch_up()
    assert {answered.error for answered in follower.history} == {ErrorCode.NONE}
    assert {kind for kind, _ in follower.asked} == {"FetchAsk"}
    assert group.tier.asked(INDEX) == []
    assert follower.bounds == (0, 0, 10)


@pytest.mark.scenario("3.2")
def test_where_histories_part_is_asked_first_where_the_leader_does_not_compare() -> None:
    """The KIP's Truncating state: OffsetsForLeaderEpoch(1) is 5, so nothing is cut."""
    options = ReplicaGroup().options._replace(truncates_on_fetch=False)
    group = ReplicaGroup(options=options)
    _, follower = behind_by_epochs(group)
    follower.history.clear()
    assert follower.followed.state is FetchState.TRUNCATING
    follower.step()
    assert follower.asked == [("EpochEndAsk", 1)]
    assert follower.bounds == (0, 0, 4)
    follower.catch_up()
    assert follower.epochs == {0: 0, 1: 3, 2: 5, 3: 7}


@pytest.mark.scenario("3.2")
def test_a_follower_whose_data_is_too_old_drops_it() -> None:
    group = ReplicaGroup()
    leader, follower = behind_by_epochs(group)
    third = leader.copy()[2]
    assert epochs_file(group, third) == {0: 0, 1: 3, 2: 5, 3: 7}
    assert third.segment_leader_epochs == ((2, 6), (3, 7))
    leader.expire_local(9)
    leader.produce(2)
    assert leader.bounds == (0, 9, 12)
    follower.history.clear()
    answered = follower.step()
    assert answered is not None
    assert answered.error is MOVED
    assert follower.asked == [("FetchAsk", 4)]
    assert follower.bounds == (0, 0, 4), "nothing is dropped before all that replaces it is here"
    follower.fetch_until(lambda: follower.log.log_end_offset == 9)
    assert follower.epochs == {0: 0, 1: 3, 2: 5, 3: 7}
    follower.catch_up()
    assert follower.local == {9: 3, 10: 3, 11: 3}
    assert follower.bounds == (0, 9, 12)
    assert follower.log_files == [9]
    group.elect(2)
    assert consume(follower, 0)[:5] == ["0/0", "1/0", "2/0", "3/1", "4/1"]


def after_both_crashed(group: ReplicaGroup) -> tuple[ReplicaNode, ReplicaNode]:
    """B leads with 0 (0), 1 (1), 2 (1); A has shipped 0-1 of epoch 0, B then 1-1 of epoch 1."""
    first, second = group.elect(1, isr=(1, 2)), group.nodes[2]
    first.produce()
    second.catch_up()
    for node in (first, second):
        node.log.flush()
        node.checkpoint()
    first.produce()
    first.roll()
    first.produce()
    second.catch_up()
    assert [node.log.high_watermark for node in (first, second)] == [3, 3]
    [shipped] = first.copy()
    assert (shipped.start_offset, shipped.end_offset) == (0, 1)
    first.log.flush()
    first.checkpoint()
    first.crash()
    second.crash(Survival.NOTHING)
    second.start()
    group.elect(2)
    assert second.bounds == (0, 0, 1)
    second.roll()
    second.produce()
    assert second.epochs == {0: 0, 1: 1}
    return first, second


@pytest.mark.scenario("3.3")
def test_a_replica_that_kept_what_the_new_leader_lost_is_cut() -> None:
    group = ReplicaGroup()
    first, second = after_both_crashed(group)
    first.start()
    assert first.bounds == (0, 0, 3)
    group.notify(first)
    first.catch_up()
    assert first.local == second.local == {0: 0, 1: 1}
    assert first.epochs == first.epochs_on_disk == {0: 0, 1: 1}


@pytest.mark.scenario("3.3")
@pytest.mark.parametrize("is_led_by", [1, 2])
def test_only_the_surviving_branch_is_read_from_the_tier(is_led_by: int) -> None:
    group = ReplicaGroup()
    first, second = after_both_crashed(group)
    first.start()
    group.notify(first)
    first.catch_up()
    for node in (first, second):
        node.roll()
    second.produce()
    first.catch_up()
    shipped = second.copy()
    # The segment 0-0 is there as a part of 0-1 already.
    assert spans(shipped)[-1:] == [(1, 1)]
    assert shipped[-1].segment_leader_epochs == ((1, 1),)
    assert epochs_file(group, shipped[-1]) == {0: 0, 1: 1}
    for node in (first, second):
        node.expire_local(2)
        assert node.bounds == (0, 2, 3)
    node = group.elect(is_led_by)
    assert node.local.keys() >= {2}
    assert fetch(node, 0).values == ["0/0"], "offset 1 of 0-1 belongs to the dead branch"
    assert fetch(node, 1).values == ["1/1"]
    assert fetch(node, 1, epoch=node.partition.leader_epoch).values == ["1/1"]
    assert fetch(node, 2, epoch=0).error is ErrorCode.FENCED_LEADER_EPOCH
    current = node.partition.leader_epoch
    assert fetch(node, 2, last_epoch=0).diverging == EpochEndOffset(0, 1)
    assert node.answer_epoch_end(EpochEndAsk(0, current)) == EpochEndOffset(0, 1)


@pytest.mark.scenario("3.4")
def test_an_unclean_leader_serves_its_own_branch_from_the_tier() -> None:
    group = ReplicaGroup()
    first, second = group.elect(1), group.nodes[2]
    first.produce()
    second.catch_up()
    first.produce(2)
    first.roll()
    first.produce()
    [dead] = first.copy()
    assert (dead.start_offset, dead.end_offset) == (0, 2)
    first.stop()
    leader = group.elect(2)
    assert leader is second
    leader.produce()
    leader.roll()
    leader.produce()
    assert leader.epochs == {0: 0, 1: 1}
    [shipped] = leader.copy()
    assert (shipped.start_offset, shipped.end_offset) == (0, 1)
    assert shipped.segment_leader_epochs == ((0, 0), (1, 1))
    assert epochs_file(group, shipped) == {0: 0, 1: 1}
    leader.expire_local(2)
    assert leader.bounds == (0, 2, 3)
    assert consume(leader, 0) == ["0/0", "1/1", "2/1"]
    assert fetch(leader, 0).values[0] == "0/0"
    assert fetch(leader, 1).values == ["1/1"]
    assert fetch(leader, 1, epoch=1).values == ["1/1"]
    assert fetch(leader, 2, epoch=0).error is ErrorCode.FENCED_LEADER_EPOCH
    assert fetch(leader, 2, last_epoch=0).diverging == EpochEndOffset(0, 1)


def diverged_in_the_tier(group: ReplicaGroup) -> tuple[ReplicaNode, ReplicaNode]:
    """A leads {0:0, 2:5} with 6 alone on its disk; B is back with nothing. In the tier: 0-3 of
    epoch 0, 0-3 of B's branch {0:0, 1:2}, and A's 4-5."""
    first, second = group.elect(1), group.nodes[2]
    first.produce(2)
    second.catch_up()
    first.produce(2)
    first.roll()
    first.produce()
    [uuid1] = first.copy()
    assert (uuid1.start_offset, uuid1.end_offset) == (0, 3)
    assert epochs_file(group, uuid1) == {0: 0}
    first.stop()
    group.elect(2)
    second.produce(2)
    second.roll()
    second.produce()
    [uuid2] = second.copy()
    assert (uuid2.start_offset, uuid2.end_offset) == (0, 3)
    assert epochs_file(group, uuid2) == {0: 0, 1: 2}
    assert uuid2.segment_leader_epochs == ((0, 0), (1, 2))
    second.stop()
    first.start()
    group.elect(1)
    first.produce()
    first.roll()
    first.produce()
    assert first.epochs == {0: 0, 2: 5}
    [uuid3] = first.copy()
    assert (uuid3.start_offset, uuid3.end_offset) == (4, 5)
    assert epochs_file(group, uuid3) == {0: 0, 2: 5}
    assert uuid3.segment_leader_epochs == ((0, 4), (2, 5))
    first.expire_local(6)
    assert first.bounds == (0, 6, 7)
    second.reimage()
    return first, second


@pytest.mark.scenario("3.5")
def test_a_reimaged_follower_takes_over_the_leaders_branch() -> None:
    group = ReplicaGroup()
    first, second = diverged_in_the_tier(group)
    second.fetch_until(lambda: second.log.log_end_offset == 6)
    assert second.asked[0] == ("FetchAsk", 0)
    assert second.history[0].error is MOVED
    assert second.epochs == {0: 0, 2: 5}
    second.catch_up()
    assert second.bounds == (0, 6, 7)
    assert second.local == {6: 2}
    assert second.followed.lag == 0, "it may join the ISR"
    assert first.epochs == second.epochs


@pytest.mark.scenario("3.5")
def test_a_reader_never_gets_records_of_another_branch() -> None:
    group = ReplicaGroup()
    _, second = diverged_in_the_tier(group)
    second.catch_up()
    leader = group.elect(2)
    # A consumer that has read msg5 of epoch 1 learns that its branch is dead.
    assert leader.answer_epoch_end(EpochEndAsk(1, 3)) == EpochEndOffset(0, 5)
    assert fetch(leader, 3, last_epoch=1).diverging == EpochEndOffset(0, 5)
    assert fetch(leader, 3, epoch=1).error is ErrorCode.FENCED_LEADER_EPOCH
    # One of before KIP-320 asks for an offset alone.
    assert fetch(leader, 2).values[0] == "2/0"
    assert consume(leader, 0) == ["0/0", "1/0", "2/0", "3/0", "4/0", "5/2", "6/2"]


@pytest.mark.scenario("3.6")
def test_a_new_leader_copies_on_from_the_segment_that_holds_the_next_offset() -> None:
    group = ReplicaGroup()
    first, second = group.elect(1), group.nodes[2]
    closed(first, 3)
    group.elect(1)
    first.produce(2)
    first.roll()
    first.produce()
    group.elect(1)
    second.catch_up()
    # The follower cuts its segments where it will: 0-3, 4-6, 7.
    second.reimage()
    group.fetch_bytes = 1
    second.fetch_until(lambda: second.log.log_end_offset == 4)
    second.roll()
    first.produce()
    second.fetch_until(lambda: second.log.log_end_offset == 7)
    second.roll()
    assert spans(first.copy()) == [(0, 2), (3, 4)]
    second.catch_up()
    first.crash()
    leader = group.elect(2)
    leader.produce()
    assert leader.epochs == {0: 0, 1: 3, 2: 6, 3: 7}
    leader.learn_copied_offset()
    assert leader.log.highest_remote_offset == 4
    [shipped] = leader.copy()
    assert (shipped.start_offset, shipped.end_offset) == (4, 6)
    assert epochs_file(group, shipped) == {0: 0, 1: 3, 2: 6}
    assert shipped.segment_leader_epochs == ((1, 4), (2, 6))
    leader.expire_local(7)
    assert leader.bounds == (0, 7, 8)
    assert consume(leader, 0) == ["0/0", "1/0", "2/0", "3/1", "4/1", "5/1", "6/2", "7/3"]


@pytest.mark.scenario("3.6")
def test_a_new_leader_with_nothing_in_the_tier_copies_from_its_first_epoch() -> None:
    group = ReplicaGroup()
    first, second = group.elect(1), group.nodes[2]
    closed(first, 3)
    first.produce()
    second.catch_up()
    leader = group.elect(2)
    leader.roll()
    leader.produce()
    assert spans(leader.copy()) == [(0, 3)]


@pytest.mark.scenario("3.7")
def test_outside_of_the_whole_log_a_fetch_is_out_of_range() -> None:
    group = ReplicaGroup()
    leader = grown_leader(group)
    leader.copy()
    leader.expire_local(3)
    leader.log.maybe_increment_log_start_offset(2)
    assert fetch(leader, 1).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(leader, 2).values == ["2/0"]
    assert fetch(leader, 8).values == []
    assert fetch(leader, 9).error is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.scenario("3.7")
def test_records_deleted_in_the_tier_are_gone_for_followers_too() -> None:
    """The follower learns the log start with its next fetch, and cuts its history there."""
    group = ReplicaGroup()
    leader, follower = grown_leader(group), group.nodes[2]
    leader.copy()
    leader.expire_local(3)
    follower.catch_up()
    leader.log.maybe_increment_log_start_offset(2)
    follower.fetch_until(lambda: follower.log.log_start_offset == 2)
    assert follower.epochs == leader.epochs == {0: 2, 1: 3, 2: 5, 3: 7}
    group.elect(2)
    assert fetch(follower, 1).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert consume(follower, 2)[0] == "2/0"


@pytest.mark.scenario("3.7")
def test_a_reader_of_an_epoch_that_is_not_in_the_history_gets_where_it_diverged() -> None:
    group = ReplicaGroup()
    first, second = diverged_in_the_tier(group)
    second.catch_up()
    for epoch in (0, 2):
        assert fetch(first, 6, last_epoch=epoch).diverging == (
            EpochEndOffset(0, 5) if epoch == 0 else None
        )
