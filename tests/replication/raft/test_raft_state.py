"""The table of states, row by row, and every pair that it leaves out."""

import pytest

from tierlog.replication.raft.raft_state import NEXT_STATES, RaftEvent, Role, Votes
from tierlog.replication.raft.voter_set import VoterKey
from tierlog.tests.replication.raft.members import voters_of

R, E = Role, RaftEvent

ROWS = {
    E.HIGHER_EPOCH: dict.fromkeys(R, R.UNATTACHED),
    E.LEADER_NAMED: dict.fromkeys(R, R.FOLLOWER),
    E.VOTED: {R.UNATTACHED: R.UNATTACHED, R.PROSPECTIVE: R.PROSPECTIVE},
    E.ELECTION_TIMEOUT: {
        R.UNATTACHED: R.PROSPECTIVE,
        R.CANDIDATE: R.PROSPECTIVE,
        R.RESIGNED: R.UNATTACHED,
    },
    E.FETCH_TIMEOUT: {R.FOLLOWER: R.PROSPECTIVE},
    E.OBSERVER_FETCH_TIMEOUT: {R.FOLLOWER: R.UNATTACHED},
    E.PRE_VOTES_WON: {R.PROSPECTIVE: R.CANDIDATE},
    E.PRE_VOTES_LOST: {R.PROSPECTIVE: R.UNATTACHED},
    E.PRE_VOTES_LOST_UNDER_LEADER: {R.PROSPECTIVE: R.FOLLOWER},
    E.VOTES_WON: {R.CANDIDATE: R.LEADER},
    E.RESIGNED: {R.LEADER: R.RESIGNED},
    E.ONLY_VOTER: {
        R.RESIGNED: R.PROSPECTIVE,
        R.UNATTACHED: R.PROSPECTIVE,
        R.FOLLOWER: R.PROSPECTIVE,
    },
}


@pytest.mark.parametrize("event", RaftEvent)
@pytest.mark.parametrize("role", Role)
def test_every_state_and_event(role: Role, event: RaftEvent) -> None:
    assert NEXT_STATES.get((role, event)) == ROWS[event].get(role)


def test_only_prospective_becomes_candidate_and_only_candidate_leads() -> None:
    assert {start for (start, _), end in NEXT_STATES.items() if end is R.CANDIDATE} == {
        R.PROSPECTIVE
    }
    assert {start for (start, _), end in NEXT_STATES.items() if end is R.LEADER} == {R.CANDIDATE}


@pytest.mark.parametrize(
    ("voters", "granted", "rejected", "is_won", "is_lost"),
    [
        (1, [], [], True, False),
        (2, [], [], False, False),
        (2, [2], [], True, False),
        (2, [], [2], False, True),
        (3, [2], [3], True, False),
        (3, [], [2], False, False),
        (3, [], [2, 3], False, True),
        (4, [2], [], False, False),
        (4, [2], [3], False, False),
        (4, [2], [3, 4], False, True),
        (5, [2, 3], [], True, False),
        (5, [], [2, 3, 4], False, True),
        (5, [9], [9], False, False),
    ],
)
def test_votes_are_counted(
    voters: int, granted: list[int], rejected: list[int], is_won: bool, is_lost: bool
) -> None:
    votes = Votes(voters_of(*range(1, voters + 1)), VoterKey(1))
    for voter_id in granted:
        votes.record(voter_id, is_granted=True)
    for voter_id in rejected:
        votes.record(voter_id, is_granted=False)
    assert (votes.is_won, votes.is_lost) == (is_won, is_lost)


def test_a_voter_votes_once() -> None:
    votes = Votes(voters_of(1, 2, 3, 4, 5), VoterKey(1))
    for _ in range(3):
        votes.record(2, is_granted=True)
    assert votes.granted == {1, 2}
    votes.record(2, is_granted=False)
    assert votes.granted == {1, 2}
