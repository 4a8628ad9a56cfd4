"""Nodes of a quorum in memory: a log, a `quorum-state`, and a shell that performs the actions.

Nothing is sent by itself: requests wait in `Member.sent` until a test passes them on, so a test can
lose, delay and repeat them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tierlog.replication.raft.election_state import ElectionState
from tierlog.replication.raft.raft import RaftCore
from tierlog.replication.raft.raft_actions import (
    Action,
    AppendFetched,
    AppendStartOfEpoch,
    AppendVoters,
    AskVersions,
    CreateSnapshot,
    DropSnapshot,
    Fatal,
    Flush,
    HighWatermark,
    LeaderChanged,
    Persist,
    Reply,
    ReplyToVoterChange,
    ReplyWithRecords,
    ReplyWithSnapshotBytes,
    Send,
    Token,
    TruncateFullyToSnapshot,
    TruncateTo,
    WriteSnapshotChunk,
)
from tierlog.replication.raft.raft_messages import (
    FetchResponse,
    FetchSnapshotResponse,
    RaftResponse,
    VoterChangeResponse,
)
from tierlog.replication.raft.raft_options import RaftOptions
from tierlog.replication.raft.raft_state import Follower, Leader, Role, State
from tierlog.replication.raft.voter_set import Address, Voter, VoterKey, VoterSet
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch

CLUSTER = "cluster-id"
CONTROLLER = "CONTROLLER"


class Batch(NamedTuple):
    """One record, which is a batch."""

    base_offset: int
    partition_leader_epoch: int
    value: str = ""
    voters: VoterSet | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + 1


@dataclass
class MemoryLog:
    """A log of batches from `start_offset` on, and snapshots by their ids."""

    batches: list[Batch] = field(default_factory=list[Batch])
    start_offset: int = 0
    flushed_offset: int = 0
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=dict[OffsetAndEpoch, bytes])

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        if self.batches:
            return self.batches[-1].partition_leader_epoch
        latest = self.latest_snapshot_id
        return 0 if latest is None else latest.epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        before = [each for each in self.batches if each.partition_leader_epoch <= epoch]
        if before:
            return OffsetAndEpoch(before[-1].next_offset, before[-1].partition_leader_epoch)
        earliest = self.earliest_snapshot_id
        return OffsetAndEpoch(self.start_offset, 0 if earliest is None else earliest.epoch)

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=None)

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return min(self.snapshots, default=None)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        snapshot = self.snapshots.get(snapshot_id)
        return None if snapshot is None else len(snapshot)

    def append(self, epoch: int, *values: str) -> None:
        """Append a batch for each value, unsynced."""
        for value in values:
            self.batches.append(Batch(self.end_offset, epoch, value))

    def read(self, offset: int) -> tuple[Batch, ...]:
        return tuple(each for each in self.batches if each.base_offset >= offset)

    def truncate_to(self, offset: int) -> None:
        self.batches = [each for each in self.batches if each.base_offset < offset]
        self.flushed_offset = min(self.flushed_offset, offset)

    def start_at(self, snapshot_id: OffsetAndEpoch, content: bytes) -> None:
        """Begin again at a snapshot."""
        self.batches = []
        self.snapshots = {snapshot_id: content}
        self.start_offset = self.flushed_offset = snapshot_id.offset

    def lose_power(self) -> None:
        """Forget what was not synced."""
        self.truncate_to(self.flushed_offset)


def address_of(node_id: int) -> Address:
    return Address(f"node{node_id}", 9093)


def voters_of(*node_ids: int) -> VoterSet:
    """Static voters."""
    return VoterSet(Voter(VoterKey(each), {CONTROLLER: address_of(each)}) for each in node_ids)


class Member:
    """One node: its core, its disk and what it has said so far."""

    def __init__(
        self,
        node_id: int,
        voters: VoterSet,
        *,
        persisted: ElectionState | None = None,
        log: MemoryLog | None = None,
        seed: int = 1,
        options: RaftOptions | None = None,
    ) -> None:
        self.node_id = node_id
        self.voters = voters
        self.options = options or RaftOptions(
            node_id, cluster_id=CLUSTER, endpoints={CONTROLLER: address_of(node_id)}
        )
        self.persisted = persisted or ElectionState()
        self.log = log or MemoryLog()
        self.random = Random(seed)
        self.core = self._new_core()
        self.now_ms = 0
        self.actions: list[Action] = []
        """Every action so far."""
        self.sent: list[Send] = []
        self.replies: list[tuple[Token, RaftResponse]] = []
        self.high_watermark = 0
        self.leaders: list[LeaderChanged] = []
        self.fatal: str | None = None
        self.asked_versions: list[AskVersions] = []
        self.voter_changes: list[tuple[Token, VoterChangeResponse]] = []
        self.holds_flushes = False
        """Whether a Flush waits for `flush`."""
        self._parts: dict[OffsetAndEpoch, bytes] = {}

    def _new_core(self) -> RaftCore:
        return RaftCore(self.options, self.log, self.voters, self.persisted, self.random)

    @property
    def state(self) -> State:
        return self.core.state

    def role(self) -> Role:
        """A method, so that type checkers do not take it for the same from line to line."""
        return self.core.state.role

    def leader_state(self) -> Leader:
        assert isinstance(self.state, Leader)
        return self.state

    def follower_state(self) -> Follower:
        assert isinstance(self.state, Follower)
        return self.state

    def start(self) -> list[Action]:
        return self.perform(self.core.start(self.now_ms))

    def restart(self) -> list[Action]:
        """Come up again after a power cut."""
        self.log.lose_power()
        self.sent.clear()
        self.core = self._new_core()
        self.high_watermark = 0
        return self.start()

    def at(self, now_ms: int) -> list[Action]:
        """Poll at a time."""
        self.now_ms = now_ms
        return self.perform(self.core.poll(now_ms))

    def after_timer(self) -> list[Action]:
        """Poll when the next timer ends."""
        deadline_ms = self.core.deadline_ms
        assert deadline_ms is not None
        return self.at(max(self.now_ms, deadline_ms))

    def append(self, *values: str) -> list[Action]:
        """The controller appends records as the leader."""
        assert self.core.is_leader
        self.log.append(self.core.epoch, *values)
        return self.perform(self.core.handle_log_changed(self.now_ms))

    def flush(self) -> list[Action]:
        self.log.flushed_offset = self.log.end_offset
        return self.perform(self.core.handle_log_changed(self.now_ms))

    def ask(self, request: object) -> RaftResponse | None:
        """Hand in a request; its response if that has come at once."""
        token = object()
        self.perform(self.core.handle_request(token, request, self.now_ms))  # type: ignore[arg-type]  # any request
        return self.response_to(token)

    def response_to(self, token: Token) -> RaftResponse | None:
        return next((response for each, response in self.replies if each is token), None)

    def answer(self, send: Send, response: RaftResponse) -> list[Action]:
        """Hand in the response to a request of this node."""
        if send in self.sent:
            self.sent.remove(send)
        return self.perform(self.core.handle_response(send.request_id, response, self.now_ms))

    def perform(self, actions: Sequence[Action]) -> list[Action]:
        """Perform actions and all that they lead to, which are returned too."""
        done: list[Action] = []
        pending = list(actions)
        while pending and self.fatal is None:
            action = pending.pop(0)
            done.append(action)
            follow_up = self._perform(action)
            # The actions of one event are all performed before those of the next one.
            pending += follow_up
        self.actions += done
        return done

    def _perform(self, action: Action) -> Sequence[Action]:
        match action:
            case Persist(state):
                assert state.epoch >= self.persisted.epoch
                self.persisted = state
            case Send():
                self.sent.append(action)
            case Reply(token, response):
                self.replies.append((token, response))
            case ReplyWithRecords(token, response, offset):
                assert isinstance(response, FetchResponse)
                self.replies.append((token, response._replace(records=self.log.read(offset))))
            case ReplyWithSnapshotBytes(token, response, max_bytes):
                assert isinstance(response, FetchSnapshotResponse)
                content = self.log.snapshots[response.snapshot_id]
                chunk = content[response.position : response.position + max_bytes]
                self.replies.append((token, response._replace(unaligned_records=chunk)))
            case HighWatermark(offset):
                assert offset > self.high_watermark
                self.high_watermark = offset
            case LeaderChanged():
                self.leaders.append(action)
            case Fatal(reason):
                self.fatal = reason
            case AskVersions():
                self.asked_versions.append(action)
            case ReplyToVoterChange(token, response):
                self.voter_changes.append((token, response))
            case _:
                return self._change_log(action)
        return ()

    def _change_log(self, action: Action) -> Sequence[Action]:
        match action:
            case AppendStartOfEpoch(epoch=epoch, voter_set=voters):
                return self._append(
                    Batch(self.log.end_offset, epoch, f"leader {self.node_id}", voters)
                )
            case AppendVoters(epoch, offset, voters):
                return self._append(Batch(offset, epoch, "voters", voters))
            case AppendFetched(batches):
                return self._append(*(batch for batch in batches if isinstance(batch, Batch)))
            case TruncateTo(offset):
                assert offset >= self.high_watermark
                self.log.truncate_to(offset)
            case Flush():
                if self.holds_flushes:
                    return ()
                self.log.flushed_offset = self.log.end_offset
            case _:
                return self._change_snapshots(action)
        return self.core.handle_log_changed(self.now_ms)

    def _append(self, *batches: Batch) -> Sequence[Action]:
        actions: list[Action] = []
        for batch in batches:
            assert batch.base_offset == self.log.end_offset
            self.log.batches.append(batch)
            if batch.voters is not None:
                actions += self.core.handle_voters(batch.base_offset, batch.voters, self.now_ms)
        return [*actions, *self.core.handle_log_changed(self.now_ms)]

    def _change_snapshots(self, action: Action) -> Sequence[Action]:
        match action:
            case CreateSnapshot(snapshot_id):
                self._parts[snapshot_id] = b""
            case WriteSnapshotChunk(snapshot_id, position, chunk):
                assert len(self._parts[snapshot_id]) == position
                self._parts[snapshot_id] += bytes(chunk)
            case DropSnapshot(snapshot_id):
                del self._parts[snapshot_id]
            case TruncateFullyToSnapshot(snapshot_id):
                self.log.start_at(snapshot_id, self._parts.pop(snapshot_id))
                return self.core.handle_snapshot_loaded(self.now_ms)
            case _:
                raise AssertionError(action)
        return ()


class Quorum:
    """Members, and a network that delivers what it is asked to."""

    def __init__(self, *members: Member) -> None:
        self.members = {member.node_id: member for member in members}
        self.now_ms = 0
        self.cut: set[int] = set()
        """Members that nobody can reach, and that reach nobody."""
        self._waiting: list[tuple[Member, Send, Member, Token]] = []

    def start(self) -> None:
        for member in self.members.values():
            member.start()

    def target(self, send: Send) -> Member:
        host = send.destination.address.host
        return self.members[int(host.removeprefix("node"))]

    def exchange(self) -> None:
        """Deliver requests and responses until nobody has anything to say."""
        for _ in range(1000):
            if not self._deliver():
                return
        raise AssertionError("the members never fall silent")

    def _deliver(self) -> bool:
        has_delivered = False
        for member in self.members.values():
            for send in list(member.sent):
                target = self.target(send)
                if member.node_id in self.cut or target.node_id in self.cut:
                    continue
                has_delivered = True
                member.sent.remove(send)
                token = object()
                self._waiting.append((member, send, target, token))
                target.perform(target.core.handle_request(token, send.request, self.now_ms))
        for entry in list(self._waiting):
            member, send, target, token = entry
            response = target.response_to(token)
            if response is not None:
                has_delivered = True
                self._waiting.remove(entry)
                if not self.cut & {member.node_id, target.node_id}:
                    member.answer(send, response)
        return has_delivered

    def run(self, until_ms: int) -> None:
        """Let time go by, timer by timer."""
        self.exchange()
        while self.now_ms < until_ms:
            deadlines = [each.core.deadline_ms for each in self.members.values()]
            next_ms = min([each for each in deadlines if each is not None] + [until_ms])
            self.now_ms = max(self.now_ms + 1, min(next_ms, until_ms))
            for member in self.members.values():
                member.at(self.now_ms)
            self.exchange()

    def leader(self) -> Member:
        """The only leader of the latest epoch."""
        leaders = [each for each in self.members.values() if each.core.is_leader]
        latest = max(each.core.epoch for each in leaders)
        (leader,) = (each for each in leaders if each.core.epoch == latest)
        return leader


def quorum_of(count: int, seed: int = 1) -> Quorum:
    """Static voters 1 to `count`, started, with a leader."""
    voters = voters_of(*range(1, count + 1))
    quorum = Quorum(*(Member(node_id, voters, seed=seed * 100 + node_id) for node_id in voters.ids))
    quorum.start()
    quorum.run(3000)
    return quorum


def kinds(actions: Iterable[Action]) -> list[str]:
    """The names of the actions' types."""
    return [type(action).__name__ for action in actions]
