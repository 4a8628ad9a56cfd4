"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: one voter changes at a time (KIP-853).

The leader appends a Voters record, which is in effect at once; its commit, by a majority of the new
voters, is the answer. Only then may the next change begin. A leader that removes itself leads on
until the record is committed (Kafka's `AddVoterHandler`, `RemoveVoterHandler`,
`UpdateVoterHandler`).

Before a voter is added, the leader must know its versions. The core does not ask for them: its
action `AskVersions` has the shell do so and hand in the request again, with what it has heard.
"""

from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID, Uuid
from .raft_actions import AppendVoters, AskVersions, Destination, ReplyToVoterChange, Token
from .raft_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeRequest,
    VoterChangeResponse,
)
from .raft_node import RaftNode
from .raft_state import Leader, PendingChange
from .request_checks import check_leader_epoch
from .voter_set import Voter, VoterKey, VoterSet

CAUGHT_UP_WITHIN_MS = 3_600_000
"""A new voter has reached the leader's log end, and has fetched, within this time."""


class _Refusal(NamedTuple):
    """Why a voter is not changed."""

    error_code: ErrorCode
    message: str


def handle_voter_change(
    node: RaftNode, token: Token, request: VoterChangeRequest, now_ms: int
) -> None:
    """Answer a change of the voters, now or when it is committed."""
    match request:
        case AddVoterRequest():
            outcome = _add(node, token, request, now_ms)
        case RemoveVoterRequest():
            outcome = _remove(node, request)
        case UpdateVoterRequest():
            outcome = _update(node, request)
    if outcome is None:
        return
    if isinstance(outcome, _Refusal):
        _reply(node, token, outcome.error_code, outcome.message)
        return
    state = node.state
    assert isinstance(state, Leader)
    if outcome != node.voters:
        _append(node, state, outcome, now_ms)
    if isinstance(request, UpdateVoterRequest) or not request.ack_when_committed:
        # An update is only ever refused or taken; who sent it does not wait for its commit.
        _reply(node, token)
        return
    state.change = PendingChange(token, node.history.latest_offset, now_ms + request.timeout_ms)


def _append(node: RaftNode, state: Leader, voters: VoterSet, now_ms: int) -> None:
    offset = node.log.end_offset
    node.act(AppendVoters(state.epoch, offset, voters))
    node.history.add(offset, voters)
    state.progress.set_voters(voters, now_ms)
    node.log_will_change()


def _reply(
    node: RaftNode, token: Token, error: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> None:
    _, _, leader_id, epoch, endpoints = node.answer_fields()
    response = VoterChangeResponse(error, message, leader_id, epoch, endpoints)
    node.act(ReplyToVoterChange(token, response))


# -- Checks ------------------------------------------------------------------------------------


def _check_change(
    node: RaftNode, cluster_id: str | None, voter_id: int, directory_id: Uuid
) -> _Refusal | None:
    """The checks of adding and removing before the voter itself is looked at."""
    if cluster_id is not None and cluster_id != node.options.cluster_id:
        return _Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, "The cluster id is another one.")
    refusal = check_leader_epoch(node.epoch, node.receiver)
    if refusal is not None:
        return _Refusal(refusal.error_code, "This node does not lead the quorum.")
    if voter_id < 0 or directory_id == ZERO_UUID:
        return _Refusal(ErrorCode.INVALID_REQUEST, "The voter needs both an id and a directory id.")
    return None


def _check_quorum(node: RaftNode) -> _Refusal | None:
    """Whether the voters may be changed now."""
    state = node.state
    assert isinstance(state, Leader)
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    if state.change is not None:
        return _Refusal(timed_out, "Another change of the voters is pending.")
    if state.progress.high_watermark is None:
        return _Refusal(timed_out, "The leader does not know the high watermark yet.")
    if not node.voters.has_directories:
        return _Refusal(
            ErrorCode.UNSUPPORTED_VERSION, "The voters are static while kraft.version is 0."
        )
    if node.history.latest_offset >= state.progress.high_watermark:
        return _Refusal(timed_out, "The last change of the voters is not committed yet.")
    return None


def _add(
    node: RaftNode, token: Token, request: AddVoterRequest, now_ms: int
) -> VoterSet | _Refusal | None:
    """The voters after adding one; None while its versions are asked for."""
    key = VoterKey(request.voter_id, request.voter_directory_id)
    refusal = _check_change(node, request.cluster_id, *key)
    if refusal is not None:
        return refusal
    address = dict(request.listeners).get(node.options.listener)
    if address is None:
        return _Refusal(
            ErrorCode.INVALID_REQUEST, f"The voter has no listener {node.options.listener}."
        )
    refusal = _check_quorum(node)
    if refusal is not None:
        return refusal
    if node.voters.voter(key.id) is not None:
        return _Refusal(ErrorCode.DUPLICATE_VOTER, f"Node {key.id} is a voter already.")
    if request.is_unreachable:
        return _Refusal(ErrorCode.REQUEST_TIMED_OUT, f"Node {key.id} cannot be reached.")
    versions = request.kraft_version
    if versions is None:
        node.act(AskVersions(token, request, Destination(key.id, address)))
        return None
    if not versions.minimum <= 1 <= versions.maximum:
        return _Refusal(
            ErrorCode.INVALID_REQUEST, f"Node {key.id} does not support kraft.version 1."
        )
    if not _is_caught_up(node, key, now_ms):
        return _Refusal(ErrorCode.REQUEST_TIMED_OUT, f"Node {key.id} is not caught up.")
    return node.voters.with_voter(Voter(key, dict(request.listeners), versions))


def _is_caught_up(node: RaftNode, key: VoterKey, now_ms: int) -> bool:
    state = node.state
    assert isinstance(state, Leader)
    replica = state.progress.replica(key)
    return (
        replica is not None
        and replica.last_caught_up_ms >= 0
        and replica.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS
        and replica.last_caught_up_ms > now_ms - CAUGHT_UP_WITHIN_MS
    )


def _remove(node: RaftNode, request: RemoveVoterRequest) -> VoterSet | _Refusal:
    key = VoterKey(request.voter_id, request.voter_directory_id)
    refusal = _check_change(node, request.cluster_id, *key) or _check_quorum(node)
    if refusal is not None:
        return refusal
    voters = node.voters.without_voter(key)
    if voters is None:
        return _Refusal(ErrorCode.VOTER_NOT_FOUND, f"Node {key.id} is no voter, or the only one.")
    return voters


def _update(node: RaftNode, request: UpdateVoterRequest) -> VoterSet | _Refusal:
    """The voters with a voter's present endpoints; those of a static voter stay as they are."""
    if request.cluster_id is not None and request.cluster_id != node.options.cluster_id:
        return _Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, "The cluster id is another one.")
    refusal = check_leader_epoch(request.current_leader_epoch, node.receiver)
    if refusal is not None:
        return _Refusal(refusal.error_code, "This node does not lead the quorum in that epoch.")
    key = VoterKey(request.voter_id, request.voter_directory_id)
    if key.id < 0 or not key.has_directory:
        return _Refusal(ErrorCode.INVALID_REQUEST, "The voter needs both an id and a directory id.")
    if node.options.listener not in dict(request.listeners):
        return _Refusal(
            ErrorCode.INVALID_REQUEST, f"The voter has no listener {node.options.listener}."
        )
    if not node.voters.has_directories:
        return node.voters
    refused = _check_quorum(node)
    if refused is not None:
        return refused
    voters = node.voters.with_updated_voter(
        Voter(key, dict(request.listeners), request.kraft_version)
    )
    if voters is None:
        return _Refusal(ErrorCode.VOTER_NOT_FOUND, f"Node {key.id} is no voter.")
    return voters


# -- The pending change ------------------------------------------------------------------------


def finish_change(node: RaftNode, state: Leader, now_ms: int) -> None:
    """Answer the pending change if it is committed, or if its sender waits no more."""
    change = state.change
    if change is None:
        return
    high_watermark = state.progress.high_watermark
    if high_watermark is not None and high_watermark > change.offset:
        state.change = None
        _reply(node, change.token)
    elif change.deadline_ms <= now_ms:
        state.change = None
        _reply(node, change.token, ErrorCode.REQUEST_TIMED_OUT, "It is not committed yet.")
