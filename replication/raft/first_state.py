"""The state in which a node starts, from what it persisted (Kafka's `QuorumState.initialize`)."""

from .election_state import ElectionState
from .raft_node import RaftNode
from .raft_state import Candidate, Follower, RaftEvent, Resigned, Unattached, Votes


def start(node: RaftNode, persisted: ElectionState, now_ms: int) -> None:
    """Put a node into its first state. The only voter goes on from there to lead."""
    _begin(node, persisted, now_ms)
    if node.is_only_voter and not isinstance(node.state, Candidate):
        node.become_prospective(RaftEvent.ONLY_VOTER, now_ms)


def _begin(node: RaftNode, persisted: ElectionState, now_ms: int) -> None:
    epoch, leader_id, voted_key = persisted.epoch, persisted.leader_id, persisted.voted_key
    deadline_ms = node.election_deadline(now_ms)
    log_epoch = node.log.last_epoch
    if epoch < log_epoch:
        # The file is lost or stale: who led or got a vote in the log's epoch is not known.
        node.begin(Unattached(epoch=log_epoch, deadline_ms=deadline_ms), is_durable=True)
    elif leader_id == node.options.node_id and node.options.can_be_voter:
        # Records of its epoch may have been lost unsynced: to lead on in it could write others at
        # their offsets.
        resigned = Resigned(
            epoch=epoch,
            leader_id=leader_id,
            deadline_ms=deadline_ms,
            unacknowledged=set(node.voters.ids) - {leader_id},
        )
        node.begin(resigned, is_durable=False)
    elif leader_id is None and node.is_voter and persisted.is_voted(node.options.key):
        votes = Votes(node.voters, node.options.key)
        state = Candidate(epoch=epoch, voted_key=voted_key, deadline_ms=deadline_ms, votes=votes)
        node.begin(state, is_durable=False)
    else:
        _begin_behind(node, persisted, deadline_ms, now_ms)


def _begin_behind(node: RaftNode, persisted: ElectionState, deadline_ms: int, now_ms: int) -> None:
    """Follow the leader if there is one with an address."""
    epoch, leader_id, voted_key = persisted.epoch, persisted.leader_id, persisted.voted_key
    address = None if leader_id is None else node.voter_address(leader_id)
    if leader_id is None or address is None or leader_id == node.options.node_id:
        unattached = Unattached(
            epoch=epoch, leader_id=leader_id, voted_key=voted_key, deadline_ms=deadline_ms
        )
        node.begin(unattached, is_durable=False)
        return
    follower = Follower(
        epoch=epoch,
        leader_id=leader_id,
        voted_key=voted_key,
        leader_address=address,
        deadline_ms=node.options.fetch_deadline(now_ms, node.random),
        update_voter_ms=now_ms + node.options.fetch_timeout_ms,
    )
    node.begin(follower, is_durable=False)
