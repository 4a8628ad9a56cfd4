"""Who gets a vote or a pre-vote, in every state."""

from collections.abc import Callable

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.raft_messages import VoteRequest, VoteResponse
from tierlog.replication.raft.raft_state import Candidate, Prospective, Role
from tierlog.replication.raft.voter_set import VoterKey
from tierlog.tests.replication.raft.members import (
    CLUSTER,
    Batch,
    Member,
    MemoryLog,
    kinds,
    quorum_of,
    voters_of,
)

DIRECTORY = Uuid(bytes(15) + b"\x01")
OTHER_DIRECTORY = Uuid(bytes(15) + b"\x02")


def vote(epoch: int, *, candidate: int = 2, pre_vote: bool = False) -> VoteRequest:
    """A vote for a candidate whose log is far ahead."""
    return VoteRequest(
        cluster_id=CLUSTER,
        voter_id=1,
        voter_directory_id=ZERO_UUID,
        replica_id=candidate,
        replica_directory_id=ZERO_UUID,
        replica_epoch=epoch,
        last_offset=1000,
        last_offset_epoch=epoch - 1,
        pre_vote=pre_vote,
    )


def granted(member: Member, request: VoteRequest) -> bool:
    response = member.ask(request)
    assert isinstance(response, VoteResponse)
    assert response.error_code is response.partition_error_code is ErrorCode.NONE
    assert response.leader_epoch == member.core.epoch
    return response.vote_granted


def unattached() -> Member:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(5))
    member.start()
    return member


def prospective() -> Member:
    member = unattached()
    while not isinstance(member.state, Prospective):
        member.after_timer()
    return member


def candidate() -> Member:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(5, None, VoterKey(1)))
    member.start()
    return member


def follower() -> Member:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(5, 3))
    member.start()
    return member


def follower_that_has_fetched() -> Member:
    member = follower()
    member.follower_state().has_fetched = True
    return member


def resigned() -> Member:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(5, 1))
    member.start()
    return member


def leader() -> Member:
    quorum = quorum_of(3)
    member = quorum.leader()
    member.now_ms = quorum.now_ms
    return member


@pytest.mark.parametrize(
    ("make", "role", "pre_vote", "full_vote"),
    [
        (unattached, Role.UNATTACHED, True, True),
        (prospective, Role.PROSPECTIVE, True, True),
        (candidate, Role.CANDIDATE, True, False),
        (follower, Role.FOLLOWER, True, False),
        (follower_that_has_fetched, Role.FOLLOWER, False, False),
        (resigned, Role.RESIGNED, True, False),
    ],
)
def test_who_grants_what_in_its_own_epoch(
    make: Callable[[], Member], role: Role, pre_vote: bool, full_vote: bool
) -> None:
    """As Kafka's `canGrantVote` of each state does."""
    member = make()
    assert member.role() is role
    before = member.persisted
    assert granted(member, vote(5, pre_vote=True)) is pre_vote
    assert member.persisted == before
    assert granted(member, vote(5)) is full_vote
    assert member.role() is role
    assert member.persisted.voted_key == (VoterKey(2) if full_vote else before.voted_key)


def test_a_leader_grants_nothing_in_its_epoch() -> None:
    member = leader()
    # A log that cannot be: not even that impresses a leader.
    request = vote(1)._replace(replica_id=9 - member.node_id, voter_id=member.node_id)
    assert not granted(member, request._replace(pre_vote=True))
    assert not granted(member, request)
    assert member.core.is_leader


@pytest.mark.parametrize(
    ("last_epoch", "last_offset", "is_granted"),
    [(3, 5, True), (3, 6, True), (4, 1, True), (3, 4, False), (2, 100, False)],
)
@pytest.mark.parametrize("pre_vote", [True, False])
def test_the_log_must_be_up_to_date(
    last_epoch: int, last_offset: int, is_granted: bool, pre_vote: bool
) -> None:
    log = MemoryLog([Batch(4, 3)], start_offset=4, flushed_offset=5)
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(5), log=log)
    member.start()
    request = vote(6, pre_vote=pre_vote)._replace(
        last_offset=last_offset, last_offset_epoch=last_epoch
    )
    assert granted(member, request) is is_granted


def test_the_vote_is_on_the_disk_before_it_is_answered() -> None:
    member = unattached()
    member.actions.clear()
    assert granted(member, vote(6))
    assert kinds(member.actions)[:2] == ["Persist", "Reply"]
    assert member.persisted == ElectionState(6, None, VoterKey(2), (1, 2, 3))


def test_one_vote_an_epoch_but_the_same_one_again() -> None:
    member = unattached()
    assert granted(member, vote(6))
    assert not granted(member, vote(6, candidate=3))
    assert granted(member, vote(6))
    member.restart()
    assert not granted(member, vote(6, candidate=3))
    assert granted(member, vote(6))
    assert granted(member, vote(7, candidate=3))


def test_the_same_candidate_in_another_directory_is_another_candidate() -> None:
    member = unattached()
    request = vote(6)._replace(replica_directory_id=DIRECTORY)
    assert granted(member, request)
    assert not granted(member, request._replace(replica_directory_id=OTHER_DIRECTORY))
    assert granted(member, request)


def test_the_vote_outlasts_a_pre_vote_of_its_own() -> None:
    """From Unattached to Prospective and back: no second vote in the epoch."""
    member = unattached()
    assert granted(member, vote(6))
    while not isinstance(member.state, Prospective):
        member.after_timer()
    assert not granted(member, vote(6, candidate=3))
    assert member.state.voted_key == VoterKey(2)


def test_no_vote_in_an_epoch_with_a_leader() -> None:
    member = Member(1, voters_of(1, 2), persisted=ElectionState(5, 3))
    member.start()
    # Voter 3 is gone, so its address is unknown: nobody to follow.
    assert member.role() is Role.UNATTACHED
    assert not granted(member, vote(5))


def test_a_higher_epoch_deposes_a_leader_even_without_a_vote() -> None:
    member = leader()
    others = [each for each in (1, 2, 3) if each != member.node_id]
    request = vote(9, candidate=others[0])._replace(
        voter_id=member.node_id, last_offset=0, last_offset_epoch=0
    )
    assert not granted(member, request)
    assert member.core.epoch == 9
    assert member.persisted == ElectionState(9, None, None, (1, 2, 3))
    assert member.leaders[-1].leader_id is None


def test_a_prospective_voter_asks_in_its_present_epoch() -> None:
    member = prospective()
    requests = [send.request for send in member.sent if isinstance(send.request, VoteRequest)]
    assert {(each.voter_id, each.replica_epoch, each.pre_vote) for each in requests} == {
        (2, 5, True),
        (3, 5, True),
    }
    assert member.persisted.epoch in (0, 5)


def test_a_majority_of_pre_votes_makes_a_candidate_in_the_next_epoch() -> None:
    member = prospective()
    send = next(send for send in member.sent if isinstance(send.request, VoteRequest))
    member.sent.clear()
    member.answer(send, VoteResponse(leader_epoch=5, vote_granted=True))
    assert isinstance(member.state, Candidate)
    assert member.persisted == ElectionState(6, None, VoterKey(1), (1, 2, 3))
    requests = [send.request for send in member.sent]
    assert [
        (each.replica_epoch, each.pre_vote) for each in requests if isinstance(each, VoteRequest)
    ] == [(6, False), (6, False)]


def test_a_voter_with_another_key_is_not_asked_again_at_once() -> None:
    """Its disk has been replaced: it refuses, and has no vote."""
    member = candidate()
    first = member.sent.pop(0)
    member.sent.clear()
    error = ErrorCode.INVALID_VOTER_KEY
    member.answer(first, VoteResponse(ErrorCode.NONE, error, -1, 5))
    assert not member.sent
    assert isinstance(member.state, Candidate)
    assert first.destination.node_id in member.state.votes.unrecorded


def test_a_late_pre_vote_is_no_vote() -> None:
    member = prospective()
    first, second = (send for send in member.sent if isinstance(send.request, VoteRequest))
    member.answer(first, VoteResponse(leader_epoch=5, vote_granted=True))
    member.answer(second, VoteResponse(leader_epoch=5, vote_granted=True))
    assert isinstance(member.state, Candidate)
    assert member.state.votes.granted == {1}


def test_a_voter_without_pre_votes_makes_it_a_candidate_at_once() -> None:
    """A voter of before KIP-996 refuses version 2 of Vote."""
    for is_response in (True, False):
        member = prospective()
        send = next(send for send in member.sent if isinstance(send.request, VoteRequest))
        if is_response:
            member.answer(send, VoteResponse(ErrorCode.UNSUPPORTED_VERSION))
        else:
            error = ErrorCode.UNSUPPORTED_VERSION
            member.perform(member.core.handle_failure(send.request_id, member.now_ms, error))
        assert isinstance(member.state, Candidate)
        assert member.core.epoch == 6


def test_lost_pre_votes_lead_back_to_waiting_without_a_trace() -> None:
    member = prospective()
    before, deadline_ms = member.persisted, member.state.deadline_ms  # type: ignore[union-attr]  # prospective
    for send in [send for send in member.sent if isinstance(send.request, VoteRequest)]:
        member.answer(send, VoteResponse(leader_epoch=5))
    assert member.role() is Role.UNATTACHED
    assert member.persisted.epoch == 5
    assert member.persisted.voted_key == before.voted_key
    # It waits out what was left of its election timeout.
    assert member.state.deadline_ms == deadline_ms  # type: ignore[union-attr]  # unattached


def test_lost_pre_votes_under_a_leader_lead_back_to_it() -> None:
    member = follower()
    while not isinstance(member.state, Prospective):
        member.after_timer()
    for send in [send for send in member.sent if isinstance(send.request, VoteRequest)]:
        member.answer(send, VoteResponse(leader_epoch=5, leader_id=3))
    assert member.role() is Role.FOLLOWER
    assert member.core.leader_id == 3
    assert not member.follower_state().has_fetched


def test_a_lost_election_waits_out_its_timeout() -> None:
    member = candidate()
    state = member.state
    assert isinstance(state, Candidate)
    for send in list(member.sent):
        member.answer(send, VoteResponse(leader_epoch=5))
    assert member.state is state
    member.at(state.deadline_ms - 1)
    assert member.state is state
    member.at(state.deadline_ms)
    assert member.role() is Role.PROSPECTIVE
    assert member.core.epoch == 5
