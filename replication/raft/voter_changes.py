"""The leader's part of AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853).

One voter changes at a time.

The leader appends a Voters record, which is in effect at once; its commit, by a majority of the new
voters, is the answer. Only then may the next change begin. A leader that removes itself leads on
until the record is committed (Kafka's `AddVoterHandler`, `RemoveVoterHandler`,
`UpdateVoterHandler`).

Before a voter is added, the leader must know its versions. The core does not ask for them: its
action `AskVersions` has the shell do so and hand in the request again, with what it has heard.
"""

from typing import NamedTuple

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID, Uuid, uuid_to_string
from .raft_actions import (
    AppendVoters,
    AskVersions,
    Destination,
    Reply,
    ReplyToVoterChange,
    Token,
)
from .raft_messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeRequest,
    VoterChangeResponse,
)
from .raft_node import RaftNode
from .raft_state import Leader, PendingChange
from .request_checks import Refusal, check_leader_epoch
from .voter_set import Voter, VoterKey, VoterSet

CAUGHT_UP_WITHIN_MS = 3_600_000
"""A new voter has reached the leader's log end, and has fetched, within this time."""


class _Refusal(NamedTuple):
    """Why a voter is not changed."""

    error_code: ErrorCode
    message: str | None


def handle_voter_change(
    node: RaftNode, token: Token, request: VoterChangeRequest, now_ms: int
) -> None:
    """Answer a change of the voters, now or when it is committed."""
    match request:
        case AddVoterRequest():
            outcome = _add(node, token, request, now_ms)
        case RemoveVoterRequest():
            outcome = _remove(node, request)
    if outcome is None:
        return
    if isinstance(outcome, _Refusal):
        _reply(node, token, outcome.error_code, outcome.message)
        return
    state = node.state
    assert isinstance(state, Leader)
    _append(node, state, outcome, now_ms)
    if not request.ack_when_committed:
        _reply(node, token)
        # The next change waits for the commit of this one all the same: see `_check_quorum`.
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


def handle_update(node: RaftNode, token: Token, request: UpdateVoterRequest, now_ms: int) -> None:
    """Answer UpdateRaftVoter. It is refused or done; its commit is not awaited."""
    outcome = _update(node, request)
    refusal = outcome if isinstance(outcome, Refusal) else None
    state = node.state
    if isinstance(outcome, VoterSet) and isinstance(state, Leader):
        if outcome != node.voters:
            _append(node, state, outcome, now_ms)
        state.progress.heard_from(VoterKey(request.voter_id, request.voter_directory_id), now_ms)
    node.act(Reply(token, UpdateVoterResponse(*node.answer_fields(refusal))))


def _check_change(
    node: RaftNode, verb: str, cluster_id: str | None, voter_id: int, directory_id: Uuid
) -> _Refusal | None:
    """The checks of adding and removing before the voter itself is looked at."""
    if cluster_id is not None and cluster_id != node.options.cluster_id:
        return _Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{cluster_id}" doesn\'t match the cluster id '
            f'"{node.options.cluster_id}"',
        )
    refusal = check_leader_epoch(node.epoch, node.receiver)
    if refusal is not None:
        return _Refusal(refusal.error_code, None)
    if voter_id < 0 or directory_id == ZERO_UUID:
        return _Refusal(
            ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
        )
    return None


def _check_quorum(node: RaftNode, verb: str) -> _Refusal | None:
    """Whether the voters may be changed now."""
    state = node.state
    assert isinstance(state, Leader)
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    if state.change is not None:
        return _Refusal(
            timed_out,
            "Request timed out waiting for leader to handle previous voter change request",
        )
    if state.progress.high_watermark is None:
        return _Refusal(
            timed_out,
            "Request timed out waiting for leader to establish HWM and fence previous voter "
            "changes",
        )
    if not node.voters.has_directories:
        return _Refusal(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {verb} voter because the kraft.version feature is 0",
        )
    if node.history.latest_offset >= state.progress.high_watermark:
        return _Refusal(
            timed_out,
            "Request timed out waiting for voters to commit the latest voter change at "
            f"{node.history.latest_offset} with HWM {state.progress.high_watermark}",
        )
    return None


def _add(
    node: RaftNode, token: Token, request: AddVoterRequest, now_ms: int
) -> VoterSet | _Refusal | None:
    """The voters after adding one; None while its versions are asked for."""
    key = VoterKey(request.voter_id, request.voter_directory_id)
    refusal = _check_change(node, "Add", request.cluster_id, *key)
    if refusal is not None:
        return refusal
    address = dict(request.listeners).get(node.options.listener)
    if address is None:
        return _Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint ({_names(request)}) for the default "
            f"listener ListenerName({node.options.listener})",
        )
    refusal = _check_quorum(node, "adding")
    if refusal is not None:
        return refusal
    if node.voters.voter(key.id) is not None:
        return _Refusal(
            ErrorCode.DUPLICATE_VOTER,
            f"The voter id for {_text(key)} is already part of the set of voters "
            f"{_keys(node.voters)}.",
        )
    if request.is_unreachable:
        return _Refusal(
            ErrorCode.REQUEST_TIMED_OUT,
            "Aborted add voter operation for since API_VERSIONS returned an error "
            "BROKER_NOT_AVAILABLE",
        )
    versions = request.kraft_version
    if versions is None:
        node.act(AskVersions(token, request, Destination(key.id, address)))
        return None
    if not versions.minimum <= 1 <= versions.maximum:
        return _Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Aborted add voter operation for {_text(key)} since the kraft.version range "
            f"(min: {versions.minimum}, max: {versions.maximum} doesn't support the finalized "
            "version 1",
        )
    if not _is_caught_up(node, key, now_ms):
        return _Refusal(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted add voter operation for {_text(key)} since it is lagging behind",
        )
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
    refusal = _check_change(node, "Remove", request.cluster_id, *key)
    refusal = refusal or _check_quorum(node, "removing")
    if refusal is not None:
        return refusal
    voters = node.voters.without_voter(key)
    if voters is None:
        return _Refusal(
            ErrorCode.VOTER_NOT_FOUND,
            f"Cannot remove voter {_text(key)} from the set of voters {_keys(node.voters)}",
        )
    return voters


def _update(node: RaftNode, request: UpdateVoterRequest) -> VoterSet | Refusal:
    """The voters with a voter's present endpoints; those of a static voter stay as they are."""
    if request.cluster_id is not None and request.cluster_id != node.options.cluster_id:
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID)
    refusal = check_leader_epoch(request.current_leader_epoch, node.receiver)
    if refusal is not None:
        return refusal
    key = VoterKey(request.voter_id, request.voter_directory_id)
    lowest, highest = request.kraft_version
    if (
        key.id < 0
        or not key.has_directory
        or node.options.listener not in dict(request.listeners)
        or not 0 <= lowest <= highest
    ):
        return Refusal(ErrorCode.INVALID_REQUEST)
    if not node.voters.has_directories:
        return node.voters if node.voters.is_voter(key) else Refusal(ErrorCode.VOTER_NOT_FOUND)
    refused = _check_quorum(node, "updating")
    if refused is not None:
        return Refusal(refused.error_code)
    if not lowest <= 1 <= highest:
        return Refusal(ErrorCode.INVALID_REQUEST)
    voters = node.voters.with_updated_voter(
        Voter(key, dict(request.listeners), request.kraft_version)
    )
    return voters or Refusal(ErrorCode.VOTER_NOT_FOUND)


def _text(key: VoterKey) -> str:
    """Kafka's `ReplicaKey.toString`."""
    directory = uuid_to_string(key.directory_id) if key.has_directory else "<undefined>"
    return f"ReplicaKey(id={key.id}, directoryId={directory})"


def _keys(voters: VoterSet) -> str:
    return f"[{', '.join(_text(voter.key) for voter in voters)}]"


def _names(request: AddVoterRequest) -> str:
    """Kafka's `Endpoints.toString`."""
    endpoints = (
        f"ListenerName({name})={address.host}/<unresolved>:{address.port}"
        for name, address in request.listeners
    )
    return f"Endpoints(endpoints={{{', '.join(endpoints)}}})"


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
