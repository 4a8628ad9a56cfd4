"""The states of a node of the metadata quorum, and how they follow each other (KIP-595, KIP-996).

An observer knows only Unattached and Follower. A voter that misses its leader becomes Prospective
and asks whether it would be elected; only if a majority says so does it raise the epoch and become
Candidate. A leader that gives up becomes Resigned, and never leads in that epoch again.

The vote of an epoch is kept in Unattached, Prospective and Follower: no node votes twice in an
epoch. `NEXT_STATES` is the table; see `raft_node.py` for what each move does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from ...storage.remote.remote_lineage import OffsetAndEpoch
from .election_state import ElectionState
from .raft_actions import Token
from .raft_messages import FetchRequest
from .replica_progress import ReplicaProgress
from .voter_set import Address, VoterKey, VoterSet


class Role(Enum):
    """What a node is in the quorum."""

    RESIGNED = "has led this epoch and does not any more"
    UNATTACHED = "follows no leader"
    PROSPECTIVE = "asks whether it would be elected"
    CANDIDATE = "asks for votes in a new epoch"
    FOLLOWER = "fetches from the leader"
    LEADER = "leads the epoch"


class RaftEvent(Enum):
    """Why a node moves to another state."""

    HIGHER_EPOCH = "a higher epoch without a leader"
    LEADER_NAMED = "a leader is named"
    VOTED = "a vote is granted"
    ELECTION_TIMEOUT = "election timeout"
    FETCH_TIMEOUT = "fetch timeout of a voter"
    OBSERVER_FETCH_TIMEOUT = "fetch timeout of an observer"
    PRE_VOTES_WON = "a majority of pre-votes"
    PRE_VOTES_LOST = "pre-votes lost or timed out"
    PRE_VOTES_LOST_UNDER_LEADER = "pre-votes lost or timed out, and a leader was known"
    VOTES_WON = "a majority of votes"
    RESIGNED = "check quorum, stop, resignation, or removal"
    ONLY_VOTER = "no other voter"


_R, _E = Role, RaftEvent

NEXT_STATES: Mapping[tuple[Role, RaftEvent], Role] = MappingProxyType(
    {
        **{(role, _E.HIGHER_EPOCH): _R.UNATTACHED for role in _R},
        **{(role, _E.LEADER_NAMED): _R.FOLLOWER for role in _R},
        (_R.UNATTACHED, _E.VOTED): _R.UNATTACHED,
        (_R.PROSPECTIVE, _E.VOTED): _R.PROSPECTIVE,
        (_R.UNATTACHED, _E.ELECTION_TIMEOUT): _R.PROSPECTIVE,
        (_R.CANDIDATE, _E.ELECTION_TIMEOUT): _R.PROSPECTIVE,
        # In the next epoch, whose leader it may follow: Unattached, not Candidate.
        (_R.RESIGNED, _E.ELECTION_TIMEOUT): _R.UNATTACHED,
        (_R.FOLLOWER, _E.FETCH_TIMEOUT): _R.PROSPECTIVE,
        (_R.FOLLOWER, _E.OBSERVER_FETCH_TIMEOUT): _R.UNATTACHED,
        (_R.PROSPECTIVE, _E.PRE_VOTES_WON): _R.CANDIDATE,
        (_R.PROSPECTIVE, _E.PRE_VOTES_LOST): _R.UNATTACHED,
        (_R.PROSPECTIVE, _E.PRE_VOTES_LOST_UNDER_LEADER): _R.FOLLOWER,
        (_R.CANDIDATE, _E.VOTES_WON): _R.LEADER,
        (_R.LEADER, _E.RESIGNED): _R.RESIGNED,
        **{
            (role, _E.ONLY_VOTER): _R.PROSPECTIVE
            for role in (_R.RESIGNED, _R.UNATTACHED, _R.FOLLOWER)
        },
    }
)
"""Any other pair is a bug."""


class Votes:
    """The votes of one election (Kafka's `EpochElection`). The node's own vote is granted."""

    def __init__(self, voters: VoterSet, own: VoterKey) -> None:
        self._majority = voters.majority
        self.granted = {own.id} if voters.is_voter(own) else set[int]()
        self.unrecorded = set(voters.ids) - self.granted

    def record(self, voter_id: int, *, is_granted: bool) -> None:
        """Count a vote. A node that is no voter of this election is ignored."""
        if voter_id in self.unrecorded:
            self.unrecorded.remove(voter_id)
            if is_granted:
                self.granted.add(voter_id)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self._majority

    @property
    def is_lost(self) -> bool:
        """Whether the missing votes cannot make a majority any more."""
        return len(self.granted) + len(self.unrecorded) < self._majority


@dataclass(slots=True, kw_only=True)
class _Epoch:
    """What every state has."""

    epoch: int
    leader_id: int | None = None
    """The leader of the epoch, even if it is not followed any more."""
    voted_key: VoterKey | None = None
    """Who has this node's vote in the epoch."""

    def election_state(self, voter_ids: Iterable[int]) -> ElectionState:
        """What `quorum-state` says in this state."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key, tuple(voter_ids))


@dataclass(slots=True, kw_only=True)
class Resigned(_Epoch):
    """A leader of this epoch that gave up, or was restarted; it sends EndQuorumEpoch."""

    deadline_ms: int
    """The end of the election timeout."""
    unacknowledged: set[int]
    """The voters that have not answered EndQuorumEpoch."""
    unreachable_tries: dict[int, int] = field(default_factory=dict[int, int])
    """How often a voter could not be reached for it."""
    preferred_candidates: tuple[VoterKey, ...] = ()
    role: Role = field(default=Role.RESIGNED, init=False)


@dataclass(slots=True, kw_only=True)
class Unattached(_Epoch):
    """A node that follows nobody; it asks bootstrap servers for the leader."""

    deadline_ms: int
    """The end of the election timeout; it counts only for a voter."""
    role: Role = field(default=Role.UNATTACHED, init=False)


@dataclass(slots=True, kw_only=True)
class Prospective(_Epoch):
    """A voter that asks for pre-votes, before it raises the epoch."""

    deadline_ms: int
    votes: Votes
    leader_address: Address | None = None
    role: Role = field(default=Role.PROSPECTIVE, init=False)


@dataclass(slots=True, kw_only=True)
class Candidate(_Epoch):
    """A voter that asks for votes. If it loses, it waits until its timeout ends."""

    deadline_ms: int
    votes: Votes
    role: Role = field(default=Role.CANDIDATE, init=False)


@dataclass(slots=True)
class SnapshotDownload:
    """A snapshot that a follower fetches, and how many bytes of it it has (KIP-630)."""

    snapshot_id: OffsetAndEpoch
    position: int = 0


@dataclass(slots=True, kw_only=True)
class Follower(_Epoch):
    """A node that fetches from the leader of its epoch."""

    leader_address: Address
    deadline_ms: int
    """The end of the fetch timeout."""
    has_fetched: bool = False
    """Whether a fetch from this leader has succeeded: then no pre-vote is granted."""
    download: SnapshotDownload | None = None
    """The snapshot that is being fetched."""
    update_voter_ms: int | None = None
    """When this voter sends the leader its endpoints, if the leader does not have them."""
    has_updated_leader: bool = False
    """Whether this leader has heard them: with static voters it learns of them in no other way."""
    role: Role = field(default=Role.FOLLOWER, init=False)


class WaitingFetch(NamedTuple):
    """A Fetch at the end of the log, and when it is answered without records."""

    token: Token
    request: FetchRequest
    deadline_ms: int


class PendingChange(NamedTuple):
    """A change of the voters that is answered when its record is committed."""

    token: Token
    offset: int
    """The offset of the Voters record."""
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Leader(_Epoch):
    """The leader of its epoch."""

    epoch_start_offset: int
    """The offset of the LeaderChange record, the first of the epoch."""
    progress: ReplicaProgress
    begin_epoch_deadline_ms: int
    """When BeginQuorumEpoch is sent next to voters that do not fetch."""
    waiting: list[WaitingFetch] = field(default_factory=list[WaitingFetch])
    """Fetches that are answered when there is something new, at most one for each replica."""
    change: PendingChange | None = None
    """The change of the voters that is not committed yet."""
    role: Role = field(default=Role.LEADER, init=False)


State = Resigned | Unattached | Prospective | Candidate | Follower | Leader
