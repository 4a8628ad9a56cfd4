"""What a leader knows of its voters and observers, and the high watermark that follows from it.

The high watermark is the end offset that a majority of the voters has reached, once it is above the
start of the leader's epoch: what earlier epochs left is committed only together with a record
of this one. The leader counts itself only up to its synced end, and only if it is a voter.

Check quorum: a leader that a majority has not fetched from for a while must resign (Kafka's
`LeaderState`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .raft_messages import ReplicaStatus
from .voter_set import Voter, VoterKey, VoterSet

OBSERVER_TIMEOUT_MS = 300_000
"""An observer that has not fetched for so long is forgotten."""

OBSERVERS_MAX = 1_000
"""With more observers, the one that has been silent longest is forgotten: anybody may fetch."""


@dataclass(slots=True)
class Replica:
    """One replica's progress; offsets and times are -1 where unknown."""

    key: VoterKey
    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_at_last_fetch: int = -1

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Note a fetch at an offset, which is the replica's end."""
        if offset >= leader_end:
            self.last_caught_up_ms = max(now_ms, self.last_caught_up_ms)
        elif 0 < self.leader_end_at_last_fetch <= offset:
            self.last_caught_up_ms = max(self.last_fetch_ms, self.last_caught_up_ms)
        self.last_fetch_ms = max(now_ms, self.last_fetch_ms)
        self.leader_end_at_last_fetch = max(leader_end, self.leader_end_at_last_fetch)
        self.end_offset = offset

    def status(self) -> ReplicaStatus:
        """What DescribeQuorum says of the replica."""
        return ReplicaStatus(
            self.key.id,
            self.key.directory_id,
            self.end_offset,
            self.last_fetch_ms,
            self.last_caught_up_ms,
        )


class ReplicaProgress:
    """The replicas of one leader in one epoch."""

    def __init__(
        self,
        own: VoterKey,
        voters: VoterSet,
        epoch_start_offset: int,
        check_quorum_timeout_ms: int,
        now_ms: int,
    ) -> None:
        self.high_watermark: int | None = None
        """The end of the committed records; None before one of this epoch is committed."""
        self._own = own
        self._voters = {voter.key.id: Replica(voter.key) for voter in voters}
        # The one that fetched last comes last.
        self._observers: dict[VoterKey, Replica] = {}
        self._epoch_start_offset = epoch_start_offset
        self._leader_end = epoch_start_offset
        self._check_quorum_timeout_ms = check_quorum_timeout_ms
        self._check_quorum_deadline_ms = now_ms + check_quorum_timeout_ms
        self._fetched_voters: set[int] = set()

    @property
    def is_leader_voter(self) -> bool:
        """Whether the leader is in the voter set. A leader that removes itself is not."""
        return self._voter(self._own) is not None

    @property
    def check_quorum_deadline_ms(self) -> int | None:
        """When the leader must resign; None if nobody else has a vote."""
        if self._remote_majority == 0:
            return None
        return self._check_quorum_deadline_ms

    @property
    def _remote_majority(self) -> int:
        """How many voters beside the leader are a majority with it."""
        return len(self._voters) // 2 + (0 if self.is_leader_voter else 1)

    def leader_advanced(self, end_offset: int, flushed_offset: int, now_ms: int) -> bool:
        """Note the leader's own end, and the synced one. Returns whether the watermark moved."""
        self._leader_end = end_offset
        self.leader_is_alive(now_ms).end_offset = min(flushed_offset, end_offset)
        return self._update_high_watermark()

    def leader_is_alive(self, now_ms: int) -> Replica:
        """Note that the leader has its own records; its replica."""
        replica = self._voter(self._own)
        if replica is None:
            replica = self._observers.setdefault(self._own, Replica(self._own))
        replica.last_fetch_ms = replica.last_caught_up_ms = now_ms
        return replica

    def fetched(self, key: VoterKey, offset: int, now_ms: int) -> bool:
        """Note a valid fetch of a replica. Returns whether the high watermark moved."""
        if key.id < 0:
            return False
        assert key.id != self._own.id, "a leader does not fetch from itself"
        voter = self._voter(key)
        replica = voter
        if replica is None:
            replica = self._observers.pop(key, None) or Replica(key)
            self._observers[key] = replica
        replica.fetched(offset, self._leader_end, now_ms)
        self.heard_from(key, now_ms)
        return voter is not None and self._update_high_watermark()

    def heard_from(self, key: VoterKey, now_ms: int) -> None:
        """Note a Fetch or FetchSnapshot for check quorum."""
        if self._voter(key) is None:
            return
        self._fetched_voters.add(key.id)
        if len(self._fetched_voters - {self._own.id}) >= self._remote_majority:
            self._fetched_voters.clear()
            self._check_quorum_deadline_ms = now_ms + self._check_quorum_timeout_ms

    def _voter(self, key: VoterKey) -> Replica | None:
        """The voter of a key. Where the voter's directory is unknown, the id decides."""
        replica = self._voters.get(key.id)
        if replica is None or not Voter(replica.key).is_same_voter(key):
            return None
        return replica

    def _update_high_watermark(self) -> bool:
        offsets = sorted((voter.end_offset for voter in self._voters.values()), reverse=True)
        if not offsets:
            return False
        # Of an even number of voters, half is no majority: the middle one from the lower half.
        offset = offsets[len(offsets) // 2]
        if offset <= max(self._epoch_start_offset, self.high_watermark or 0):
            return False
        self.high_watermark = offset
        return True

    def set_voters(self, voters: VoterSet, now_ms: int) -> None:
        """Take a new voter set: voters may become observers, and observers voters."""
        if self._remote_majority == 0:
            # Until now nobody else had to fetch: who is new gets the whole time for it.
            self._check_quorum_deadline_ms = now_ms + self._check_quorum_timeout_ms
        replicas = {replica.key: replica for replica in self._replicas()}
        by_id = {replica.key.id: replica for replica in self._voters.values()}
        self._voters = dict[int, Replica]()
        for voter in voters:
            replica = replicas.pop(voter.key, None)
            before = by_id.get(voter.key.id)
            if replica is None and before is not None and not before.key.has_directory:
                # The same voter, its directory is known from now on.
                replicas.pop(before.key, None)
                replica = before
                replica.key = voter.key
            self._voters[voter.key.id] = replica or Replica(voter.key)
        observers = [each for each in replicas.values() if each.last_fetch_ms >= 0]
        observers.sort(key=lambda each: each.last_fetch_ms)
        self._observers = {observer.key: observer for observer in observers}
        self._fetched_voters &= self._voters.keys()

    def forget_observers(self, now_ms: int) -> None:
        """Forget observers that do not fetch any more."""
        oldest_ms = now_ms - OBSERVER_TIMEOUT_MS
        silent: list[VoterKey] = []
        excess = len(self._observers) - OBSERVERS_MAX
        for key, replica in self._observers.items():
            if key == self._own:
                continue
            if replica.last_fetch_ms > oldest_ms and len(silent) >= excess:
                break
            silent.append(key)
        for key in silent:
            del self._observers[key]

    def _replicas(self) -> Iterator[Replica]:
        yield from self._voters.values()
        yield from self._observers.values()

    def replica(self, key: VoterKey) -> Replica | None:
        """What is known of a voter or observer."""
        return self._voter(key) or self._observers.get(key)

    def silent_voters(self, now_ms: int, interval_ms: int) -> list[int]:
        """The other voters that have not fetched for `interval_ms`."""
        return [
            node_id
            for node_id, replica in self._voters.items()
            if node_id != self._own.id
            and (replica.last_fetch_ms < 0 or replica.last_fetch_ms + interval_ms <= now_ms)
        ]

    def successors(self) -> tuple[VoterKey, ...]:
        """The other voters, those whose logs end last first."""
        others = [voter for voter in self._voters.values() if voter.key.id != self._own.id]
        return tuple(replica.key for replica in sorted(others, key=lambda each: -each.end_offset))

    def voter_statuses(self) -> tuple[ReplicaStatus, ...]:
        """What DescribeQuorum says of the voters."""
        return tuple(voter.status() for voter in self._voters.values())

    def observer_statuses(self) -> tuple[ReplicaStatus, ...]:
        """What DescribeQuorum says of the observers."""
        return tuple(observer.status() for observer in self._observers.values())
