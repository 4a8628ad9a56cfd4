"""How a node finds the leader and fetches from it (KIP-595, KIP-630).

Only one Fetch or FetchSnapshot is in flight at a time, to whichever node: two could append the
same offsets twice. A node that may vote syncs what it has appended before it fetches again, because
a fetch at an offset promises that everything below it is durable.
"""

from collections.abc import Sequence

from ...clients.errors import ErrorCode
from ...storage.remote.remote_lineage import OffsetAndEpoch
from .elections import may_be_elected
from .named_leader import Verdict, check_response, follow_named_leader, is_consistent
from .raft_actions import (
    AppendFetched,
    CreateSnapshot,
    Destination,
    DropSnapshot,
    Reply,
    Token,
    TruncateFullyToSnapshot,
    TruncateTo,
    WriteSnapshotChunk,
)
from .raft_log import log_end
from .raft_messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchedBatch,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from .raft_node import RaftNode
from .raft_state import Follower, RaftEvent, SnapshotDownload, Unattached
from .request_checks import Receiver, Refusal, check_scope, check_sender, check_voter_key
from .voter_set import Address, VoterKey
from .voter_updates import send_update

_FIRST_BOOTSTRAP_ID = -2
"""Bootstrap servers have the ids -2, -3 and so on; -1 is no node at all."""

_RESTARTS_DOWNLOAD = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)


def handle_begin_epoch(
    node: RaftNode, token: Token, request: BeginQuorumEpochRequest, now_ms: int
) -> None:
    """Follow the leader that has won an election."""
    receiver = node.receiver
    refusal = _check_leader(node, request, receiver)
    if refusal is None:
        # Before the key is checked: even a request that was meant for another node is right about
        # the leader.
        _follow(node, request, now_ms)
        refusal = check_voter_key(request.voter_id, request.voter_directory_id, receiver)
    node.act(Reply(token, BeginQuorumEpochResponse(*node.answer_fields(refusal))))


def handle_end_epoch(
    node: RaftNode, token: Token, request: EndQuorumEpochRequest, now_ms: int
) -> None:
    """The leader resigns: hold an election soon, by this node's place among the candidates."""
    receiver = node.receiver
    refusal = _check_leader(node, request, receiver)
    if refusal is None:
        _follow(node, request, now_ms)
        state = node.state
        if isinstance(state, Follower) and state.leader_id == request.leader_id:
            backoff_ms = election_backoff_ms(
                node.options.key, request.preferred_candidates, node.options.election_backoff_max_ms
            )
            state.deadline_ms = now_ms + backoff_ms
    node.act(Reply(token, EndQuorumEpochResponse(*node.answer_fields(refusal))))


def _check_leader(
    node: RaftNode,
    request: BeginQuorumEpochRequest | EndQuorumEpochRequest,
    receiver: Receiver,
) -> Refusal | None:
    refusal = check_scope(request.cluster_id, request.is_metadata_partition, receiver)
    refusal = refusal or check_sender(request.leader_id, request.leader_epoch, receiver)
    if refusal is None and not is_consistent(node, request.leader_id, request.leader_epoch):
        return Refusal(ErrorCode.INVALID_REQUEST)
    return refusal


def _follow(
    node: RaftNode, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, now_ms: int
) -> None:
    endpoints = dict(request.leader_endpoints)
    address: Address | None = endpoints.get(node.options.listener)
    if address is None:
        address = node.voter_address(request.leader_id)
    follow_named_leader(node, request.leader_id, request.leader_epoch, address, now_ms)


def election_backoff_ms(own: VoterKey, candidates: Sequence[VoterKey], max_ms: int) -> int:
    """How long to wait for better candidates: nothing for the first, `max_ms` if not listed."""
    for place, candidate in enumerate(candidates):
        if candidate.id == own.id and (
            not candidate.has_directory or candidate.directory_id == own.directory_id
        ):
            if place == 0:
                return 0
            return min(max_ms, (max_ms >> (len(candidates) - 1)) << (place - 1))
    return max_ms


def poll_unattached(node: RaftNode, state: Unattached, now_ms: int) -> None:
    """Ask bootstrap servers for the leader, until the election timeout."""
    is_candidate = may_be_elected(node)
    if node.is_stopping and is_candidate:
        return
    if is_candidate and state.deadline_ms <= now_ms:
        node.become_prospective(RaftEvent.ELECTION_TIMEOUT, now_ms)
    else:
        _send_fetch_to_bootstrap(node, now_ms)


def poll_follower(node: RaftNode, state: Follower, now_ms: int) -> None:
    """Fetch from the leader; without success for too long, look for another one."""
    if node.is_stopping:
        return
    if state.deadline_ms > now_ms:
        if not send_update(node, state, now_ms):
            _send_fetch(node, state, now_ms)
    elif may_be_elected(node):
        node.become_prospective(RaftEvent.FETCH_TIMEOUT, now_ms)
    else:
        node.become_unattached(RaftEvent.OBSERVER_FETCH_TIMEOUT, state.epoch, now_ms)


def _may_fetch(node: RaftNode) -> bool:
    if node.requests.has_any_in_flight or node.is_log_stale:
        return False
    return not node.options.can_be_voter or node.flush()


def _send_fetch(node: RaftNode, state: Follower, now_ms: int) -> None:
    assert state.leader_id is not None
    if not _may_fetch(node):
        return
    if node.requests.is_backing_off(state.leader_id):
        _send_fetch_to_bootstrap(node, now_ms)
        return
    destination = Destination(state.leader_id, state.leader_address)
    if state.download is None:
        node.send(destination, _fetch_request(node), now_ms)
        return
    options = node.options
    request = FetchSnapshotRequest(
        cluster_id=options.cluster_id,
        replica_id=options.node_id,
        replica_directory_id=options.directory_id,
        current_leader_epoch=state.epoch,
        snapshot_id=state.download.snapshot_id,
        position=state.download.position,
        max_bytes=options.fetch_snapshot_max_bytes,
    )
    node.send(destination, request, now_ms)


def _send_fetch_to_bootstrap(node: RaftNode, now_ms: int) -> None:
    if not _may_fetch(node):
        return
    server = node.requests.any_ready(bootstrap_servers(node), node.random)
    if server is not None:
        node.send(server, _fetch_request(node), now_ms)


def bootstrap_servers(node: RaftNode) -> list[Destination]:
    """Who may know the leader: the configured servers, else the voters; never this node."""
    options = node.options
    addresses = options.bootstrap_servers or tuple(
        address
        for voter in node.voters
        if voter.key.id != options.node_id
        and (address := voter.endpoints.get(options.listener)) is not None
    )
    own = options.endpoints.get(options.listener)
    return [
        Destination(_FIRST_BOOTSTRAP_ID - index, address)
        for index, address in enumerate(addresses)
        if address != own
    ]


def _fetch_request(node: RaftNode) -> FetchRequest:
    options, end = node.options, log_end(node.log)
    return FetchRequest(
        cluster_id=options.cluster_id,
        replica_id=options.node_id,
        replica_directory_id=options.directory_id,
        current_leader_epoch=node.epoch,
        fetch_offset=end.offset,
        last_fetched_epoch=end.epoch,
        high_watermark=-1 if node.high_watermark is None else node.high_watermark,
        max_wait_ms=options.fetch_max_wait_ms,
    )


def handle_fetch_response(
    node: RaftNode, request: FetchRequest, response: FetchResponse, now_ms: int
) -> Verdict:
    """Append, truncate, or begin to fetch a snapshot."""
    verdict = check_response(node, response, now_ms)
    if verdict is not Verdict.PROCEED:
        return verdict
    state = node.state
    if response.partition_error_code is not ErrorCode.NONE or not isinstance(state, Follower):
        return Verdict.BACK_OFF
    if request.fetch_offset != node.log.end_offset or node.is_log_stale:
        return Verdict.DONE
    if state.download is not None and response.snapshot_id != state.download.snapshot_id:
        # The leader was asked as a bootstrap server, while its connection was backing off.
        node.act(DropSnapshot(state.download.snapshot_id))
        state.download = None
    if response.diverging_epoch is not None:
        if min(response.diverging_epoch) < 0:
            return Verdict.BACK_OFF
        _truncate(node, response.diverging_epoch)
    elif response.snapshot_id is not None:
        if min(response.snapshot_id) < 0 or response.snapshot_id.epoch > node.epoch:
            return Verdict.BACK_OFF
        _begin_download(node, state, response.snapshot_id)
    else:
        if response.records and not _usable(node, response.records):
            return Verdict.BACK_OFF
        _append(node, response)
    _has_heard(node, state, now_ms)
    return Verdict.DONE


def _begin_download(node: RaftNode, state: Follower, snapshot_id: OffsetAndEpoch) -> None:
    committed = _committed_end(node)
    if snapshot_id.offset < committed:
        node.fail(
            f"The leader of epoch {node.epoch} has this node begin again at snapshot "
            f"{snapshot_id}, below its high watermark {committed}."
        )
    elif state.download is None:
        state.download = SnapshotDownload(snapshot_id)
        node.act(CreateSnapshot(snapshot_id))


def _has_heard(node: RaftNode, state: Follower, now_ms: int) -> None:
    state.has_fetched = True
    state.deadline_ms = node.options.fetch_deadline(now_ms, node.random)


def _truncate(node: RaftNode, leader_end: OffsetAndEpoch) -> None:
    """Truncate to where the log diverges from the leader's; the next fetch may say more."""
    own = node.log.end_offset_for_epoch(leader_end.epoch)
    if own.epoch == leader_end.epoch or leader_end.epoch == 0:
        offset = min(own.offset, leader_end.offset)
    else:
        offset = own.offset
    committed = _committed_end(node)
    if offset < committed:
        node.fail(
            f"The leader of epoch {node.epoch} has this node truncate its log to offset {offset}, "
            f"below its high watermark {committed}."
        )
        return
    node.act(TruncateTo(offset))
    node.history.truncate_to(offset)
    node.log_will_change()


def _committed_end(node: RaftNode) -> int:
    """The high watermark; after a start, as far as the snapshots show it."""
    latest = node.log.latest_snapshot_id
    return max(node.high_watermark or 0, 0 if latest is None else latest.offset)


def _append(node: RaftNode, response: FetchResponse) -> None:
    batches = _usable(node, response.records)
    end = node.log.end_offset
    if batches:
        end = batches[-1].next_offset
        node.act(AppendFetched(batches))
        node.log_will_change()
    if response.high_watermark < 0:
        return
    high_watermark = min(end, response.high_watermark)
    if node.high_watermark is not None and high_watermark < node.high_watermark:
        node.fail(
            f"The leader of epoch {node.epoch} has the high watermark "
            f"{response.high_watermark}, below this node's {node.high_watermark}."
        )
        return
    node.advance_high_watermark(high_watermark)


def _usable(node: RaftNode, records: Sequence[FetchedBatch]) -> tuple[FetchedBatch, ...]:
    """The batches that continue the log, up to the first of a later epoch (KAFKA-18723)."""
    batches: list[FetchedBatch] = []
    end = node.log.end_offset
    for batch in records:
        if batch.base_offset != end or batch.partition_leader_epoch > node.epoch:
            break
        batches.append(batch)
        end = batch.next_offset
    return tuple(batches)


def handle_fetch_snapshot_response(
    node: RaftNode,
    request: FetchSnapshotRequest,
    response: FetchSnapshotResponse,
    now_ms: int,
) -> Verdict:
    """Write a chunk of the snapshot; after the last one, the log begins again at the snapshot."""
    verdict = check_response(node, response, now_ms)
    if verdict is not Verdict.PROCEED:
        return verdict
    state = node.state
    if not isinstance(state, Follower) or state.download is None:
        return Verdict.DONE
    download = state.download
    error = response.partition_error_code
    if error in _RESTARTS_DOWNLOAD or min(response.snapshot_id) < 0:
        # The leader has deleted the snapshot: the next Fetch names a newer one.
        state.download = None
        node.act(DropSnapshot(download.snapshot_id))
        _has_heard(node, state, now_ms)
        return Verdict.DONE
    if error is not ErrorCode.NONE:
        return Verdict.BACK_OFF
    if response.snapshot_id != request.snapshot_id or response.position != request.position:
        node.fail(
            f"The leader sent snapshot {response.snapshot_id} from position {response.position}; "
            f"this node had asked for {request.snapshot_id} from position {request.position}."
        )
        return Verdict.DONE
    chunk = response.unaligned_records
    if not chunk and download.position < response.size:
        return Verdict.BACK_OFF
    node.act(WriteSnapshotChunk(download.snapshot_id, download.position, chunk))
    download.position += len(chunk)
    if download.position >= response.size:
        state.download = None
        node.act(TruncateFullyToSnapshot(download.snapshot_id))
        node.loading_snapshot = download.snapshot_id
        node.log_will_change()
    _has_heard(node, state, now_ms)
    return Verdict.DONE
