"""Members of a quorum elect a leader, follow it, lose it and find another."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.leading import END_EPOCH_TRIES
from tierlog.replication.raft.raft_actions import AppendStartOfEpoch
from tierlog.replication.raft.raft_messages import EndQuorumEpochRequest
from tierlog.replication.raft.raft_state import Follower, Leader, Resigned, Role
from tierlog.replication.raft.voter_set import VoterKey
from tierlog.tests.replication.raft.members import Member, kinds, quorum_of, voters_of


def test_a_sole_voter_leads_in_one_poll_and_commits_its_first_record() -> None:
    member = Member(1, voters_of(1))
    actions = member.core.start(0)
    assert kinds(actions) == ["Persist", "AppendStartOfEpoch", "LeaderChanged"]
    assert isinstance(member.core.state, Leader)
    member.perform(actions)
    assert member.persisted == ElectionState(1, leader_id=1, voted_key=None, voter_ids=(1,))
    start = actions[1]
    assert isinstance(start, AppendStartOfEpoch)
    assert start.voters == start.granting_voters == (VoterKey(1),)
    assert member.high_watermark == 1
    assert member.core.deadline_ms is None


def test_a_sole_voter_leads_in_the_next_epoch_after_every_restart() -> None:
    member = Member(1, voters_of(1))
    member.start()
    member.append("a")
    for epoch in (2, 3):
        member.restart()
        assert member.core.is_leader
        assert member.core.epoch == epoch
        assert member.high_watermark == member.log.end_offset


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_voters_elect_one_leader_whom_all_follow(count: int) -> None:
    quorum = quorum_of(count)
    leader = quorum.leader()
    for member in quorum.members.values():
        assert member.core.leader_id == leader.node_id
        assert member.core.epoch == leader.core.epoch
        assert member.high_watermark == 1
        assert member.log.batches == leader.log.batches


def test_what_the_leader_appends_is_committed_and_followed() -> None:
    quorum = quorum_of(3)
    quorum.leader().append("a", "b")
    quorum.exchange()
    for member in quorum.members.values():
        assert [batch.value for batch in member.log.batches][1:] == ["a", "b"]
        # The followers hear of the high watermark at once: a fetch says which one they know.
        assert member.high_watermark == 3


def test_the_others_elect_a_leader_when_theirs_is_cut_off() -> None:
    quorum = quorum_of(3)
    old = quorum.leader()
    old.append("committed")
    quorum.exchange()
    quorum.cut = {old.node_id}
    quorum.run(quorum.now_ms + 6000)
    new = quorum.leader()
    assert new is not old
    assert new.core.epoch > 1
    assert "committed" in [batch.value for batch in new.log.batches]


def test_a_leader_without_a_majority_resigns_in_time() -> None:
    """KAFKA-15489: it would be followed for ever by observers that still reach it."""
    quorum = quorum_of(3)
    old = quorum.leader()
    quorum.cut = {old.node_id}
    cut_ms = quorum.now_ms
    quorum.run(cut_ms + old.options.check_quorum_timeout_ms + 1)
    assert not old.core.is_leader
    assert old.leaders[-1].leader_id is None


def test_a_leader_that_is_the_only_voter_never_resigns() -> None:
    member = Member(1, voters_of(1))
    member.start()
    member.at(10_000_000)
    assert member.core.is_leader


def test_a_cut_off_voter_does_not_raise_the_epoch() -> None:
    """KIP-996: it asks for pre-votes, and finds nobody."""
    quorum = quorum_of(3)
    leader = quorum.leader()
    epoch = leader.core.epoch
    lone = next(each for each in quorum.members.values() if each is not leader)
    quorum.cut = {lone.node_id}
    quorum.run(quorum.now_ms + 30_000)
    assert lone.core.epoch == epoch
    quorum.cut = set()
    quorum.run(quorum.now_ms + 5000)
    assert quorum.leader() is leader
    assert leader.core.epoch == epoch
    assert lone.follower_state().has_fetched


def test_an_old_leader_follows_the_new_one_and_drops_what_was_not_committed() -> None:
    quorum = quorum_of(3)
    old = quorum.leader()
    quorum.cut = {old.node_id}
    old.append("never committed")
    quorum.run(quorum.now_ms + 8000)
    new = quorum.leader()
    new.append("committed")
    quorum.run(quorum.now_ms + 1000)
    quorum.cut = set()
    quorum.run(quorum.now_ms + 8000)
    assert isinstance(old.state, Follower)
    assert old.log.batches == quorum.leader().log.batches
    assert "never committed" not in [batch.value for batch in old.log.batches]


def test_a_graceful_stop_hands_over_at_once() -> None:
    quorum = quorum_of(3)
    old = quorum.leader()
    old.perform(old.core.shutdown(quorum.now_ms))
    assert isinstance(old.state, Resigned)
    quorum.exchange()
    assert old.core.is_stopped
    quorum.run(quorum.now_ms + 10)
    assert quorum.leader() is not old


def test_a_leader_that_stops_waits_for_no_voter_that_has_ended() -> None:
    quorum = quorum_of(3)
    old = quorum.leader()
    old.perform(old.core.shutdown(quorum.now_ms))
    for _ in range(END_EPOCH_TRIES):
        assert not old.core.is_stopped
        fail_all(old, ErrorCode.NETWORK_EXCEPTION)
        old.at(old.now_ms + 100)
    assert old.core.is_stopped


def test_a_leader_that_stops_waits_for_a_voter_that_is_slow() -> None:
    quorum = quorum_of(3)
    old = quorum.leader()
    old.perform(old.core.shutdown(quorum.now_ms))
    for _ in range(2 * END_EPOCH_TRIES):
        fail_all(old, ErrorCode.REQUEST_TIMED_OUT)
        old.at(old.now_ms + 100)
    assert not old.core.is_stopped


def test_a_voter_stops_in_the_middle_of_a_pre_vote_and_at_the_end_of_an_election() -> None:
    member = Member(1, voters_of(1, 2, 3))
    member.start()
    member.at(member.now_ms + 2_000)
    assert member.role() is Role.PROSPECTIVE
    member.perform(member.core.shutdown(member.now_ms))
    assert member.core.is_stopped
    voted = ElectionState(5, None, VoterKey(1))
    candidate = Member(1, voters_of(1, 2, 3), persisted=voted)
    candidate.start()
    assert candidate.role() is Role.CANDIDATE
    candidate.perform(candidate.core.shutdown(candidate.now_ms))
    assert not candidate.core.is_stopped
    candidate.at(candidate.now_ms + 2_000)
    assert candidate.core.is_stopped


def fail_all(member: Member, error: ErrorCode) -> None:
    """Every request of this node under way fails."""
    failed, member.sent = member.sent, []
    for send in failed:
        member.perform(member.core.handle_failure(send.request_id, member.now_ms, error))


def test_a_leader_that_resigns_is_followed_by_the_most_advanced_voter() -> None:
    quorum = quorum_of(3)
    old = quorum.leader()
    first, second = (each for each in quorum.members.values() if each is not old)
    quorum.cut = {first.node_id}
    old.append("a")
    quorum.exchange()
    old.perform(old.core.resign(old.core.epoch, quorum.now_ms))
    requests = [send.request for send in old.sent]
    assert requests
    for request in requests:
        assert isinstance(request, EndQuorumEpochRequest)
        keys = request.preferred_candidates
        assert keys == (VoterKey(second.node_id), VoterKey(first.node_id))


def test_a_leader_restarts_as_resigned_and_never_leads_in_its_epoch_again() -> None:
    """KAFKA-17333: nobody hears of it as a leader, and its own old messages do no harm."""
    quorum = quorum_of(3)
    old = quorum.leader()
    epoch = old.core.epoch
    old.holds_flushes = True
    old.append("lost with the power")
    quorum.cut = {old.node_id}
    old.now_ms = quorum.now_ms
    old.restart()
    assert old.role() is Role.RESIGNED
    assert old.core.leader_id is None
    assert old.leaders[-1].leader_id is None
    old.after_timer()
    while old.role() is Role.RESIGNED:
        old.after_timer()
    assert old.role() is Role.UNATTACHED
    assert old.core.epoch == epoch + 1


def test_an_observer_follows_and_never_votes() -> None:
    quorum = quorum_of(3)
    observer = Member(9, voters_of(1, 2, 3))
    quorum.members[9] = observer
    observer.start()
    quorum.leader().append("a")
    quorum.run(quorum.now_ms + 1000)
    assert observer.core.leader_id == quorum.leader().node_id
    assert observer.log.batches == quorum.leader().log.batches
    statuses = quorum.leader().core.describe_quorum(quorum.now_ms).observers
    assert [each.replica_id for each in statuses] == [9]
    quorum.cut = {9}
    quorum.run(quorum.now_ms + 30_000)
    assert observer.role() in (Role.UNATTACHED, Role.FOLLOWER)
    assert observer.core.epoch == quorum.leader().core.epoch
