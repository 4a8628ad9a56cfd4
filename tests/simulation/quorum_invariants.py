"""What must hold in a quorum after every event, whatever fails.

Those of Kafka's `RaftEventSimulationTest`: high watermarks and epochs are monotone, memory and disk
agree in the epoch, a majority holds what is committed, an epoch has one leader, a log starts at a
snapshot, a leader loads none, and committed records are the same everywhere.

Beside them: one vote per node and epoch over all lives, for a log that is as up to date as its own,
on the disk before it is told; a pre-vote that nobody gives who hears of a live leader; a candidate
that a majority would vote for, a leader that a majority did vote for, once in its epoch; leaders
that hold everything committed; a fetch that promises only what is synced; one fetch at a time; a
leader that steps down without a majority; and the same state at the same offset on all nodes.
What a majority is, each node's log says: `quorum_voter_rules.py` has the rules of that.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tierlog.clients.errors import ErrorCode
from tierlog.replication.raft import leading
from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.raft_actions import (
    Action,
    AppendFetched,
    AppendStartOfEpoch,
    AppendVoters,
    HighWatermark,
    LeaderChanged,
    Persist,
    Reply,
    ReplyToVoterChange,
    ReplyWithRecords,
    ReplyWithSnapshotBytes,
    Send,
    TruncateFullyToSnapshot,
    TruncateTo,
)
from tierlog.replication.raft.raft_messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    RaftRequest,
    RaftResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from tierlog.replication.raft.voter_set import NO_VOTERS, VoterKey

from .quorum_log import EMPTY_DIGEST, Batch, Snapshot
from .quorum_network import Exchange
from .quorum_node import QuorumNode, VoterChange
from .quorum_voter_rules import VoterRules, remote_majority

_NEVER_MS = -(1 << 60)
SLACK_MS = 60
"""How late a timer may be noticed: clocks are whole milliseconds, and a poll takes its turn."""


@dataclass(slots=True)
class _Watched:
    """What is remembered of one life of one node."""

    life: int
    requests: dict[int, RaftRequest] = field(default_factory=dict[int, RaftRequest])
    answered: set[int] = field(default_factory=set[int])
    would_vote: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    """By epoch before the election: who granted a pre-vote."""
    response_to: RaftRequest | None = None
    """The request whose response is handled just now."""
    is_repeated: bool = False
    is_awaited: bool = False
    """Whether it is the response to the last fetch that was sent."""
    fetching: int | None = None
    fetching_in: object = None
    """The state of the core when it sent that."""
    fetching_since_ms: int = 0
    fetched_in: int = -1
    fetched_ms: int = _NEVER_MS
    """When this node last heard of a live leader in a response to a fetch."""
    leads_epoch: int = -1
    epoch_start: int = -1
    followers: set[int] = field(default_factory=set[int])
    """Voters that have fetched since `majority_ms`."""
    majority_ms: int = 0
    high_watermark: int = -1
    compared: int = 0
    """The offset at which the state was last compared with that of others."""


class Invariants:
    """See the module. Each raises AssertionError with the numbers of the broken rule."""

    def __init__(self, nodes: list[QuorumNode], counts: Counter[str]) -> None:
        self.nodes = nodes
        self.counts = counts
        self.voter_rules = VoterRules(counts)
        self.committed_end = 0
        self.on_committed: Callable[[Batch], None] = lambda _: None
        """Is told of each batch that is committed anywhere, once."""
        self._committed_by = NO_VOTERS
        """The voters of the leader that committed that."""
        self._committed = {0: EMPTY_DIGEST}
        self._committed_in: dict[int, int] = {}
        """By epoch: up to where its leader has committed."""
        self._leaders: dict[int, int] = {}
        self._begun: dict[int, tuple[int, int]] = {}
        self._votes: dict[tuple[VoterKey, int], VoterKey] = {}
        self._epochs: dict[VoterKey, int] = {}
        self._followed: dict[tuple[VoterKey, int], int] = {}
        self._written: dict[tuple[int, int], bytes] = {}
        self._states: dict[int, object] = {}
        self._watched: dict[int, _Watched] = {}
        self._robbed: list[QuorumNode] = []
        self._lost: dict[VoterKey, int] = {}
        """The synced ends of voters whose disks were replaced."""

    @property
    def latest_epoch(self) -> int:
        """The highest epoch that has had a leader."""
        return max(self._begun, default=0)

    @property
    def elections(self) -> int:
        """How many epochs have had a leader."""
        return len(self._begun)

    def _of(self, node: QuorumNode) -> _Watched:
        watched = self._watched.get(node.id)
        if watched is None or watched.life != node.life:
            watched = self._watched[node.id] = _Watched(node.life)
        return watched

    def before_action(self, node: QuorumNode, action: Action) -> None:
        """Check what a node is about to do, with the state and the disk it has now."""
        match action:
            case Send(request_id, destination, request):
                assert destination.node_id != node.id, f"node {node.id} asks itself"
                self._check_request(node, request_id, request)
            case (
                Reply(Exchange() as exchange, response)
                | ReplyWithRecords(Exchange() as exchange, response)
                | ReplyWithSnapshotBytes(Exchange() as exchange, response)
            ):
                self._check_response(node, exchange.request, response)
            case AppendStartOfEpoch(epoch):
                self._check_new_leader(node, epoch)
            case AppendVoters() | ReplyToVoterChange() | Reply(VoterChange()):
                self._check_change_of_voters(node, action)
            case AppendFetched():
                self._check_append(node)
            case TruncateTo(offset):
                bound = self._of(node).high_watermark
                assert offset >= bound, f"node {node.id} truncates {offset} < {bound}"
                assert not node.is_leading, "a leader truncates"
            case TruncateFullyToSnapshot():
                assert not node.is_leading, "a leader loads a snapshot"
            case HighWatermark(offset):
                self._check_high_watermark(node, offset)
            case LeaderChanged(leader_id, epoch):
                if leader_id is not None:
                    self._note_leader(epoch, leader_id)
                    assert leader_id != node.id or node.is_leading, "one that resigned is announced"
            case _:
                pass

    def _check_change_of_voters(
        self, node: QuorumNode, action: AppendVoters | ReplyToVoterChange | Reply
    ) -> None:
        match action:
            case AppendVoters(_, _, voters):
                self.voter_rules.before_append(node, voters, self._of(node).epoch_start)
            case ReplyToVoterChange(VoterChange() as change, response):
                self.voter_rules.on_answer(node, change, response.error_code)
            case Reply(VoterChange() as change, UpdateVoterResponse() as response):
                self.voter_rules.on_answer(node, change, response.partition_error_code)
                self._note_update(node, change.request, response)
            case _:
                raise AssertionError("an answer to nobody")

    def _note_update(self, node: QuorumNode, request: object, response: RaftResponse) -> None:
        """Whoever tells a leader its endpoints is alive (Kafka's `UpdateVoterHandler`)."""
        is_refused = response.error_code or response.partition_error_code
        if isinstance(request, UpdateVoterRequest) and node.is_leading and not is_refused:
            self._hear(node, VoterKey(request.voter_id, request.voter_directory_id))

    def after_action(self, node: QuorumNode, action: Action) -> None:
        """Check what a node has done."""
        match action:
            case Persist(state):
                self._check_persisted(node, state)
            case AppendStartOfEpoch(epoch):
                watched = self._of(node)
                watched.leads_epoch = epoch
                watched.epoch_start = node.log.batches[-1].base_offset
                watched.followers.clear()
                watched.majority_ms = node.handed_ms
            case AppendVoters():
                watched = self._of(node)
                watched.followers &= set(node.voters_in_force.ids)
            case TruncateTo():
                self.check_majority()
            case TruncateFullyToSnapshot():
                self.voter_rules.on_snapshot(node, node.log.start)
            case HighWatermark():
                self.voter_rules.on_committed(node)
            case _:
                pass

    def after_event(self, node: QuorumNode) -> None:
        """Check a node that has performed everything it wanted."""
        core = node.core
        assert core is not None
        watched = self._of(node)
        watched.response_to = None
        epoch = core.epoch
        assert epoch == node.persisted.epoch, (
            f"node {node.id} is in epoch {epoch}, its disk in {node.persisted.epoch}"
        )
        assert core.is_leader or core.leader_id != node.id, f"node {node.id} follows itself"
        log = node.log
        assert log.start_offset == 0 or log.start.id in log.snapshots, "no snapshot at log start"
        if node.applied != watched.compared:
            watched.compared = node.applied
            state = node.machine.state
            known = self._states.setdefault(node.applied, state)
            assert known == state, f"two states at offset {node.applied}"
        if core.is_leader:
            assert self._begun.get(epoch) == (node.id, node.life), (
                f"node {node.id}.{node.life} leads epoch {epoch}, begun by {self._begun.get(epoch)}"
            )
            written = self._written.setdefault((log.end_offset, log.last_epoch), log.last_digest)
            assert written == log.last_digest, f"two logs end at {log.end_offset} in {epoch}"
            self._check_quorum(node, watched)
        self.voter_rules.after_event(node, node.handed_ms - watched.majority_ms)

    def on_request(self, node: QuorumNode, exchange: Exchange) -> None:
        """Note what a leader hears of its followers, and they of its end."""
        request = exchange.request
        core = node.core
        if isinstance(request, EndQuorumEpochRequest):
            self._of(node).fetched_ms = _NEVER_MS  # its leader resigns: no longer a live one
        if core is None or not core.is_leader:
            return
        if not isinstance(request, FetchRequest | FetchSnapshotRequest):
            return
        if request.current_leader_epoch != core.epoch or request.replica_id == node.id:
            return
        if _has_a_place(node, request):
            self._hear(node, VoterKey(request.replica_id, request.replica_directory_id))

    def _hear(self, leader: QuorumNode, key: VoterKey) -> None:
        """A leader has a sign of life; one of each of a majority keeps it in its place."""
        voters = leader.voters_in_force
        if not voters.is_voter(key) or key.id == leader.id:
            return
        watched = self._of(leader)
        watched.followers.add(key.id)
        if len(watched.followers) >= remote_majority(leader, voters):
            watched.followers.clear()
            watched.majority_ms = leader.handed_ms

    def on_response(self, node: QuorumNode, request_id: int, response: RaftResponse) -> None:
        """Note what a node hears from those it asked."""
        watched = self._of(node)
        request = watched.requests.get(request_id)
        watched.response_to = request
        watched.is_repeated = request_id in watched.answered
        watched.is_awaited = watched.fetching == request_id
        watched.answered.add(request_id)
        if watched.fetching == request_id:
            watched.fetching = None
            if isinstance(response, FetchResponse) and watched.fetching_in is node.role:
                self._note_live_leader(node, watched, response)
        if watched.is_repeated or request is None:
            return
        if isinstance(request, VoteRequest) and isinstance(response, VoteResponse):
            grants = watched.would_vote.setdefault(request.replica_epoch, set())
            if request.pre_vote and response.vote_granted:
                grants.add(request.voter_id)

    def _note_live_leader(
        self, node: QuorumNode, watched: _Watched, response: FetchResponse
    ) -> None:
        is_good = not (response.error_code or response.partition_error_code)
        if is_good and node.core is not None and response.leader_epoch == node.core.epoch:
            watched.fetched_in, watched.fetched_ms = node.core.epoch, node.handed_ms

    def on_log_lost(self, node: QuorumNode) -> None:
        """A node has died: what it had promised must have survived."""
        if node.quorum_state is not None:
            # It may have died after the file was renamed, and before it was told so.
            self._note_persisted(node, node.persisted)
        self.check_majority()

    def forgive(self, node: QuorumNode) -> None:
        """Expect nothing of what a node had promised: its disk was replaced by an empty one."""
        self._robbed.append(node)
        key = node.options.key
        del self._epochs[key]
        for promises in (self._votes, self._followed):
            for each in [each for each in promises if each[0] == key]:
                del promises[each]

    def on_snapshot(self, node: QuorumNode, snapshot: Snapshot) -> None:
        """A node writes a snapshot."""
        self.voter_rules.on_snapshot(node, snapshot)

    def on_disk_lost(self, node: QuorumNode) -> None:
        """The disk of a voter is about to be replaced: until now it has kept its promises."""
        self._lost[node.options.key] = node.log.flushed_offset

    def can_spare(self, node: QuorumNode) -> bool:
        """Whether the quorum can go on without the disk of a node, whoever leads."""
        keys = {each.options.key for each in self.nodes if each is not node}
        sets = [self._committed_by, *(each.voters_in_force for each in self.nodes)]
        return all(len(keys & voters.keys) >= voters.majority for voters in sets if voters)

    def _holders(self) -> list[QuorumNode]:
        """The voters with everything below any high watermark on their disks."""
        end = self.committed_end
        digest = self._committed[end]
        voters = [each for each in self.nodes if self._committed_by.is_voter(each.options.key)]
        return [
            voter
            for voter in voters
            if voter.log.durable_digest_at(end) == digest
            or voter.log.start_offset > end
            or (voter in self._robbed and voter.log.end_offset < end)
        ]

    def check_majority(self) -> None:
        """A majority of the voters has everything below any high watermark on its disk."""
        end = self.committed_end
        # A voter whose disk was replaced votes no more: nobody is elected by what it has lost.
        lost = [key for key in self._committed_by.keys if self._lost.get(key, -1) >= end]
        holders = len(self._holders()) + len(lost)
        assert holders >= (self._committed_by.majority if self._committed_by else 0), (
            f"{holders} of {self._committed_by.ids} hold the log to {end}"
        )

    def _check_request(self, node: QuorumNode, request_id: int, request: RaftRequest) -> None:
        watched = self._of(node)
        watched.requests[request_id] = request
        persisted = node.persisted
        match request:
            case VoteRequest():
                epoch = request.replica_epoch
                assert request.last_offset == node.log.end_offset
                if not request.pre_vote:
                    voted = persisted.voted_key
                    assert voted is not None, f"node {node.id} asks for votes and has none"
                    assert voted.id == node.id, f"node {node.id} has voted for {voted.id}"
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                epoch = request.leader_epoch
                self._note_leader(epoch, request.leader_id)
            case UpdateVoterRequest():
                epoch = request.current_leader_epoch
            case _:
                epoch = request.current_leader_epoch
                self._check_fetch(node, watched, request_id, request)
        assert epoch <= persisted.epoch, f"node {node.id} tells of epoch {epoch}"

    def _check_fetch(
        self,
        node: QuorumNode,
        watched: _Watched,
        request_id: int,
        request: FetchRequest | FetchSnapshotRequest,
    ) -> None:
        now = node.handed_ms
        before = watched.fetching
        timeout = node.options.request_timeout_ms
        if before is not None and now - watched.fetching_since_ms < timeout:
            # Another state forgets what the state before has asked for.
            assert watched.fetching_in is not node.role, f"node {node.id} has two fetches in flight"
        watched.fetching = request_id
        watched.fetching_in = node.role
        watched.fetching_since_ms = now
        if isinstance(request, FetchRequest) and node.is_voter:
            flushed = node.log.flushed_offset
            assert request.fetch_offset <= flushed, (
                f"node {node.id} asks for {request.fetch_offset}, synced to {flushed}"
            )

    def on_failure(self, node: QuorumNode, request_id: int, error: ErrorCode) -> None:
        """Note that a request has failed."""
        watched = self._of(node)
        if watched.fetching == request_id:
            watched.fetching = None
        request = watched.requests.get(request_id)
        if error is ErrorCode.UNSUPPORTED_VERSION and isinstance(request, VoteRequest):
            # Beside a voter that knows no pre-votes, the election is held without them.
            everyone = set(node.voters_in_force.ids)
            watched.would_vote.setdefault(request.replica_epoch, set()).update(everyone)

    def _check_response(
        self, node: QuorumNode, request: RaftRequest, response: RaftResponse
    ) -> None:
        persisted = node.persisted
        assert response.leader_epoch <= persisted.epoch, (
            f"node {node.id} answers with epoch {response.leader_epoch}, on its disk is "
            f"{persisted.epoch}"
        )
        if response.leader_id >= 0:
            self._note_leader(response.leader_epoch, response.leader_id)
        self._note_update(node, request, response)
        if not isinstance(response, VoteResponse) or not response.vote_granted:
            return
        assert isinstance(request, VoteRequest)
        log = node.log
        candidate = VoterKey(request.replica_id, request.replica_directory_id)
        given = self._votes.get((node.options.key, request.replica_epoch))
        is_repeated = not request.pre_vote and given == candidate
        assert is_repeated or (request.last_offset_epoch, request.last_offset) >= (
            log.last_epoch,
            log.end_offset,
        ), f"node {node.id} votes for a log that is behind its own"
        if request.pre_vote:
            self.counts["pre-vote granted"] += 1
            self._check_pre_vote(node)
            return
        epoch = request.replica_epoch
        voted = persisted.voted_key
        assert persisted.epoch == epoch, f"a vote in {epoch} from the disk's {persisted.epoch}"
        assert voted is not None, f"a vote in {epoch} that is not on the disk"
        assert voted.id == request.replica_id, f"a vote for {voted.id} on the disk"
        if is_repeated:
            return  # the response to it may have been lost; the vote was given long ago
        self._note_vote(node.options.key, epoch, candidate)
        followed = self._followed.get((node.options.key, epoch), request.replica_id)
        assert followed == request.replica_id, f"node {node.id} has a leader in {epoch}"

    def _check_pre_vote(self, node: QuorumNode) -> None:
        assert not node.is_leading, "a leader grants a pre-vote"
        core = node.core
        assert core is not None
        watched = self._of(node)
        heard = node.handed_ms - watched.fetched_ms
        is_live = watched.fetched_in == core.epoch and heard < node.options.fetch_timeout_ms
        assert core.leader_id is None or not is_live, (
            f"node {node.id} heard of its leader {heard} ms ago, and grants a pre-vote"
        )

    def _check_persisted(self, node: QuorumNode, state: ElectionState) -> None:
        before = self._epochs.get(node.options.key, 0)
        self._note_persisted(node, state)
        if state.epoch > before and state.voted_key is not None and state.voted_key.id == node.id:
            voters = node.voters_in_force
            granted = self._of(node).would_vote.get(before, set()) | {node.id}
            assert len(granted & set(voters.ids)) >= voters.majority, (
                f"node {node.id} is a candidate in {state.epoch}, for {granted} (KIP-996)"
            )

    def _note_persisted(self, node: QuorumNode, state: ElectionState) -> None:
        key = node.options.key
        before = self._epochs.get(key, 0)
        assert state.epoch >= before, f"node {node.id}: epoch {state.epoch} after {before}"
        self._epochs[key] = state.epoch
        if state.voted_key is not None:
            self._note_vote(key, state.epoch, state.voted_key)
        if state.leader_id is not None:
            self._note_leader(state.epoch, state.leader_id)
            self._followed[key, state.epoch] = state.leader_id

    def _note_vote(self, voter: VoterKey, epoch: int, candidate: VoterKey) -> None:
        known = self._votes.setdefault((voter, epoch), candidate)
        assert known == candidate, (
            f"node {voter.id} votes for {known.id} and {candidate.id} in epoch {epoch}"
        )

    def _note_leader(self, epoch: int, leader_id: int) -> None:
        known = self._leaders.setdefault(epoch, leader_id)
        assert known == leader_id, f"epoch {epoch} has the leaders {known} and {leader_id}"

    def _check_new_leader(self, node: QuorumNode, epoch: int) -> None:
        self._note_leader(epoch, node.id)
        assert node.persisted.epoch == epoch, "a leader whose epoch is not on its disk"
        assert epoch not in self._begun, f"epoch {epoch} begins twice: {self._begun[epoch]}"
        self._begun[epoch] = (node.id, node.life)
        own = node.options.key
        self._note_vote(own, epoch, own)
        voters = node.voters_in_force
        votes = sum(self._votes.get((voter.key, epoch)) == own for voter in voters)
        assert votes >= voters.majority, f"node {node.id} leads {epoch} with {votes} votes"
        # A slow disk may delay the begin of an epoch until another has committed something.
        before = (end for at, end in self._committed_in.items() if at < epoch)
        end = max(before, default=0)
        assert node.log.digest_at(end) == self._committed[end], (
            f"node {node.id} leads {epoch} without what was committed to {end}"
        )

    def _check_append(self, node: QuorumNode) -> None:
        watched = self._of(node)
        core = node.core
        assert core is not None
        assert not core.is_leader, "a leader appends what it fetched"
        request = watched.response_to
        assert isinstance(request, FetchRequest), "records without a response"
        assert not watched.is_repeated, "records of a response that was handled before"
        assert watched.is_awaited, "records of a fetch that is not the last one"
        assert request.current_leader_epoch == core.epoch, (
            f"records that were asked for in {request.current_leader_epoch}, now in {core.epoch}"
        )

    def _check_high_watermark(self, node: QuorumNode, offset: int) -> None:
        watched = self._of(node)
        before = watched.high_watermark
        assert offset >= before, f"node {node.id}: high watermark {offset} after {before}"
        watched.high_watermark = offset
        log = node.log
        digest = log.digest_at(offset)
        assert digest is not None, f"node {node.id}: no boundary at high watermark {offset}"
        if node.is_leading:
            assert offset > watched.epoch_start, (
                f"high watermark {offset} commits nothing of the epoch"
            )
        if offset <= self.committed_end:
            known = self._committed.get(offset)
            assert known == digest, f"node {node.id} committed something else below {offset}"
            return
        own = log.digest_at(self.committed_end)
        assert own == self._committed[self.committed_end], (
            f"node {node.id} commits {offset} over what was committed to {self.committed_end}"
        )
        for batch in log.read(self.committed_end, len(log.batches)):
            if batch.next_offset <= offset:
                self._committed[batch.next_offset] = batch.digest
                self.on_committed(batch)
        self.committed_end = offset
        self._committed_by = node.voters_in_force
        self._committed_in[node.persisted.epoch] = offset
        self.check_majority()

    def _check_quorum(self, node: QuorumNode, watched: _Watched) -> None:
        if remote_majority(node, node.voters_in_force) == 0:
            watched.majority_ms = node.handed_ms
            return
        # After a pause, what has waited is handled before the timers.
        silent = node.handed_ms - max(watched.majority_ms, node.disturbed_ms)
        bound = node.options.check_quorum_timeout_ms + SLACK_MS
        assert silent <= bound, f"node {node.id} has led {silent} ms without a majority"


def _has_a_place(node: QuorumNode, request: FetchRequest | FetchSnapshotRequest) -> bool:
    """Whether a fetch is at a position that the leader has: only then its follower follows."""
    log = node.log
    if isinstance(request, FetchSnapshotRequest):
        return request.position < (log.snapshot_size(request.snapshot_id) or 0)
    return leading.diverging_or_snapshot(log, request.fetch_offset, request.last_fetched_epoch) == (
        None,
        None,
    )
