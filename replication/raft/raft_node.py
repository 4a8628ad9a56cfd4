"""The state of one node of the quorum, and the moves between its states (Kafka's `QuorumState`).

Each move follows `NEXT_STATES`, and puts the state on the disk before anything that depends on it:
its `Persist` is the first action of the move. Becoming Prospective or Resigned changes nothing that
must be remembered, so neither is persisted.
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode
from .election_state import ElectionState
from .raft_actions import (
    Action,
    AppendStartOfEpoch,
    Destination,
    DropSnapshot,
    Fatal,
    Flush,
    HighWatermark,
    LeaderChanged,
    Persist,
    Reply,
    ReplyToVoterChange,
)
from .raft_log import RaftLogView
from .raft_messages import (
    UNKNOWN_LEADER,
    FetchResponse,
    NodeEndpoint,
    RaftRequest,
    VoterChangeResponse,
)
from .raft_options import RaftOptions
from .raft_state import (
    NEXT_STATES,
    Candidate,
    Follower,
    Leader,
    Prospective,
    RaftEvent,
    Resigned,
    Role,
    State,
    Unattached,
    Votes,
)
from .replica_progress import ReplicaProgress
from .request_checks import Receiver, Refusal
from .request_manager import RequestManager
from .voter_set import Address, VoterKey, VoterSet
from .voter_set_history import VoterSetHistory

if TYPE_CHECKING:
    from ...storage.remote.remote_lineage import OffsetAndEpoch

_FOREVER_MS = (1 << 63) - 1


class RaftNode:
    """One node's state, with the actions that the current event has caused so far."""

    def __init__(
        self,
        options: RaftOptions,
        log: RaftLogView,
        voters: VoterSet,
        persisted: ElectionState,
        random: Random,
    ) -> None:
        self.options = options
        self.log = log
        self.random = random
        self.history = VoterSetHistory(voters)
        self.requests = RequestManager(options.request_timeout_ms, options.retry_backoff_ms)
        self.state: State = Unattached(
            epoch=persisted.epoch,
            leader_id=persisted.leader_id,
            voted_key=persisted.voted_key,
            deadline_ms=_FOREVER_MS,
        )
        self.high_watermark: int | None = None
        """The highest one that was announced, in whatever epoch."""
        self.is_started = False
        self.is_stopping = False
        self.is_broken = False
        """Whether a Fatal action has been given out: nothing is done any more."""
        self.is_log_stale = False
        """Whether an action has changed the log, and `handle_log_changed` has not come yet."""
        self.loading_snapshot: OffsetAndEpoch | None = None
        """The snapshot that the shell is loading."""
        self._actions: list[Action] = []
        self._announced: tuple[int | None, int] = (None, -1)
        self._flush_end = -1
        """The end offset up to which a Flush has been asked for."""

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def voters(self) -> VoterSet:
        """The voter set in effect."""
        return self.history.latest

    @property
    def is_voter(self) -> bool:
        return self.options.can_be_voter and self.voters.is_voter(self.options.key)

    @property
    def is_only_voter(self) -> bool:
        return self.is_voter and len(self.voters) == 1

    @property
    def receiver(self) -> Receiver:
        """What the checks of requests need to know."""
        is_leader = self.state.role is Role.LEADER
        return Receiver(
            self.options.cluster_id, self.options.key, self.epoch, is_leader, self.is_stopping
        )

    @property
    def leader_address(self) -> Address | None:
        """The address of the leader of the epoch, if both are known."""
        state = self.state
        if isinstance(state, Follower | Prospective):
            return state.leader_address
        if state.leader_id == self.options.node_id:
            return self.options.endpoints.get(self.options.listener)
        return None

    def answer_fields(
        self, refusal: Refusal | None = None
    ) -> tuple[ErrorCode, ErrorCode, int, int, tuple[NodeEndpoint, ...]]:
        """The first five fields of every response: errors, leader, epoch, the leader's address."""
        none = ErrorCode.NONE
        if refusal is not None and refusal.is_whole:
            return refusal.error_code, none, UNKNOWN_LEADER, 0, ()
        error_code = none if refusal is None else refusal.error_code
        leader_id, address = self.state.leader_id, self.leader_address
        if leader_id is None:
            return none, error_code, UNKNOWN_LEADER, self.epoch, ()
        endpoints = (NodeEndpoint(leader_id, address),) if address is not None else ()
        return none, error_code, leader_id, self.epoch, endpoints

    def act(self, action: Action) -> None:
        """Add an action for the shell."""
        if isinstance(action, Persist) and self._actions and isinstance(self._actions[-1], Persist):
            # Nothing was done in between that depends on the older one.
            self._actions.pop()
        self._actions.append(action)

    def take_actions(self) -> list[Action]:
        """The actions since the last call, for the shell to perform."""
        self._announce()
        actions, self._actions = self._actions, []
        return actions

    def fail(self, reason: str) -> None:
        """Stop for good."""
        self.act(Fatal(reason))
        self.is_broken = True

    def send(self, destination: Destination, request: RaftRequest, now_ms: int) -> None:
        """Send a request to a ready node."""
        self.act(self.requests.send(destination, request, now_ms))

    def advance_high_watermark(self, offset: int) -> None:
        """Announce a high watermark, unless a higher one has been announced before."""
        if self.high_watermark is None or offset > self.high_watermark:
            self.high_watermark = offset
            self.act(HighWatermark(offset))

    def flush(self) -> bool:
        """Whether the log is synced up to its end. If not, ask for that once."""
        end = self.log.end_offset
        if self.log.flushed_offset >= end:
            return True
        if self._flush_end != end:
            self._flush_end = end
            self.act(Flush())
        return False

    def log_will_change(self) -> None:
        """Wait for `handle_log_changed` before the log is read again."""
        self.is_log_stale = True
        self._flush_end = -1

    def become_unattached(
        self,
        event: RaftEvent,
        epoch: int,
        deadline_ms: int,
        leader_id: int | None = None,
    ) -> None:
        """Follow nobody. The vote and the leader of the epoch stay known if it is the same."""
        state = self.state
        assert epoch >= state.epoch, "an epoch never falls"
        is_same = epoch == state.epoch
        self._move(
            event,
            Unattached(
                epoch=epoch,
                leader_id=state.leader_id if is_same and leader_id is None else leader_id,
                voted_key=state.voted_key if is_same else None,
                deadline_ms=deadline_ms,
            ),
        )

    def see_epoch(self, epoch: int, now_ms: int, leader_id: int | None = None) -> None:
        """Take up a higher epoch whose leader is unknown, or cannot be reached."""
        state = self.state
        if isinstance(state, Unattached | Prospective | Candidate | Resigned):
            # No more patience than was left: else voters that outbid each other never begin.
            deadline_ms = state.deadline_ms
        else:
            deadline_ms = self.election_deadline(now_ms)
        self.become_unattached(RaftEvent.HIGHER_EPOCH, epoch, deadline_ms, leader_id)

    def become_follower(
        self,
        epoch: int,
        leader_id: int,
        address: Address,
        now_ms: int,
        event: RaftEvent = RaftEvent.LEADER_NAMED,
    ) -> None:
        """Follow the leader of an epoch."""
        state = self.state
        assert leader_id != self.options.node_id, "no node follows itself"
        assert epoch > state.epoch or (
            epoch == state.epoch and state.leader_id in (None, leader_id)
        ), "one leader for each epoch"
        self._move(
            event,
            Follower(
                epoch=epoch,
                leader_id=leader_id,
                voted_key=state.voted_key if epoch == state.epoch else None,
                leader_address=address,
                deadline_ms=self.options.fetch_deadline(now_ms, self.random),
                update_voter_ms=now_ms + self.options.fetch_timeout_ms,
            ),
        )

    def become_prospective(self, event: RaftEvent, now_ms: int) -> None:
        """Ask for pre-votes."""
        state = self.state
        assert self.options.can_be_voter, "an observer is not elected"
        self._move(
            event,
            Prospective(
                epoch=state.epoch,
                leader_id=state.leader_id,
                voted_key=state.voted_key,
                leader_address=self.leader_address,
                deadline_ms=self.election_deadline(now_ms),
                votes=Votes(self.voters, self.options.key),
            ),
            is_durable=False,
        )

    def become_candidate(self, now_ms: int) -> None:
        """Begin an election in the next epoch."""
        self._move(
            RaftEvent.PRE_VOTES_WON,
            Candidate(
                epoch=self.epoch + 1,
                voted_key=self.options.key,
                deadline_ms=self.election_deadline(now_ms),
                votes=Votes(self.voters, self.options.key),
            ),
        )

    def become_leader(self, granting: Sequence[int], now_ms: int) -> None:
        """Lead the epoch, whose first record is appended at once."""
        epoch, start = self.epoch, self.log.end_offset
        voters, options = self.voters, self.options
        self._move(
            RaftEvent.VOTES_WON,
            Leader(
                epoch=epoch,
                leader_id=options.node_id,
                epoch_start_offset=start,
                progress=ReplicaProgress(
                    self.options.key, voters, start, options.check_quorum_timeout_ms, now_ms
                ),
                begin_epoch_deadline_ms=now_ms,
            ),
        )
        keys = {voter.key.id: voter.key for voter in voters}
        record = self._voters_of_epoch()
        self.act(
            AppendStartOfEpoch(
                epoch,
                options.node_id,
                tuple(keys.values()),
                tuple(keys[voter_id] for voter_id in sorted(granting) if voter_id in keys),
                None if record is None else 1,
                record,
            )
        )
        self.log_will_change()

    def _voters_of_epoch(self) -> VoterSet | None:
        """The voters that a new leader writes; None if they stand in the log as they are.

        Those of the bootstrap snapshot are not in the log yet, and a leader that has moved writes
        its endpoints. Static voters need no record: every node is configured with them.
        """
        voters = self.voters
        if not voters.has_directories or not (
            self.history.latest_offset < 0 or voters.needs_update(self.options.voter)
        ):
            return None
        return voters.with_updated_voter(self.options.voter) or voters

    def resign(self, now_ms: int) -> None:
        """Lead no more; EndQuorumEpoch names the preferred successors to the voters."""
        state = self.state
        assert isinstance(state, Leader)
        self._move(
            RaftEvent.RESIGNED,
            Resigned(
                epoch=state.epoch,
                leader_id=self.options.node_id,
                deadline_ms=self.election_deadline(now_ms),
                unacknowledged=set(self.voters.ids) - {self.options.node_id},
                preferred_candidates=state.progress.successors(),
            ),
            is_durable=False,
        )

    def add_vote(self, key: VoterKey, now_ms: int) -> None:
        """Vote for a candidate of this epoch."""
        state = self.state
        assert state.voted_key is None, "one vote for each epoch"
        assert state.leader_id is None, "an epoch with a leader needs no vote"
        deadline_ms = self.election_deadline(now_ms)
        if isinstance(state, Prospective):
            votes = Votes(self.voters, self.options.key)
            self._move(
                RaftEvent.VOTED,
                Prospective(epoch=state.epoch, voted_key=key, deadline_ms=deadline_ms, votes=votes),
            )
        else:
            self._move(
                RaftEvent.VOTED,
                Unattached(epoch=state.epoch, voted_key=key, deadline_ms=deadline_ms),
            )

    def _move(self, event: RaftEvent, state: State, *, is_durable: bool = True) -> None:
        before = self.state
        assert NEXT_STATES[before.role, event] is state.role, "a move that the table does not have"
        if isinstance(before, Follower) and before.download is not None:
            self.act(DropSnapshot(before.download.snapshot_id))
        self.begin(state, is_durable=is_durable)
        if isinstance(before, Leader):
            fields = self.answer_fields(Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            for waiting in before.waiting:
                self.act(Reply(waiting.token, FetchResponse(*fields)))
            if before.change is not None:
                response = VoterChangeResponse(fields[1], "The leader has resigned.", *fields[2:])
                self.act(ReplyToVoterChange(before.change.token, response))

    def begin(self, state: State, *, is_durable: bool) -> None:
        """Take a state, and put it on the disk if it holds anything new that must be there."""
        self.state = state
        self.requests.reset()
        if is_durable:
            # From kraft.version 1 on, the file does not name the voters.
            voter_ids = () if self.voters.has_directories else self.voters.ids
            self.act(Persist(state.election_state(voter_ids)))

    def _announce(self) -> None:
        """Notify the shell of another leader or epoch. A resigned leader is none."""
        state = self.state
        is_over = state.leader_id == self.options.node_id and not isinstance(state, Leader)
        leader_id = None if is_over else state.leader_id
        if (leader_id, state.epoch) != self._announced:
            self._announced = (leader_id, state.epoch)
            start = state.epoch_start_offset if isinstance(state, Leader) else -1
            self._actions.append(LeaderChanged(leader_id, state.epoch, start))

    def election_deadline(self, now_ms: int) -> int:
        """The end of a new election timeout: uniform between the configured one and its double."""
        timeout_ms = self.options.election_timeout_ms
        return now_ms + timeout_ms + self.random.randrange(timeout_ms)

    def voter_address(self, node_id: int) -> Address | None:
        """A voter's address on the listener of the quorum."""
        return self.voters.address(node_id, self.options.listener)
