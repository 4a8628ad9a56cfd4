"""The raft core: one node of the metadata quorum (KIP-595, KIP-630, KIP-853, KIP-996).

A pure state machine. Each method takes an event and the time, and returns the actions for the shell
to perform strictly in order. The log is read through `RaftLogView`, so the shell performs the
actions of one event before it hands in the next event; only the end of a `Flush` may come later.
The shell calls `poll` when `deadline_ms` has come.
"""

from random import Random

from ...clients.errors import ErrorCode
from . import elections, first_state, following, leading, voter_changes, voter_updates
from .election_state import ElectionState
from .named_leader import Verdict
from .raft_actions import Action, Send, Token
from .raft_log import RaftLogView
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
    RaftRequest,
    RaftResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeRequest,
    VoteRequest,
    VoteResponse,
)
from .raft_node import RaftNode
from .raft_options import RaftOptions
from .raft_state import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    State,
    Unattached,
)
from .voter_set import Address, VoterSet


class RaftCore:
    """One node of the metadata quorum; see the top of this file."""

    def __init__(
        self,
        options: RaftOptions,
        log: RaftLogView,
        voters: VoterSet,
        persisted: ElectionState,
        random: Random,
    ) -> None:
        self._persisted = persisted
        self._node = RaftNode(options, log, voters, persisted, random)

    @property
    def state(self) -> State:
        """The state; only to be looked at."""
        return self._node.state

    @property
    def epoch(self) -> int:
        """The latest epoch that this node knows."""
        return self._node.epoch

    @property
    def leader_id(self) -> int | None:
        """The leader of the epoch, if it is known and has not resigned as far as we know."""
        state = self._node.state
        return None if isinstance(state, Resigned) else state.leader_id

    @property
    def leader_address(self) -> Address | None:
        """The leader's address on the quorum's listener, if both are known."""
        leader_id = self.leader_id
        if leader_id is None:
            return None
        return self._node.leader_address or self._node.voter_address(leader_id)

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the epoch."""
        return self._node.state.role is Role.LEADER

    @property
    def voters(self) -> VoterSet:
        """The voter set in effect."""
        return self._node.voters

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voter set in effect at an offset, for a snapshot that ends there.

        None below the log start offset.
        """
        return self._node.history.at_or_before(offset - 1)

    @property
    def high_watermark(self) -> int | None:
        """The end of the committed records; None before this node has heard of any."""
        return self._node.high_watermark

    @property
    def deadline_ms(self) -> int | None:
        """When `poll` has something to do; None if only other events have."""
        node = self._node
        if node.is_broken:
            return None
        deadlines = [*state_deadlines(node), node.requests.deadline_ms]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def start(self, now_ms: int) -> list[Action]:
        """Take up the persisted state. A sole voter leads after this."""
        self._node.is_started = True
        first_state.start(self._node, self._persisted, now_ms)
        return self._finish(now_ms)

    def poll(self, now_ms: int) -> list[Action]:
        """Act on timers that have ended."""
        return self._finish(now_ms)

    def handle_request(self, token: Token, request: RaftRequest, now_ms: int) -> list[Action]:
        """Handle a request of another node; the reply may come with a later event."""
        node = self._node
        if node.is_broken:
            return []
        match request:
            case VoteRequest():
                elections.handle_vote(node, token, request, now_ms)
            case BeginQuorumEpochRequest():
                following.handle_begin_epoch(node, token, request, now_ms)
            case EndQuorumEpochRequest():
                following.handle_end_epoch(node, token, request, now_ms)
            case FetchRequest():
                leading.handle_fetch(node, token, request, now_ms)
            case FetchSnapshotRequest():
                leading.handle_fetch_snapshot(node, token, request, now_ms)
            case UpdateVoterRequest():
                voter_changes.handle_update(node, token, request, now_ms)
        return self._finish(now_ms)

    def handle_voter_change(
        self, token: Token, request: VoterChangeRequest, now_ms: int
    ) -> list[Action]:
        """Handle AddRaftVoter or RemoveRaftVoter."""
        if self._node.is_broken:
            return []
        voter_changes.handle_voter_change(self._node, token, request, now_ms)
        return self._finish(now_ms)

    def handle_response(self, request_id: int, response: RaftResponse, now_ms: int) -> list[Action]:
        """Handle the response to a request that was sent; ignored if it is no longer awaited."""
        node = self._node
        send = None if node.is_broken else node.requests.take(request_id)
        if send is None:
            return []
        node_id = send.destination.node_id
        if self._take_response(send, response, now_ms) is Verdict.BACK_OFF:
            node.requests.back_off(node_id, now_ms)
        return self._finish(now_ms)

    def _take_response(self, send: Send, response: RaftResponse, now_ms: int) -> Verdict:
        node, node_id = self._node, send.destination.node_id
        match send.request, response:
            case VoteRequest() as request, VoteResponse():
                return elections.handle_vote_response(node, node_id, request, response, now_ms)
            case BeginQuorumEpochRequest(), BeginQuorumEpochResponse():
                return leading.handle_begin_epoch_response(node, response, now_ms)
            case EndQuorumEpochRequest(), EndQuorumEpochResponse():
                return leading.handle_end_epoch_response(node, node_id, response, now_ms)
            case FetchRequest() as request, FetchResponse():
                return following.handle_fetch_response(node, request, response, now_ms)
            case FetchSnapshotRequest() as request, FetchSnapshotResponse():
                return following.handle_fetch_snapshot_response(node, request, response, now_ms)
            case UpdateVoterRequest(), UpdateVoterResponse():
                return voter_updates.handle_update_response(node, response, now_ms)
            case _:
                raise AssertionError("a response to another request")

    def handle_failure(
        self, request_id: int, now_ms: int, error: ErrorCode = ErrorCode.NETWORK_EXCEPTION
    ) -> list[Action]:
        """Handle a request that got no response.

        UNSUPPORTED_VERSION: the other node does not know the version that the request needs.
        """
        node = self._node
        send = None if node.is_broken else node.requests.take(request_id)
        if send is None:
            return []
        verdict = Verdict.BACK_OFF
        if error is ErrorCode.NETWORK_EXCEPTION and isinstance(send.request, EndQuorumEpochRequest):
            leading.handle_end_epoch_failure(node, send.destination.node_id)
        if error is ErrorCode.UNSUPPORTED_VERSION and isinstance(send.request, VoteRequest):
            verdict = elections.handle_no_pre_vote(node, send.request, now_ms)
        elif error is ErrorCode.UNSUPPORTED_VERSION and isinstance(
            send.request, UpdateVoterRequest
        ):
            verdict = voter_updates.leader_is_updated(node, now_ms)
        if verdict is Verdict.BACK_OFF:
            node.requests.back_off(send.destination.node_id, now_ms)
        return self._finish(now_ms)

    def handle_log_changed(self, now_ms: int) -> list[Action]:
        """Look at the log: something was appended, truncated or synced."""
        node = self._node
        if node.is_broken:
            return []
        node.is_log_stale = False
        node.history.forget_before(node.log.start_offset - 1)
        if isinstance(node.state, Leader):
            leading.leader_log_changed(node, node.state, now_ms)
        return self._finish(now_ms)

    def handle_snapshot_loaded(self, now_ms: int, voters: VoterSet | None = None) -> list[Action]:
        """Continue after `TruncateFullyToSnapshot`, with the voters of the snapshot if it has any.

        Everything in the snapshot is committed.
        """
        node = self._node
        snapshot_id = node.loading_snapshot
        assert snapshot_id is not None, "no snapshot is being loaded"
        node.loading_snapshot = None
        self.load_snapshot_voters(snapshot_id.offset, voters)
        node.advance_high_watermark(snapshot_id.offset)
        return self.handle_log_changed(now_ms)

    def load_snapshot_voters(self, end_offset: int, voters: VoterSet | None) -> None:
        """Take the voters of the snapshot that the log begins with; None if it has none.

        Before `start`, call it for the newest snapshot if there is one.
        """
        if voters is None:
            self._node.history.clear()
        else:
            self._node.history.reset(end_offset - 1, voters)

    def handle_voters(self, offset: int, voters: VoterSet, now_ms: int) -> list[Action]:
        """A Voters record stands at this offset of the log, committed or not.

        Call it right after the append or the load, before `handle_log_changed`; for the records
        that the log has already, before `start`.
        """
        node = self._node
        if offset > node.history.latest_offset:
            try:
                node.history.add(offset, voters)
            except ValueError as error:
                node.fail(str(error))
        if isinstance(node.state, Leader):
            node.state.progress.set_voters(node.voters, now_ms)
        return self._finish(now_ms)

    def resign(self, epoch: int, now_ms: int) -> list[Action]:
        """Give up the leadership of an epoch; does nothing if this node does not lead it."""
        node = self._node
        if isinstance(node.state, Leader) and node.state.epoch == epoch:
            node.resign(now_ms)
        return self._finish(now_ms)

    def shutdown(self, now_ms: int) -> list[Action]:
        """Begin a graceful stop; poll until `is_stopped`, or until the shell's own timeout."""
        self._node.is_stopping = True
        return self._finish(now_ms)

    @property
    def is_stopped(self) -> bool:
        """Whether a graceful stop is complete."""
        node, state = self._node, self._node.state
        if not node.is_stopping or node.is_broken:
            return node.is_broken
        if isinstance(state, Resigned):
            return not state.unacknowledged
        # A pre-vote promises nothing; of an election, others may count on the outcome.
        return node.is_only_voter or isinstance(state, Unattached | Follower | Prospective)

    def describe_quorum(self, now_ms: int) -> QuorumDescription:
        """The data of a DescribeQuorum response."""
        return leading.describe_quorum(self._node, now_ms)

    def _finish(self, now_ms: int) -> list[Action]:
        """Take every step that is due in the present state, and in those that it leads to."""
        node = self._node
        if not node.is_started:
            return node.take_actions() if node.is_broken else []
        node.requests.expire(now_ms)
        while not node.is_broken:
            before = node.state
            _step(node, before, now_ms)
            if node.state is before:
                break
        return node.take_actions()


def _step(node: RaftNode, state: State, now_ms: int) -> None:
    match state:
        case Unattached():
            following.poll_unattached(node, state, now_ms)
        case Follower():
            following.poll_follower(node, state, now_ms)
        case Prospective():
            elections.poll_prospective(node, state, now_ms)
        case Candidate():
            elections.poll_candidate(node, state, now_ms)
        case Leader():
            voter_changes.finish_change(node, state, now_ms)
            leading.poll_leader(node, state, now_ms)
        case Resigned():
            leading.poll_resigned(node, state, now_ms)


def state_deadlines(node: RaftNode) -> list[int | None]:
    """The timers of the present state that `poll` acts on."""
    match node.state:
        case Leader() as state:
            has_others = len(node.voters) > (1 if node.is_voter else 0)
            return [
                state.progress.check_quorum_deadline_ms,
                state.begin_epoch_deadline_ms if has_others else None,
                *(waiting.deadline_ms for waiting in state.waiting),
                None if state.change is None else state.change.deadline_ms,
            ]
        case Unattached() as state:
            is_candidate = elections.may_be_elected(node) and not node.is_stopping
            return [state.deadline_ms if is_candidate else None]
        case Follower() as state if not node.is_stopping:
            return [state.deadline_ms, voter_updates.deadline_ms(node, state)]
        case Candidate() as state:
            return [state.deadline_ms]
        case state:
            return [None if node.is_stopping else state.deadline_ms]
