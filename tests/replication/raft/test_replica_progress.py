"""What the leader knows of its replicas: the high watermark, check quorum, who is caught up."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.raft.replica_progress import (
    OBSERVER_TIMEOUT_MS,
    OBSERVERS_MAX,
    ReplicaProgress,
)
from tierlog.replication.raft.voter_set import Voter, VoterKey, VoterSet
from tierlog.tests.replication.raft.members import voters_of

DIRECTORY = Uuid(bytes(15) + b"\x07")
CHECK_QUORUM_MS = 3000


def leader_of(*ids: int, epoch_start: int = 10, own: int = 1) -> ReplicaProgress:
    return ReplicaProgress(VoterKey(own), voters_of(*ids), epoch_start, CHECK_QUORUM_MS, 0)


@pytest.mark.parametrize(
    ("ends", "high_watermark"),
    [
        ([15], 15),
        ([15, 12], 12),
        ([15, 12, 11], 12),
        ([15, 12, 11, 11], 11),
        ([15, 14, 13, 12, 11], 13),
        ([15, 15, 11, 11, 11], 11),
    ],
)
def test_a_majority_has_reached_the_high_watermark(ends: list[int], high_watermark: int) -> None:
    leader = leader_of(*range(1, len(ends) + 1))
    for node_id, end in enumerate(ends[1:], 2):
        leader.fetched(VoterKey(node_id), end, 1)
    leader.leader_advanced(ends[0], ends[0], 1)
    assert leader.high_watermark == high_watermark


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40)), max_size=40))
def test_the_high_watermark_never_falls_and_a_majority_has_had_it(
    count: int, steps: list[tuple[int, int]]
) -> None:
    leader = leader_of(*range(1, count + 1))
    best = dict.fromkeys(range(1, count + 1), -1)
    before = 10
    for node_id, end in steps:
        if node_id == 1:
            leader.leader_advanced(end, end, 1)
        else:
            leader.fetched(VoterKey(node_id), end, 1)
        if node_id in best:
            best[node_id] = max(best[node_id], end)
        if leader.high_watermark is not None:
            assert leader.high_watermark >= before
            before = leader.high_watermark
            assert sum(end >= before for end in best.values()) > count // 2


def test_nothing_of_earlier_epochs_is_committed_alone() -> None:
    """Its own epoch starts at 10: only with its first record do those before it count."""
    leader = leader_of(1, 2, 3)
    leader.leader_advanced(11, 11, 1)
    assert not leader.fetched(VoterKey(2), 9, 1)
    assert not leader.fetched(VoterKey(2), 10, 2)
    assert leader.high_watermark is None
    assert leader.fetched(VoterKey(2), 11, 3)
    assert leader.high_watermark == 11


def test_the_leader_counts_itself_up_to_its_synced_end() -> None:
    leader = leader_of(1, 2, 3)
    leader.leader_advanced(15, 11, 1)
    assert leader.fetched(VoterKey(2), 15, 2)
    assert leader.high_watermark == 11
    leader.leader_advanced(15, 15, 3)
    assert leader.high_watermark == 15


def test_a_majority_of_followers_does_not_wait_for_the_leaders_disk() -> None:
    leader = leader_of(1, 2, 3)
    leader.leader_advanced(15, 10, 1)
    leader.fetched(VoterKey(2), 15, 2)
    leader.fetched(VoterKey(3), 14, 2)
    assert leader.high_watermark == 14


def test_observers_and_consumers_commit_nothing() -> None:
    leader = leader_of(1, 2, 3)
    leader.leader_advanced(15, 15, 1)
    assert not leader.fetched(VoterKey(9), 15, 1)
    assert not leader.fetched(VoterKey(-1), 15, 1)
    assert leader.high_watermark is None
    assert [each.replica_id for each in leader.observer_statuses()] == [9]


def test_another_directory_of_a_voters_id_is_an_observer() -> None:
    voters = VoterSet(Voter(VoterKey(each, DIRECTORY)) for each in (1, 2))
    leader = ReplicaProgress(VoterKey(1, DIRECTORY), voters, 0, CHECK_QUORUM_MS, 0)
    leader.leader_advanced(5, 5, 0)
    assert not leader.fetched(VoterKey(2, Uuid(bytes(15) + b"\x08")), 5, 2500)
    assert leader.check_quorum_deadline_ms == CHECK_QUORUM_MS
    leader.fetched(VoterKey(2, DIRECTORY), 5, 2500)
    assert leader.high_watermark == 5
    assert leader.check_quorum_deadline_ms == 2500 + CHECK_QUORUM_MS


def test_a_majority_of_voters_keeps_the_leader() -> None:
    leader = leader_of(1, 2, 3, 4, 5)
    leader.fetched(VoterKey(2), 5, 1000)
    leader.fetched(VoterKey(2), 5, 1500)
    leader.fetched(VoterKey(9), 5, 1500)
    assert leader.check_quorum_deadline_ms == CHECK_QUORUM_MS
    leader.heard_from(VoterKey(3), 2000)
    assert leader.check_quorum_deadline_ms == 2000 + CHECK_QUORUM_MS
    # It begins anew: both must be heard from again.
    leader.heard_from(VoterKey(3), 2500)
    assert leader.check_quorum_deadline_ms == 2000 + CHECK_QUORUM_MS


def test_a_sole_voter_needs_nobody_and_a_leader_outside_the_voters_more() -> None:
    assert leader_of(1).check_quorum_deadline_ms is None
    outside = leader_of(2, 3, 4)
    outside.heard_from(VoterKey(2), 1000)
    assert outside.check_quorum_deadline_ms == CHECK_QUORUM_MS
    outside.heard_from(VoterKey(3), 1000)
    assert outside.check_quorum_deadline_ms == 1000 + CHECK_QUORUM_MS
    assert leader_of(2).check_quorum_deadline_ms == CHECK_QUORUM_MS


def test_a_leader_outside_the_voters_does_not_count_itself() -> None:
    leader = leader_of(2, 3, own=1)
    leader.leader_advanced(20, 20, 1)
    leader.fetched(VoterKey(2), 15, 1)
    assert leader.high_watermark is None
    leader.fetched(VoterKey(3), 12, 1)
    assert leader.high_watermark == 12


def test_who_is_caught_up_and_since_when() -> None:
    leader = leader_of(1, 2)
    leader.leader_advanced(20, 20, 0)
    leader.fetched(VoterKey(2), 15, 100)
    assert leader.voter_statuses()[1].last_caught_up_timestamp == -1
    leader.fetched(VoterKey(2), 20, 200)
    assert leader.voter_statuses()[1].last_caught_up_timestamp == 200
    leader.leader_advanced(30, 30, 250)
    leader.fetched(VoterKey(2), 20, 300)
    # It had reached, then, what the leader had at the fetch before.
    assert leader.voter_statuses()[1].last_caught_up_timestamp == 200
    leader.leader_advanced(40, 40, 350)
    leader.fetched(VoterKey(2), 30, 400)
    status = leader.voter_statuses()[1]
    assert status.last_caught_up_timestamp == 300
    assert (status.log_end_offset, status.last_fetch_timestamp) == (30, 400)


def test_an_observer_that_is_gone_is_forgotten() -> None:
    leader = leader_of(1, 2)
    leader.fetched(VoterKey(9), 5, 1000)
    leader.forget_observers(1000 + OBSERVER_TIMEOUT_MS - 1)
    assert leader.observer_statuses()
    leader.forget_observers(1000 + OBSERVER_TIMEOUT_MS)
    assert not leader.observer_statuses()


def test_voters_that_do_not_fetch_are_silent() -> None:
    leader = leader_of(1, 2, 3)
    assert leader.silent_voters(0, 1000) == [2, 3]
    leader.fetched(VoterKey(2), 5, 500)
    assert leader.silent_voters(1499, 1000) == [3]
    assert leader.silent_voters(1500, 1000) == [2, 3]


def test_successors_come_by_the_end_of_their_logs() -> None:
    leader = leader_of(1, 2, 3, 4)
    leader.leader_advanced(20, 20, 0)
    leader.fetched(VoterKey(3), 15, 1)
    leader.fetched(VoterKey(4), 18, 1)
    assert [key.id for key in leader.successors()] == [4, 3, 2]


def test_a_sole_voter_that_gets_another_is_not_cut_off_at_once() -> None:
    leader = leader_of(1)
    leader.set_voters(voters_of(1, 2), 100_000)
    assert leader.check_quorum_deadline_ms == 100_000 + CHECK_QUORUM_MS
    leader.set_voters(voters_of(1, 2, 3), 101_000)
    assert leader.check_quorum_deadline_ms == 100_000 + CHECK_QUORUM_MS


def test_of_too_many_observers_the_one_that_was_silent_longest_is_forgotten() -> None:
    """Anybody who can reach the leader may fetch, each time as another observer."""
    leader = leader_of(1, 2, 3)
    leader.fetched(VoterKey(7), 10, 0)
    leader.fetched(VoterKey(8), 10, 0)
    for count in range(OBSERVERS_MAX - 1):
        leader.fetched(VoterKey(1000 + count), 10, 1 + count)
        leader.fetched(VoterKey(7), 10, 1 + count)
        leader.forget_observers(1 + count)
    ids = {each.replica_id for each in leader.observer_statuses()}
    assert len(ids) == OBSERVERS_MAX
    assert 7 in ids
    assert 8 not in ids


def test_an_observer_becomes_a_voter_with_what_is_known_of_it() -> None:
    leader = leader_of(1)
    leader.leader_advanced(20, 20, 0)
    leader.fetched(VoterKey(2), 15, 1)
    leader.set_voters(voters_of(1, 2), 1)
    assert leader.voter_statuses()[1].log_end_offset == 15
    assert not leader.observer_statuses()
    leader.set_voters(voters_of(1), 1)
    assert [each.replica_id for each in leader.observer_statuses()] == [2]
