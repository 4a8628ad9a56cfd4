"""Each timer: how long it is, and what starts it again."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import ZERO_UUID, Uuid
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.following import election_backoff_ms
from tierlog.replication.raft.raft_messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.raft_state import Candidate, Prospective, Resigned, Role, Unattached
from tierlog.replication.raft.voter_set import VoterKey
from tierlog.tests.replication.raft.members import CLUSTER, Member, address_of, quorum_of, voters_of

DIRECTORY = Uuid(bytes(15) + b"\x01")


def deadline_of(member: Member) -> int:
    state = member.state
    assert isinstance(state, Unattached | Prospective | Candidate | Resigned)
    return state.deadline_ms


def unattached(seed: int = 1) -> Member:
    member = Member(1, voters_of(1, 2, 3), seed=seed)
    member.start()
    return member


def follower_of_2() -> Member:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(1, 2))
    member.start()
    return member


def elected() -> Member:
    """Node 1, which has just won epoch 5 against nobody."""
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(5, None, VoterKey(1)))
    member.start()
    send = next(send for send in member.sent if isinstance(send.request, VoteRequest))
    member.sent.clear()
    member.answer(send, VoteResponse(leader_epoch=5, vote_granted=True))
    assert member.core.is_leader
    return member


def vote_of_2(epoch: int, *, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(CLUSTER, 1, ZERO_UUID, 2, ZERO_UUID, epoch, 1000, epoch - 1, pre_vote)


def test_the_election_timeout_lies_between_the_configured_one_and_its_double() -> None:
    deadlines = {deadline_of(unattached(seed)) for seed in range(200)}
    assert min(deadlines) >= 1000
    assert max(deadlines) < 2000
    assert len(deadlines) > 100


def test_granting_a_vote_gives_the_candidate_a_whole_election_timeout() -> None:
    member = unattached()
    member.now_ms = 999
    member.ask(vote_of_2(1))
    assert member.persisted.voted_key == VoterKey(2)
    assert deadline_of(member) >= 1999


def test_a_higher_epoch_alone_leaves_no_more_patience() -> None:
    member = unattached()
    before = deadline_of(member)
    member.now_ms = 999
    member.ask(vote_of_2(1, pre_vote=True))
    assert member.core.epoch == 1
    assert deadline_of(member) == before


def test_a_resigned_leader_goes_to_the_next_epoch_after_its_election_timeout() -> None:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(5, 1))
    member.start()
    deadline_ms = deadline_of(member)
    member.at(deadline_ms - 1)
    assert member.role() is Role.RESIGNED
    member.at(deadline_ms)
    assert member.role() is Role.UNATTACHED
    assert member.persisted == ElectionState(6, None, None, (1, 2, 3))
    assert deadline_of(member) >= deadline_ms + 1000


def test_a_follower_misses_its_leader_after_the_fetch_timeout() -> None:
    member = follower_of_2()
    member.at(1999)
    assert member.role() is Role.FOLLOWER
    member.at(2000)
    assert member.role() is Role.PROSPECTIVE


def test_followers_that_lose_their_leader_in_one_moment_do_not_miss_it_in_one() -> None:
    deadlines = set[int]()
    for seed in range(200):
        options = RaftOptions(
            1,
            cluster_id=CLUSTER,
            endpoints={"CONTROLLER": address_of(1)},
            fetch_timeout_spread_ms=250,
        )
        member = Member(
            1, voters_of(1, 2, 3), options=options, persisted=ElectionState(1, 2), seed=seed
        )
        member.start()
        deadlines.add(member.follower_state().deadline_ms)
    # As often shorter as longer than the timeout, which is Kafka's exactly.
    assert 1_875 <= min(deadlines) < 1_900
    assert 2_100 < max(deadlines) < 2_125
    assert len(deadlines) > 100


def test_only_a_successful_fetch_starts_the_fetch_timeout_again() -> None:
    member = follower_of_2()
    (send,) = member.sent
    member.now_ms = 1500
    member.answer(send, FetchResponse(leader_id=2, leader_epoch=1))
    assert member.follower_state().deadline_ms == 3500
    (send,) = member.sent
    member.now_ms = 1600
    stopping = ErrorCode.BROKER_NOT_AVAILABLE
    member.answer(send, FetchResponse(partition_error_code=stopping, leader_id=2, leader_epoch=1))
    assert member.follower_state().deadline_ms == 3500


def test_an_observer_without_success_looks_for_the_leader_and_stays_an_observer() -> None:
    """Kafka 4.3.1 fetches from a dead leader for ever."""
    observer = Member(9, voters_of(1, 2, 3), persisted=ElectionState(1, 2))
    observer.start()
    observer.at(2000)
    assert observer.role() is Role.UNATTACHED
    assert observer.core.epoch == 1
    observer.sent.clear()
    observer.at(100_000)
    assert observer.role() is Role.UNATTACHED


def test_check_quorum_is_one_and_a_half_fetch_timeouts() -> None:
    quorum = quorum_of(3)
    leader = quorum.leader()
    quorum.cut = {leader.node_id}
    deadline_ms = leader.leader_state().progress.check_quorum_deadline_ms
    assert deadline_ms is not None
    assert quorum.now_ms < deadline_ms <= quorum.now_ms + 3000
    leader.at(deadline_ms - 1)
    assert leader.core.is_leader
    leader.at(deadline_ms)
    assert leader.role() is Role.RESIGNED


def begun(member: Member) -> list[int]:
    """The nodes that BeginQuorumEpoch has been sent to since the last call; all of them answer."""
    sends = [send for send in member.sent if isinstance(send.request, BeginQuorumEpochRequest)]
    for send in sends:
        member.answer(send, BeginQuorumEpochResponse(leader_id=1, leader_epoch=5))
    return [send.destination.node_id for send in sends]


def test_a_new_leader_says_so_at_once_and_again_to_who_does_not_fetch() -> None:
    member = elected()
    assert begun(member) == [2, 3]
    member.at(500)
    member.ask(FetchRequest(CLUSTER, 2, ZERO_UUID, 5, 1, 5))
    member.at(999)
    assert begun(member) == []
    member.at(1000)
    assert begun(member) == [3]
    member.at(2000)
    assert begun(member) == [2, 3]


def test_a_waiting_fetch_is_answered_after_its_wait() -> None:
    member = elected()
    request = FetchRequest(CLUSTER, 2, ZERO_UUID, 5, 1, 5, max_wait_ms=400)
    token = object()
    member.perform(member.core.handle_request(token, request, 100))
    member.at(499)
    assert member.response_to(token) is None
    member.at(500)
    response = member.response_to(token)
    assert isinstance(response, FetchResponse)
    assert not response.records


def test_a_request_without_response_times_out_and_the_node_rests_a_moment() -> None:
    member = elected()
    begun(member)
    member.at(1000)
    sent = list(member.sent)
    member.at(2999)
    # The leader would remind them every second, but their connections are busy.
    assert member.sent == sent
    member.ask(FetchRequest(CLUSTER, 2, ZERO_UUID, 5, 1, 5))
    member.at(3000)
    assert member.sent == sent
    member.at(4000)
    assert [send.destination.node_id for send in member.sent[len(sent) :]] == [2, 3]


def test_a_failed_connection_is_tried_again_after_the_backoff() -> None:
    member = Member(1, voters_of(1, 2, 3), persisted=ElectionState(5, None, VoterKey(1)))
    member.start()
    first = member.sent.pop(0)
    member.sent.clear()
    member.perform(member.core.handle_failure(first.request_id, 10))
    member.at(29)
    assert not member.sent
    member.at(30)
    assert [send.destination.node_id for send in member.sent] == [first.destination.node_id]


@pytest.mark.parametrize(
    ("candidates", "backoff_ms"),
    [
        ([1], 0),
        ([1, 2], 0),
        ([2, 1], 500),
        ([2, 3, 1], 500),
        ([2, 1, 3], 250),
        ([2, 1, 3, 4, 5], 62),
        ([2, 3, 4, 5, 1], 496),
        ([2, 3], 1000),
        ([], 1000),
    ],
)
def test_a_candidate_waits_by_its_place(candidates: list[int], backoff_ms: int) -> None:
    keys = [VoterKey(each) for each in candidates]
    assert election_backoff_ms(VoterKey(1, DIRECTORY), keys, 1000) == backoff_ms


def test_a_candidate_of_another_directory_is_not_meant() -> None:
    assert election_backoff_ms(VoterKey(1), [VoterKey(1, DIRECTORY)], 1000) == 1000


def test_the_first_candidate_asks_for_pre_votes_in_the_same_event() -> None:
    member = follower_of_2()
    request = EndQuorumEpochRequest(CLUSTER, 2, 1, (VoterKey(1), VoterKey(3)))
    response = member.ask(request)
    assert isinstance(response, EndQuorumEpochResponse)
    assert member.role() is Role.PROSPECTIVE


def test_another_candidate_lets_it_go_first() -> None:
    member = follower_of_2()
    member.ask(EndQuorumEpochRequest(CLUSTER, 2, 1, (VoterKey(3), VoterKey(1))))
    assert member.role() is Role.FOLLOWER
    assert member.follower_state().deadline_ms == 500


def test_the_end_of_another_leaders_epoch_changes_no_timer() -> None:
    member = unattached()
    member.ask(EndQuorumEpochRequest(CLUSTER, 2, 1, (VoterKey(3), VoterKey(1))))
    assert member.core.leader_id == 2
    assert member.follower_state().deadline_ms == 500
    assert member.ask(EndQuorumEpochRequest(CLUSTER, 3, 0, (VoterKey(1),))) is not None
    assert member.follower_state().deadline_ms == 500
