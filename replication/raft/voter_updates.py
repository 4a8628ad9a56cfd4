"""A following voter sends the leader its endpoints and versions (UpdateRaftVoter, KIP-853).

It does so for as long as the voter set does not have them. With static voters (`kraft.version` 0)
the leader keeps them in memory only, so each leader hears them once (KAFKA-16538; Kafka's
`KafkaRaftClient.pollFollowerAsVoter`).
"""

from ...clients.errors import ErrorCode
from .named_leader import Verdict, check_response
from .raft_actions import Destination
from .raft_messages import UpdateVoterRequest, UpdateVoterResponse
from .raft_node import RaftNode
from .raft_state import Follower


def deadline_ms(node: RaftNode, state: Follower) -> int | None:
    """When this voter's update is due; None if there is nothing to send."""
    is_waiting = node.requests.has_any_in_flight or (
        state.leader_id is not None and not node.requests.is_ready(state.leader_id)
    )
    return None if is_waiting or not _is_needed(node, state) else state.update_voter_ms


def _is_needed(node: RaftNode, state: Follower) -> bool:
    if not (node.is_voter and node.options.key.has_directory):
        return False
    if node.voters.has_directories:
        return node.voters.needs_update(node.options.voter)
    return not state.has_updated_leader


def send_update(node: RaftNode, state: Follower, now_ms: int) -> bool:
    """Send the endpoints if they are due; the next Fetch waits for the answer."""
    due_ms = deadline_ms(node, state)
    if state.leader_id is None or due_ms is None or due_ms > now_ms:
        return False
    options = node.options
    request = UpdateVoterRequest(
        cluster_id=options.cluster_id,
        current_leader_epoch=state.epoch,
        voter_id=options.node_id,
        voter_directory_id=options.directory_id,
        listeners=tuple(options.endpoints.items()),
        kraft_version=options.kraft_version_range,
    )
    node.send(Destination(state.leader_id, state.leader_address), request, now_ms)
    state.update_voter_ms = now_ms + options.fetch_timeout_ms
    return True


def handle_update_response(node: RaftNode, response: UpdateVoterResponse, now_ms: int) -> Verdict:
    """A refusal is tried again after the next fetch timeout."""
    if response.partition_error_code in (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.VOTER_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
    ):
        # Another change of the voters is pending, or this node has just been removed. None of it
        # is a reason to stop.
        return Verdict.BACK_OFF
    verdict = check_response(node, response, now_ms)
    if verdict is not Verdict.PROCEED:
        return verdict
    if response.partition_error_code not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
        return Verdict.BACK_OFF
    return leader_is_updated(node, now_ms)


def leader_is_updated(node: RaftNode, now_ms: int) -> Verdict:
    """The leader has heard, or is of a release that does not want to hear."""
    state = node.state
    if isinstance(state, Follower):
        state.has_updated_leader = True
        state.deadline_ms = node.options.fetch_deadline(now_ms, node.random)
    return Verdict.DONE
