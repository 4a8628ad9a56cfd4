"""How a follower begins where its leader's local log does: section 5 of the scenarios."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.replication.follower.fetch_state import FetchState
from tierlog.replication.follower.follower_asks import AuxAsk, FollowerOptions, OffsetAsk
from tierlog.storage.log.aux_state import target_epoch
from tierlog.storage.producer.producer_entry import AppendOrigin
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch
from tierlog.tests.replication.tiered_replicas import (
    BACKOFF_MS,
    NOW_MS,
    PARTITION,
    ReplicaGroup,
    ReplicaNode,
    record_batch,
)

MOVED = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


def led_far_ahead(
    group: ReplicaGroup, log_start: int, local_start: int
) -> tuple[ReplicaNode, ReplicaNode]:
    """A follower with 0 (0), 1 (2), 2 (4); a leader with records up to local start + 3.

    The last four are of the epoch that the scenario names: as many as the local start.
    """
    leader, follower = group.elect(1), group.nodes[2]
    for epoch in (0, 2, 4):
        while group.image.leader_epoch < epoch:
            group.elect(1)
        leader.produce()
        follower.catch_up()
    assert follower.epochs == {0: 0, 2: 1, 4: 2}
    while leader.log.log_end_offset < local_start:
        leader.produce()
        if leader.log.log_end_offset == log_start:
            leader.roll()
    while group.image.leader_epoch < local_start:
        group.elect(1)
    leader.roll()
    leader.copy()
    leader.produce(4)
    leader.copy()
    leader.expire_local(local_start)
    leader.log.maybe_increment_log_start_offset(log_start)
    assert leader.bounds == (log_start, local_start, local_start + 4)
    follower.history.clear()
    return leader, follower


@pytest.mark.scenario("5.1")
def test_what_is_only_in_the_tier_moves_the_follower_to_the_leaders_local_start() -> None:
    group = ReplicaGroup()
    leader, follower = led_far_ahead(group, 0, 5)
    assert set(leader.local.values()) == {5}
    answered = follower.step()
    assert answered is not None
    assert (answered.error, follower.followed.fetch_offset) == (MOVED, 3)
    follower.fetch_until(lambda: follower.followed.fetch_offset == 5)
    assert (follower.bounds, follower.log.high_watermark) == ((0, 5, 5), 5)
    assert follower.local == {}
    assert follower.followed.lag == 4
    follower.catch_up()
    assert (follower.bounds, follower.log.high_watermark) == ((0, 5, 9), 9)
    assert len(follower.local) == 4


@pytest.mark.scenario("5.2")
def test_below_the_log_start_the_follower_goes_to_it_first_and_then_to_the_tier() -> None:
    group = ReplicaGroup()
    leader, follower = led_far_ahead(group, 5, 7)
    assert set(leader.local.values()) == {7}
    answered = follower.step()
    assert answered is not None
    assert answered.error is ErrorCode.OFFSET_OUT_OF_RANGE
    follower.fetch_until(lambda: follower.followed.fetch_offset == 5)
    assert (follower.bounds, follower.log.high_watermark) == ((5, 5, 5), 5)
    answered = follower.step()
    assert answered is not None
    assert answered.error is MOVED
    follower.fetch_until(lambda: follower.followed.fetch_offset == 7)
    assert (follower.bounds, follower.log.high_watermark) == ((5, 7, 7), 7)
    follower.catch_up()
    assert (follower.bounds, follower.log.high_watermark) == ((5, 7, 11), 11)
    assert len(follower.local) == 4
    # The history begins at the log start, whatever the tier tells of before (KIP-405).
    assert follower.epochs == leader.epochs


STEPS = ("FetchAsk", "OffsetAsk", "OffsetAsk", "OffsetAsk", "EpochEndAsk")


@pytest.mark.scenario("5.3")
@pytest.mark.parametrize("at", range(len(STEPS)))
def test_a_fenced_follower_keeps_its_log_and_waits_for_news(at: int) -> None:
    group = ReplicaGroup()
    leader, follower = led_far_ahead(group, 0, 5)
    for _ in range(at):
        follower.step()
    # The leader is elected again, which the follower has yet to hear of.
    image = leader.group.image
    follower.is_up = False
    group.elect(1)
    follower.is_up = True
    assert follower.partition.image is image
    answered = follower.step()
    assert answered is not None
    assert (answered.error, type(answered.ask).__name__) == (
        ErrorCode.FENCED_LEADER_EPOCH,
        STEPS[at],
    )
    assert follower.followed.state is FetchState.FAILED
    assert follower.bounds == (0, 0, 3)
    group.now_ms += 1000 * BACKOFF_MS
    assert follower.step() is None
    group.notify(follower)
    follower.catch_up()
    assert follower.bounds == (0, 5, 9)


def pauses_building(group: ReplicaGroup, follower: ReplicaNode, expected: str) -> None:
    """It gets as far as the tier, changes nothing, and is to try again after the pause."""
    before = follower.bounds
    follower.fetch_until(lambda: follower.followed.state is FetchState.BUILDING_AUX)
    follower.step()
    assert follower.followed.state is FetchState.FETCHING
    assert expected in follower.followed.trouble
    assert follower.bounds == before
    assert follower.epochs == {0: 0, 2: 1, 4: 2}
    assert follower.followed.due_ms == group.now_ms + BACKOFF_MS
    assert follower.step() is None
    group.now_ms += BACKOFF_MS


@pytest.mark.scenario("5.4")
def test_without_the_metadata_of_the_segment_before_the_follower_tries_again() -> None:
    group = ReplicaGroup()
    _, follower = led_far_ahead(group, 0, 5)
    known, group.metadata.log = group.metadata.log, type(group.metadata.log)(PARTITION)
    for _ in range(2):
        pauses_building(
            group,
            follower,
            "Couldn't build the state from remote store for partition: orders-0, "
            "currentLeaderEpoch: 5, leaderLocalLogStartOffset: 5, leaderLogStartOffset: 0, "
            "epoch: 4 as the previous remote log segment metadata was not found",
        )
    assert group.statistics.build_aux_errors["orders"] == 2
    group.metadata.log = known
    follower.catch_up()
    assert follower.bounds == (0, 5, 9)
    assert group.statistics.build_aux_requests["orders"] == 3
    assert group.statistics.build_aux_errors["orders"] == 2


@pytest.mark.scenario("5.4")
def test_metadata_that_is_not_read_yet_is_waited_for() -> None:
    group = ReplicaGroup()
    _, follower = led_far_ahead(group, 0, 5)
    group.metadata.readable.clear()
    pauses_building(group, follower, "RemoteLogManager is not ready for partition: orders-0")
    group.metadata.readable.add(PARTITION)
    follower.catch_up()


def test_a_topic_that_is_not_tiered_here_yet_is_waited_for() -> None:
    group = ReplicaGroup()
    _, follower = led_far_ahead(group, 0, 5)
    follower.log.update_config(type(follower.config)())
    pauses_building(
        group,
        follower,
        "Couldn't build the state from remote store for partition orders-0, "
        "as remote log storage is not yet enabled",
    )
    follower.log.update_config(follower.config)
    follower.catch_up()


def test_a_tier_that_is_down_costs_the_follower_nothing() -> None:
    group = ReplicaGroup()
    _, follower = led_far_ahead(group, 0, 5)
    group.tier.is_down = True
    pauses_building(group, follower, "unreachable")
    group.tier.is_down = False
    follower.catch_up()


@pytest.mark.scenario("5.5")
@pytest.mark.parametrize(
    ("start", "answer", "expected"),
    [
        # Asked for epoch 2, which never was, the leader names epoch 1 and its end.
        (OffsetAndEpoch(90, 3), OffsetAndEpoch(90, 1), 1),
        (OffsetAndEpoch(98, 4), OffsetAndEpoch(98, 3), 3),
        (OffsetAndEpoch(93, 3), OffsetAndEpoch(90, 1), 3),
        (OffsetAndEpoch(85, 1), OffsetAndEpoch(85, 0), 0),
        (OffsetAndEpoch(30, 0), None, 0),
        # The leader knows nothing of older epochs.
        (OffsetAndEpoch(93, 3), OffsetAndEpoch(-1, -1), 3),
    ],
)
def test_the_epoch_of_the_offset_before(
    start: OffsetAndEpoch, answer: OffsetAndEpoch | None, expected: int
) -> None:
    assert target_epoch(start, answer) == expected


@pytest.mark.scenario("5.5")
def test_gaps_between_epochs_are_bridged_by_the_leader() -> None:
    """Epochs 0, 1, 3 and 4 from 0, 2, 4 and 6 on; the local log starts with epoch 3."""
    group = ReplicaGroup()
    leader, follower = group.elect(1), group.nodes[2]
    for epoch in (0, 1, 3, 4):
        while group.image.leader_epoch < epoch:
            group.elect(1)
        leader.produce(2)
        leader.roll()
    leader.copy()
    leader.expire_local(4)
    follower.fetch_until(lambda: follower.followed.state is FetchState.BUILDING_AUX)
    assert follower.asked[-1] == ("EpochEndAsk", 2)
    answered = follower.step()
    assert answered is not None
    assert isinstance(answered.ask, AuxAsk)
    assert (answered.ask.request.epoch, answered.ask.request.offset) == (1, 3)
    assert follower.epochs == {0: 0, 1: 2}
    follower.catch_up()
    assert follower.epochs == {0: 0, 1: 2, 3: 4, 4: 6}


@pytest.mark.scenario("5.6")
def test_where_the_whole_log_is_local_the_tier_is_not_asked() -> None:
    group = ReplicaGroup()
    leader, follower = group.elect(1), group.nodes[2]
    leader.produce(5)
    leader.roll()
    leader.produce()
    leader.copy()
    leader.expire_local(5)
    leader.log.maybe_increment_log_start_offset(5)
    assert leader.bounds == (5, 5, 6)
    follower.catch_up()
    assert [kind for kind, _ in follower.asked if kind == "AuxAsk"] == []
    assert MOVED not in {answered.error for answered in follower.history}
    assert follower.bounds == (5, 5, 6)


def test_a_segment_cut_wider_than_the_leaders_moves_the_follower_beyond_its_local_start() -> None:
    """Segments in the tier are 0-5, by another leader; this one's local log starts at 3."""
    group = ReplicaGroup()
    first, second = group.elect(1), group.nodes[2]
    first.produce(3)
    second.catch_up()
    second.roll()
    first.produce(3)
    first.roll()
    first.produce()
    second.catch_up()
    [wide] = first.copy()
    assert (wide.start_offset, wide.end_offset) == (0, 5)
    leader = group.elect(2)
    leader.expire_local(3)
    assert leader.bounds == (0, 3, 7)
    first.reimage()
    first.fetch_until(lambda: first.log.log_end_offset == 6)
    assert first.bounds == (0, 6, 6)
    assert first.followed.fetch_offset == 6
    assert first.followed.lag == 1
    first.catch_up()
    assert first.bounds == (0, 6, 7)


def test_producers_are_known_without_their_records() -> None:
    group = ReplicaGroup()
    leader, follower = group.elect(1), group.nodes[2]
    leader.produce(3, producer_id=7)
    leader.roll()
    leader.produce(1, producer_id=7, sequence=3)
    leader.copy()
    leader.expire_local(3)
    follower.fetch_until(lambda: follower.log.log_end_offset == 3)
    entry = follower.log.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == 2
    assert follower.log.producers.snapshot_offsets == (3,)
    names = follower.files.listdir(follower.log.directory)
    assert [name for name in names if name.endswith((".snapshot", ".tmp"))] == [
        f"{3:020d}.snapshot"
    ]
    follower.catch_up()
    group.elect(2)
    info = follower.partition.append_as_leader(
        record_batch(b"4", 7, 3), 1, AppendOrigin.CLIENT, NOW_MS
    )
    assert info.is_duplicate


LAST_TIERED = FollowerOptions(BACKOFF_MS, fetches_last_tiered=True)


def led_from_the_tier(group: ReplicaGroup, copied: int, local_start: int) -> ReplicaNode:
    leader = group.elect(1)
    for _ in range(5):
        leader.produce(2)
        leader.roll()
    leader.log.update_high_watermark(copied)
    leader.copy()
    leader.log.update_high_watermark(10)
    leader.expire_local(local_start)
    assert leader.log.highest_remote_offset == copied - 1
    assert leader.bounds == (0, local_start, 10)
    return leader


@pytest.mark.scenario("5")
@pytest.mark.parametrize(("options", "expected"), [(LAST_TIERED, 8), (FollowerOptions(), 4)])
def test_an_empty_follower_may_begin_after_what_is_in_the_tier(
    options: FollowerOptions, expected: int
) -> None:
    group = ReplicaGroup(options=options)
    led_from_the_tier(group, 8, 4)
    follower = group.nodes[2]
    follower.fetch_until(lambda: follower.log.log_end_offset > 0)
    assert follower.bounds == (0, expected, expected)
    follower.catch_up()
    assert follower.bounds == (0, expected, 10)
    timestamps = {subject for kind, subject in follower.asked if kind == "OffsetAsk"}
    assert timestamps == {-1, -2, -6 if expected == 8 else -4}


@pytest.mark.scenario("5")
def test_a_follower_that_has_data_does_not_skip_what_the_leader_still_has() -> None:
    group = ReplicaGroup(options=LAST_TIERED)
    leader, follower = group.elect(1), group.nodes[2]
    leader.produce(1)
    follower.catch_up()
    leader.produce(1)
    leader.roll()
    for _ in range(4):
        leader.produce(2)
        leader.roll()
    leader.log.update_high_watermark(8)
    leader.copy()
    leader.log.update_high_watermark(10)
    leader.expire_local(4)
    follower.history.clear()
    follower.fetch_until(lambda: follower.log.log_end_offset == 4)
    assert ("OffsetAsk", -6) not in follower.asked


@pytest.mark.scenario("5")
@pytest.mark.parametrize("options", [LAST_TIERED, FollowerOptions()])
def test_without_a_tier_an_empty_follower_begins_at_the_log_start(options: FollowerOptions) -> None:
    group = ReplicaGroup(config=type(ReplicaGroup().nodes[1].config)(), options=options)
    group.elect(1).produce(5)
    follower = group.nodes[2]
    follower.catch_up()
    assert follower.bounds == (0, 0, 5)


def test_a_leader_that_does_not_know_yet_what_it_has_copied_is_asked_again() -> None:
    group = ReplicaGroup(options=LAST_TIERED)
    leader, follower = led_from_the_tier(group, 8, 4), group.nodes[2]
    leader.log.bounds.update_highest_remote(-1)
    follower.fetch_until(lambda: follower.followed.trouble != "")
    assert "does not know the earliest pending upload offset" in follower.followed.trouble
    assert follower.bounds == (0, 0, 0)
    assert [subject for _, subject in follower.asked] == [0, -1, -2, -6, -4]
    leader.learn_copied_offset()
    follower.fetch_until(lambda: follower.log.log_end_offset == 8)


@pytest.mark.scenario("5")
def test_where_everything_is_in_the_tier_an_empty_follower_begins_at_the_end() -> None:
    group = ReplicaGroup(options=LAST_TIERED)
    led_from_the_tier(group, 10, 4)
    follower = group.nodes[2]
    follower.catch_up()
    assert follower.bounds == (0, 10, 10)
    assert follower.followed.lag == 0


@pytest.mark.scenario("6")
def test_the_offset_that_is_to_be_copied_next() -> None:
    group = ReplicaGroup()
    leader = led_from_the_tier(group, 8, 4)
    pending = OffsetAsk(-6, group.image.leader_epoch)
    assert leader.answer_offset(pending) == OffsetAndEpoch(8, 0)
    assert leader.answer_offset(OffsetAsk(-4, 0)) == OffsetAndEpoch(4, 0)
    leader.log.bounds.update_highest_remote(-1)
    assert leader.answer_offset(pending) == OffsetAndEpoch(-1, -1)
    leader.log.maybe_increment_log_start_offset(4)
    assert leader.answer_offset(pending) == OffsetAndEpoch(4, 0)
    leader.log.update_config(type(leader.config)())
    assert leader.answer_offset(pending) == OffsetAndEpoch(-1, -1)
