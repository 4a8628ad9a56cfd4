"""Pre-votes, votes, and who gets them (KIP-595, KIP-996).

A voter that misses its leader asks for pre-votes first: whether the others would vote for it. That
changes nothing on their side, so a voter that was cut off does not disturb the others when it is
back. With a majority of pre-votes it raises the epoch, votes for itself and asks for real votes.
"""

from ...clients.errors import ErrorCode
from .named_leader import Verdict, check_response
from .raft_actions import Reply, Token
from .raft_log import log_end
from .raft_messages import VoteRequest, VoteResponse
from .raft_node import RaftNode
from .raft_state import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    RaftEvent,
    State,
    Unattached,
)
from .request_checks import check_vote, check_voter_key
from .request_manager import voter_destination
from .voter_set import VoterKey


def may_be_elected(node: RaftNode) -> bool:
    """Whether a node holds elections: a voter, or one whose removal may not be committed.

    The others may lack the record of the removal, and then they need this node: its log is longer
    than theirs, so that none of them gets its vote. Not so in Kafka, where two voters can stop each
    other for good; Ongaro, "Consensus: Bridging Theory and Practice", 4.2.2.
    """
    if node.is_voter or not node.options.can_be_voter:
        return node.is_voter
    latest = node.history.latest_offset
    before = node.history.at_or_before(latest - 1)
    is_committed = node.high_watermark is not None and node.high_watermark > latest
    return before is not None and before.is_voter(node.options.key) and not is_committed


def can_grant_vote(state: State, key: VoterKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
    """Whether a node in this state votes for another one.

    `is_up_to_date`: whether the other one's log ends at the same place or later.
    """
    if is_pre_vote:
        if isinstance(state, Leader) or (isinstance(state, Follower) and state.has_fetched):
            return False
        return is_up_to_date
    if not isinstance(state, Unattached | Prospective):
        return False
    voted = state.voted_key
    if voted is not None:
        # Its response to the same candidate may have been lost.
        is_same = not voted.has_directory or voted.directory_id == key.directory_id
        return voted.id == key.id and is_same
    return state.leader_id is None and is_up_to_date


def handle_vote(node: RaftNode, token: Token, request: VoteRequest, now_ms: int) -> None:
    """Answer a Vote."""
    refusal = check_vote(request, node.receiver)
    if refusal is None:
        if request.replica_epoch > node.epoch:
            # For a pre-vote, too: its epoch is the sender's current one.
            node.see_epoch(request.replica_epoch, now_ms)
        refusal = check_voter_key(request.voter_id, request.voter_directory_id, node.receiver)
    if refusal is not None:
        node.act(Reply(token, VoteResponse(*node.answer_fields(refusal))))
        return
    own = log_end(node.log)
    key = VoterKey(request.replica_id, request.replica_directory_id)
    is_granted = can_grant_vote(
        node.state,
        key,
        is_up_to_date=(request.last_offset_epoch, request.last_offset) >= (own.epoch, own.offset),
        is_pre_vote=request.pre_vote,
    )
    if is_granted and not request.pre_vote and node.state.voted_key is None:
        node.add_vote(key, now_ms)
    node.act(Reply(token, VoteResponse(*node.answer_fields(), vote_granted=is_granted)))


def handle_vote_response(
    node: RaftNode, voter_id: int, request: VoteRequest, response: VoteResponse, now_ms: int
) -> Verdict:
    """Count a vote."""
    if response.error_code is ErrorCode.UNSUPPORTED_VERSION:
        return handle_no_pre_vote(node, request, now_ms)
    verdict = check_response(node, response, now_ms)
    if verdict is not Verdict.PROCEED:
        return verdict
    if response.partition_error_code is not ErrorCode.NONE:
        return Verdict.BACK_OFF
    state = node.state
    is_awaited = isinstance(state, Prospective if request.pre_vote else Candidate)
    if is_awaited and request.replica_epoch == state.epoch:
        assert isinstance(state, Prospective | Candidate)
        state.votes.record(voter_id, is_granted=response.vote_granted)
    return Verdict.DONE


def handle_no_pre_vote(node: RaftNode, request: VoteRequest, now_ms: int) -> Verdict:
    """A voter does not know pre-votes yet: hold the election without them."""
    if request.pre_vote and isinstance(node.state, Prospective):
        node.become_candidate(now_ms)
        return Verdict.DONE
    return Verdict.BACK_OFF


def poll_prospective(node: RaftNode, state: Prospective, now_ms: int) -> None:
    """Go on with the pre-vote."""
    if state.votes.is_won:
        node.become_candidate(now_ms)
    elif state.votes.is_lost or state.deadline_ms <= now_ms:
        _end_pre_vote(node, state, now_ms)
    else:
        _send_votes(node, state, now_ms)


def _end_pre_vote(node: RaftNode, state: Prospective, now_ms: int) -> None:
    leader_id, address = state.leader_id, state.leader_address
    if leader_id is not None and address is not None and leader_id != node.options.node_id:
        node.become_follower(
            state.epoch, leader_id, address, now_ms, RaftEvent.PRE_VOTES_LOST_UNDER_LEADER
        )
    else:
        node.become_unattached(RaftEvent.PRE_VOTES_LOST, state.epoch, state.deadline_ms)


def poll_candidate(node: RaftNode, state: Candidate, now_ms: int) -> None:
    """Go on with the election. If it is lost, the rest of its timeout is waited out."""
    if state.votes.is_won:
        node.become_leader(sorted(state.votes.granted), now_ms)
    elif state.deadline_ms <= now_ms:
        node.become_prospective(RaftEvent.ELECTION_TIMEOUT, now_ms)
    else:
        _send_votes(node, state, now_ms)


def _send_votes(node: RaftNode, state: Prospective | Candidate, now_ms: int) -> None:
    end = log_end(node.log)
    for voter_id in sorted(state.votes.unrecorded):
        destination = voter_destination(node.voters, voter_id, node.options.listener)
        voter = node.voters.voter(voter_id)
        if destination is None or voter is None or not node.requests.is_ready(voter_id):
            continue
        request = VoteRequest(
            cluster_id=node.options.cluster_id,
            voter_id=voter_id,
            voter_directory_id=voter.key.directory_id,
            replica_id=node.options.node_id,
            replica_directory_id=node.options.directory_id,
            replica_epoch=state.epoch,
            last_offset=end.offset,
            last_offset_epoch=end.epoch,
            pre_vote=isinstance(state, Prospective),
        )
        node.send(destination, request, now_ms)
