"""What a node does about the leader and epoch that a request or response names.

Two leaders of one epoch are a broken quorum: a node whose own request is answered so stops rather
than follow either of them (KafkaRaftClient's `maybeTransition` and `maybeHandleCommonResponse`). A
request that names a second leader is refused as invalid, which stops its sender if that is a node
of the quorum. Kafka stops the receiver, so that anybody who can reach it could stop it.
"""

from enum import Enum

from ...clients.errors import ErrorCode
from .raft_messages import RaftResponse
from .raft_node import RaftNode
from .raft_state import Candidate, Prospective, Unattached
from .voter_set import Address


class Verdict(Enum):
    """What is left to do about a response."""

    DONE = "nothing"
    BACK_OFF = "pause before the next request to that node"
    PROCEED = "what its API is about"


def follow_named_leader(
    node: RaftNode, leader_id: int | None, epoch: int, address: Address | None, now_ms: int
) -> None:
    """Move to the epoch and leader that another node names, if they are news."""
    if leader_id is not None and not is_consistent(node, leader_id, epoch):
        own_id = node.options.node_id
        node.fail(
            f"Other nodes name this node, {own_id}, as the leader of epoch {epoch}, of which it"
            " knows nothing: another process has the same node.id, or the metadata log of this node"
            " was lost. Give each process a node.id of its own; after a loss, start this one again"
            " once another controller leads."
            if leader_id == own_id
            else f"Node {leader_id} is named as the leader of epoch {epoch}, but this node "
            f"({own_id}) knows node {node.state.leader_id} as the leader of "
            f"epoch {node.epoch}."
        )
        return
    if epoch > node.epoch:
        if leader_id is None or address is None:
            node.see_epoch(epoch, now_ms, leader_id)
        else:
            node.become_follower(epoch, leader_id, address, now_ms)
        return
    if epoch < node.epoch or leader_id is None or address is None:
        return
    state = node.state
    # A prospective voter that misses its leader hears of it from all who still follow it.
    is_news = isinstance(state, Unattached | Candidate) or (
        isinstance(state, Prospective) and (state.leader_id is None or not state.leader_address)
    )
    if is_news and leader_id != node.options.node_id:
        node.become_follower(epoch, leader_id, address, now_ms)


def is_consistent(node: RaftNode, leader_id: int, epoch: int) -> bool:
    """Whether a leader fits what this node has heard of the leader of that epoch."""
    if leader_id == node.options.node_id:
        # It may be the leader, or the one that has resigned in this very epoch.
        return epoch < node.epoch or (epoch == node.epoch and node.state.leader_id == leader_id)
    return epoch != node.epoch or node.state.leader_id in (None, leader_id)


def check_response(node: RaftNode, response: RaftResponse, now_ms: int) -> Verdict:
    """The rules that all responses have in common."""
    if response.error_code is not ErrorCode.NONE:
        # Including CLUSTER_AUTHORIZATION_FAILED: an operator can correct that while we run.
        return Verdict.BACK_OFF
    error, epoch = response.partition_error_code, response.leader_epoch
    if epoch < node.epoch or error is ErrorCode.UNKNOWN_LEADER_EPOCH:
        # The other node has not heard of this epoch yet. Kafka asks it again at once.
        return Verdict.BACK_OFF
    leader_id = response.leader_id if response.leader_id >= 0 else None
    address = named_address(node, response, leader_id)
    is_redirect = error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if epoch > node.epoch or is_redirect:
        before = node.state
        follow_named_leader(node, leader_id, epoch, address, now_ms)
        # Who sends us elsewhere, and to no place that we did not know, is not asked again at once.
        return Verdict.DONE if node.state is not before else Verdict.BACK_OFF
    if leader_id is not None:
        follow_named_leader(node, leader_id, epoch, address, now_ms)
    if node.is_broken:
        return Verdict.DONE
    if error in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_VOTER_KEY):
        # It stops, or another node, perhaps with a new disk, has the voter's address.
        return Verdict.BACK_OFF
    if error is ErrorCode.INVALID_REQUEST:
        node.fail("Another node of the quorum refused a request of this node as invalid.")
        return Verdict.DONE
    return Verdict.PROCEED


def named_address(node: RaftNode, response: RaftResponse, leader_id: int | None) -> Address | None:
    """The address of the leader that a response names; if it has none, that of the voter set."""
    if leader_id is None:
        return None
    for endpoint in response.node_endpoints:
        if endpoint.node_id == leader_id:
            return endpoint.address
    return node.voter_address(leader_id)
