"""What a leader does: answer fetches, move the high watermark, remind silent voters, resign.

A fetch at the end of the log waits until something is appended, or until the high watermark is
above the one that the replica knows (KIP-1166).
"""

from ...clients.errors import ErrorCode
from ...storage.remote.remote_lineage import OffsetAndEpoch
from .named_leader import Verdict, check_response
from .raft_actions import Reply, ReplyWithRecords, ReplyWithSnapshotBytes, Token
from .raft_log import BOOTSTRAP_SNAPSHOT, RaftLogView
from .raft_messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumDescription,
)
from .raft_node import RaftNode
from .raft_state import Leader, RaftEvent, Resigned, WaitingFetch
from .request_checks import (
    Refusal,
    check_fetch,
    check_fetch_snapshot,
    check_snapshot_position,
)
from .request_manager import voter_destination
from .voter_set import VoterKey

END_EPOCH_TRIES = 3
"""How often a stopping leader sends EndQuorumEpoch to an unreachable voter."""


def diverging_or_snapshot(
    log: RaftLogView, offset: int, epoch: int
) -> tuple[OffsetAndEpoch | None, OffsetAndEpoch | None]:
    """Where a replica's log diverges, or which snapshot it must load; two Nones if it continues.

    The replica's log ends at `offset`, with a record of `epoch` (Kafka's `validateOffsetAndEpoch`).
    """
    latest, earliest = log.latest_snapshot_id, log.earliest_snapshot_id
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        # Loading a snapshot is always less work than fetching all the records.
        return None, latest
    if offset == 0 and log.start_offset == 0:
        return None, None
    if earliest is not None and (
        offset < log.start_offset
        or (offset == log.start_offset and epoch != earliest.epoch)
        or epoch < earliest.epoch
    ):
        return None, latest
    end = log.end_offset_for_epoch(epoch)
    if end.epoch != epoch or end.offset < offset:
        return end, None
    return None, None


def handle_fetch(node: RaftNode, token: Token, request: FetchRequest, now_ms: int) -> None:
    """Answer a Fetch, or let it wait."""
    refusal = check_fetch(request, node.receiver)
    if refusal is not None:
        node.act(Reply(token, FetchResponse(*node.answer_fields(refusal))))
        return
    state = node.state
    assert isinstance(state, Leader)
    key = VoterKey(request.replica_id, request.replica_directory_id)
    for waiting in [fetch for fetch in state.waiting if key.id >= 0 and _key_of(fetch) == key]:
        # The connection of that earlier fetch is lost, or the replica has given up on it.
        state.waiting.remove(waiting)
        _reply(node, state, waiting.token)
    divergence = diverging_or_snapshot(node.log, request.fetch_offset, request.last_fetched_epoch)
    # Only a position that is in this log says how far the replica's log goes (KAFKA-13141).
    if (
        divergence == (None, None)
        and key.id != node.options.node_id
        and state.progress.fetched(key, request.fetch_offset, now_ms)
    ):
        high_watermark_moved(node, state)
    waiting = WaitingFetch(token, request, now_ms + request.max_wait_ms)
    if not _answer(node, state, waiting, now_ms):
        state.waiting.append(waiting)


def _key_of(waiting: WaitingFetch) -> VoterKey:
    return VoterKey(waiting.request.replica_id, waiting.request.replica_directory_id)


def _answer(node: RaftNode, state: Leader, waiting: WaitingFetch, now_ms: int) -> bool:
    """Answer a Fetch if there is anything new; returns whether it was answered."""
    log, request = node.log, waiting.request
    diverging, snapshot_id = diverging_or_snapshot(
        log, request.fetch_offset, request.last_fetched_epoch
    )
    if diverging is not None or snapshot_id is not None:
        response = _fetch_response(node, state)
        response = response._replace(diverging_epoch=diverging, snapshot_id=snapshot_id)
        node.act(Reply(waiting.token, response))
    elif log.end_offset > request.fetch_offset:
        response = _fetch_response(node, state)
        node.act(ReplyWithRecords(waiting.token, response, request.fetch_offset))
    elif waiting.deadline_ms <= now_ms or request.high_watermark < _high_watermark(state):
        _reply(node, state, waiting.token)
    else:
        return False
    return True


def _reply(node: RaftNode, state: Leader, token: Token) -> None:
    node.act(Reply(token, _fetch_response(node, state)))


def _fetch_response(node: RaftNode, state: Leader) -> FetchResponse:
    return FetchResponse(
        *node.answer_fields(),
        high_watermark=_high_watermark(state),
        log_start_offset=node.log.start_offset,
    )


def _high_watermark(state: Leader) -> int:
    high_watermark = state.progress.high_watermark
    return -1 if high_watermark is None else high_watermark


def answer_waiting(node: RaftNode, state: Leader, now_ms: int) -> None:
    """Answer the waiting fetches that have something new, or have waited long enough."""
    state.waiting = [fetch for fetch in state.waiting if not _answer(node, state, fetch, now_ms)]


def handle_fetch_snapshot(
    node: RaftNode, token: Token, request: FetchSnapshotRequest, now_ms: int
) -> None:
    """Answer a FetchSnapshot."""
    refusal = check_fetch_snapshot(request, node.receiver)
    size = None
    if refusal is None:
        size = node.log.snapshot_size(request.snapshot_id)
        refusal = check_snapshot_position(request, size)
    state = node.state
    if refusal is not None or size is None or not isinstance(state, Leader):
        fields = node.answer_fields(refusal)
        node.act(Reply(token, FetchSnapshotResponse(*fields, snapshot_id=request.snapshot_id)))
        return
    key = VoterKey(request.replica_id, request.replica_directory_id)
    state.progress.heard_from(key, now_ms)
    response = FetchSnapshotResponse(
        *node.answer_fields(),
        snapshot_id=request.snapshot_id,
        size=size,
        position=request.position,
    )
    node.act(ReplyWithSnapshotBytes(token, response, max(0, request.max_bytes)))


def leader_log_changed(node: RaftNode, state: Leader, now_ms: int) -> None:
    """The leader has appended or synced records."""
    log = node.log
    if state.progress.leader_advanced(log.end_offset, log.flushed_offset, now_ms):
        high_watermark_moved(node, state)
    node.flush()
    answer_waiting(node, state, now_ms)


def high_watermark_moved(node: RaftNode, state: Leader) -> None:
    """Announce the leader's high watermark."""
    node.advance_high_watermark(_high_watermark(state))


def poll_leader(node: RaftNode, state: Leader, now_ms: int) -> None:
    """Resign if a majority is silent or the node stops; remind voters that do not fetch."""
    check_quorum_ms = state.progress.check_quorum_deadline_ms
    is_cut_off = check_quorum_ms is not None and check_quorum_ms <= now_ms
    # A leader that has removed itself leads on until the record of its removal is committed.
    is_removed = (
        not state.progress.is_leader_voter and _high_watermark(state) > node.history.latest_offset
    )
    if node.is_stopping or is_cut_off or is_removed:
        node.resign(now_ms)
        return
    answer_waiting(node, state, now_ms)
    state.progress.forget_observers(now_ms)
    if state.begin_epoch_deadline_ms <= now_ms:
        _send_begin_epoch(node, state, now_ms)


def _send_begin_epoch(node: RaftNode, state: Leader, now_ms: int) -> None:
    options = node.options
    interval_ms = options.begin_epoch_interval_ms
    state.begin_epoch_deadline_ms = now_ms + interval_ms
    for voter_id in state.progress.silent_voters(now_ms, interval_ms):
        destination, voter = (
            voter_destination(node.voters, voter_id, node.options.listener),
            node.voters.voter(voter_id),
        )
        if destination is None or voter is None or not node.requests.is_ready(voter_id):
            continue
        request = BeginQuorumEpochRequest(
            cluster_id=options.cluster_id,
            voter_id=voter_id,
            voter_directory_id=voter.key.directory_id,
            leader_id=options.node_id,
            leader_epoch=state.epoch,
            leader_endpoints=tuple(options.endpoints.items()),
        )
        node.send(destination, request, now_ms)


def poll_resigned(node: RaftNode, state: Resigned, now_ms: int) -> None:
    """Announce the resignation to the voters; after the election timeout, go to the next epoch."""
    if state.deadline_ms <= now_ms and not node.is_stopping:
        deadline_ms = node.election_deadline(now_ms)
        node.become_unattached(RaftEvent.ELECTION_TIMEOUT, state.epoch + 1, deadline_ms)
        return
    options = node.options
    for voter_id in sorted(state.unacknowledged):
        destination = voter_destination(node.voters, voter_id, node.options.listener)
        if destination is None or not node.requests.is_ready(voter_id):
            continue
        request = EndQuorumEpochRequest(
            cluster_id=options.cluster_id,
            leader_id=options.node_id,
            leader_epoch=state.epoch,
            preferred_candidates=state.preferred_candidates,
            leader_endpoints=tuple(options.endpoints.items()),
        )
        node.send(destination, request, now_ms)


def handle_begin_epoch_response(
    node: RaftNode, response: BeginQuorumEpochResponse, now_ms: int
) -> Verdict:
    """Only the leader and epoch in it matter: that a voter fetches shows that it follows this
    leader."""
    return _check_error(node, response, now_ms)


def handle_end_epoch_response(
    node: RaftNode, voter_id: int, response: EndQuorumEpochResponse, now_ms: int
) -> Verdict:
    """A voter has heard of the resignation."""
    verdict = _check_error(node, response, now_ms)
    state = node.state
    if verdict is Verdict.DONE and isinstance(state, Resigned):
        state.unacknowledged.discard(voter_id)
    return verdict


def handle_end_epoch_failure(node: RaftNode, voter_id: int) -> None:
    """A voter could not be reached. One that has stopped itself need not learn that the leader
    stops.

    A running voter that misses the request waits for its fetch timeout, which only costs time.
    """
    state = node.state
    if not (node.is_stopping and isinstance(state, Resigned)):
        return
    tries = state.unreachable_tries.get(voter_id, 0) + 1
    state.unreachable_tries[voter_id] = tries
    if tries >= END_EPOCH_TRIES:
        state.unacknowledged.discard(voter_id)


def _check_error(
    node: RaftNode,
    response: BeginQuorumEpochResponse | EndQuorumEpochResponse,
    now_ms: int,
) -> Verdict:
    verdict = check_response(node, response, now_ms)
    if verdict is not Verdict.PROCEED:
        return verdict
    return Verdict.BACK_OFF if response.partition_error_code else Verdict.DONE


def describe_quorum(node: RaftNode, now_ms: int) -> QuorumDescription:
    """The data of a DescribeQuorum response; only the leader has them."""
    state = node.state
    if not isinstance(state, Leader):
        _, error, leader_id, epoch, _ = node.answer_fields(
            Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        )
        return QuorumDescription(error, leader_id, epoch)
    # Not `leader_advanced`: a high watermark that moved here would never be announced.
    state.progress.leader_is_alive(now_ms)
    state.progress.forget_observers(now_ms)
    return QuorumDescription(
        leader_id=node.options.node_id,
        leader_epoch=state.epoch,
        high_watermark=_high_watermark(state),
        current_voters=state.progress.voter_statuses(),
        observers=state.progress.observer_statuses(),
    )
