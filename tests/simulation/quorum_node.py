"""One simulated process of the quorum: the shell around a `RaftCore`.

It performs the actions of one event strictly in order before it hands in the next event. A slow
disk makes it wait inside a `Persist`, while requests, responses and timers queue up; a `Flush` goes
on beside other events, and ends later. A disk that fails or is full ends the process, as a metadata
log directory that goes offline does. What the process loses with that is the disk's to say.

What is committed goes to the node's `Machine`, which learns that it leads only after it has applied
everything before the epoch.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.replication.raft.election_state import ElectionState, parse_election_state
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
    TruncateFullyToSnapshot,
    TruncateTo,
    WriteSnapshotChunk,
)
from tierlog.replication.raft.raft_messages import (
    AddVoterRequest,
    FetchResponse,
    FetchSnapshotResponse,
    RaftResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoterChangeRequest,
    VoterChangeResponse,
    VoteRequest,
)
from tierlog.replication.raft.raft_options import SUPPORTED_KRAFT_VERSIONS, RaftOptions
from tierlog.replication.raft.voter_set import NO_VOTERS, VoterSet
from tierlog.storage.remote.remote_lineage import OffsetAndEpoch

from .quorum_log import Batch, FlushInProgress, ModelLog, Snapshot, parse_snapshot
from .quorum_network import Exchange
from .quorum_world import DiskError, DiskFaults, Machine, MonotonicClock, World

BATCHES_A_FETCH = 8
Step = Callable[[RaftCore, int], list[Action]]


_parsed = lru_cache(256)(parse_election_state)


@dataclass(eq=False, slots=True)
class VoterChange:
    """One AddRaftVoter, RemoveRaftVoter or UpdateRaftVoter on its way."""

    request: VoterChangeRequest | UpdateVoterRequest
    on_answer: Callable[[VoterChangeResponse | UpdateVoterResponse], None]


class QuorumNode:
    """See the module."""

    def __init__(self, world: World, options: RaftOptions, voters: VoterSet) -> None:
        self.options = options
        self.voters = voters
        self.log = ModelLog()
        self.disk = DiskFaults()
        self.quorum_state: bytes | None = None
        self.clock = MonotonicClock(world.queue, world.chance)
        self.core: RaftCore | None = None
        self.life = 0
        self.lives = 0
        self.handed_ms = 0
        """The time that was handed to the core with its last event."""
        self.knows_pre_vote = True
        """Whether its version of Vote is 2 or later (KIP-996)."""
        self.disturbed_ms = 0
        """When the process last went on after a pause, a leap of its clock or a slow disk."""
        self.is_paused = False
        self.high_watermark: int | None = None
        self.applied = 0
        self.is_leaving = False
        """Whether this life was asked to resign or to stop."""
        self.machine: Machine = world.machine(self)
        self._world = world
        self._is_waiting = False
        self._inbox: deque[Step] = deque()
        self._poll_at: float | None = None
        self._log_changed = False
        self._snapshot_loaded = False
        self._new_voters: deque[tuple[int, VoterSet]] = deque()
        self._claim: tuple[int, int] | None = None
        """The epoch that this node leads and where it starts, until the machine learns of it."""
        self._download: dict[OffsetAndEpoch, bytearray] = {}
        world.network.hosts[self.id] = self

    @property
    def id(self) -> int:
        return self.options.node_id

    @property
    def voters_in_force(self) -> VoterSet:
        """The voters as the log has them, or else the static ones."""
        return self.log.latest_voters[1] or self.voters

    @property
    def is_voter(self) -> bool:
        """Whether this node has a vote."""
        return self.options.can_be_voter and self.voters_in_force.is_voter(self.options.key)

    @property
    def is_leading(self) -> bool:
        """Whether the process lives and believes that it leads."""
        return self.core is not None and self.core.is_leader

    @property
    def role(self) -> object:
        """The core's state: the same object as long as it stays in it."""
        return None if self.core is None else self.core.state

    @property
    def is_idle(self) -> bool:
        """Whether no action waits to be performed."""
        return not self._is_waiting and not self._inbox

    @property
    def persisted(self) -> ElectionState:
        """What `quorum-state` holds."""
        return ElectionState() if self.quorum_state is None else _parsed(self.quorum_state)

    def start_if_dead(self) -> None:
        """Begin a life unless one goes on."""
        if self.core is None:
            self.start()

    def start(self) -> None:
        """Begin a life with what the disk holds."""
        assert self.core is None
        world = self._world
        self.lives += 1
        self.life = self.lives
        self.high_watermark = None
        self.is_leaving = False
        snapshot_id = self.log.latest_snapshot_id
        if snapshot_id is not None and snapshot_id.offset > self.log.end_offset:
            self.log.truncate_fully(self.log.snapshots[snapshot_id])
        self._restore()
        chance = random.Random(world.chance.random())
        initial = NO_VOTERS if self.log.start.voters else self.voters
        self.core = world.core(self.options, self.log, initial, self.persisted, chance)
        for offset, voters in self.log.voter_records(self.log.end_offset):
            self.core.handle_voters(offset, voters, self.clock.now_ms())
        self._step(lambda core, now: core.start(now))

    def _restore(self) -> None:
        self.applied = self.log.start_offset
        self.machine.restore(self.log.start.state)

    def kill(self) -> None:
        """End the process; what was not synced is lost as the disk will have it."""
        self.core = None
        self.life = 0
        self.is_paused = False
        self._is_waiting = False
        self._inbox.clear()
        self._download.clear()
        self._log_changed = self._snapshot_loaded = False
        self._new_voters.clear()
        self._claim = None
        self._poll_at = None
        self.machine.end()
        self.disk = DiskFaults()
        if self.log.lose_power(self._world.chance):
            self._world.counts["unsynced tail lost"] += 1
        self._world.network.break_connections_of(self.id)
        self._world.witness.on_log_lost(self)

    def lose_disk(self) -> None:
        """Put an empty disk into a dead node."""
        assert self.core is None
        self.log = ModelLog()
        self.quorum_state = None

    def replace_disk(self, directory_id: Uuid) -> None:
        """Put an empty disk into a dead node, with a directory that is no voter's (KIP-853)."""
        self.lose_disk()
        self.options = replace(self.options, directory_id=directory_id)
        self.voters = NO_VOTERS

    def stop_cleanly(self) -> None:
        """End the process after a graceful stop: everything is synced."""
        self.log.flush()
        self.kill()

    def pause(self, for_ms: float) -> None:
        """Do nothing for a while; everything that arrives queues up."""
        life = self.life
        self.is_paused = True

        def resume() -> None:
            if self.life == life:
                self.is_paused = False
                self.disturbed_ms = self.clock.now_ms()
                self._drain()

        self._world.queue.after(for_ms, resume)

    def leap(self, by_ms: float) -> None:
        """Let the monotonic clock leap; timers may be due at once."""
        self.clock.leap(by_ms)
        self.disturbed_ms = self.clock.now_ms()
        self._poll_at = None
        if self.core is not None and self.is_idle:
            self._set_timer()

    def receive(self, exchange: Exchange) -> None:
        """Take a request from the network."""
        request = exchange.request
        if isinstance(request, VoteRequest) and request.pre_vote and not self.knows_pre_vote:
            self._world.counts["pre-vote not known"] += 1
            self._world.network.refuse_version(exchange)
            return

        def handle(core: RaftCore, now: int) -> list[Action]:
            self._world.witness.on_request(self, exchange)
            return core.handle_request(exchange, exchange.request, now)

        self._step(handle)

    def receive_response(self, request_id: int, response: RaftResponse) -> None:
        """Take a response from the network."""

        def handle(core: RaftCore, now: int) -> list[Action]:
            self._world.witness.on_response(self, request_id, response)
            return core.handle_response(request_id, response, now)

        self._step(handle)

    def receive_failure(
        self, request_id: int, error: ErrorCode = ErrorCode.NETWORK_EXCEPTION
    ) -> None:
        """Hear that a request got no response."""

        def handle(core: RaftCore, now: int) -> list[Action]:
            self._world.witness.on_failure(self, request_id, error)
            return core.handle_failure(request_id, now, error)

        self._step(handle)

    def append(self, payload: bytes, count: int) -> None:
        """Write data as the active controller does, if this node leads."""

        def write() -> None:
            if self.is_leading:
                self.append_now(payload, count)

        self.control(write)

    def control(self, act: Callable[[], None]) -> None:
        """Let the active controller act between two events; it may call `append_now`."""

        def step(core: RaftCore, now: int) -> list[Action]:
            end = self.log.end_offset
            act()
            return core.handle_log_changed(now) if self.log.end_offset != end else []

        self._step(step)

    def append_now(self, payload: bytes, count: int) -> Batch:
        """Append data as the leader of the epoch."""
        core = self.core
        assert core is not None
        assert core.is_leader
        if self.disk.is_full:
            raise DiskError("full disk in append")
        return self.log.append(count, core.epoch, payload)

    def change_voters(self, change: VoterChange) -> None:
        """Take a change of the voters, if the process lives."""
        request = change.request
        if isinstance(request, UpdateVoterRequest):
            self._step(lambda core, now: core.handle_request(change, request, now))
        else:
            self._step(lambda core, now: core.handle_voter_change(change, request, now))

    def resign(self) -> None:
        """Give up the leadership, as a controller that failed does."""
        self.is_leaving = True
        self._step(lambda core, now: core.resign(core.epoch, now))

    def shut_down(self) -> None:
        """Begin a graceful stop."""
        self.is_leaving = True
        self._step(lambda core, now: core.shutdown(now))

    def take_snapshot(self, *, trims: bool) -> None:
        """Write a snapshot of the applied state, and let the log begin there if it `trims`."""
        digest = self.log.digest_at(self.applied)
        if self.core is None or digest is None or self.applied <= self.log.start_offset:
            return
        epoch = next(
            batch.partition_leader_epoch
            for batch in reversed(self.log.batches)
            if batch.next_offset <= self.applied
        )
        voters = NO_VOTERS
        if self.log.voter_records(self.applied):
            voters = self.core.voters_at(self.applied) or NO_VOTERS
        snapshot = Snapshot(self.applied, epoch, digest, self.machine.freeze(), voters)
        self._world.witness.on_snapshot(self, snapshot)
        self.log.snapshots[snapshot.id] = snapshot
        self._world.counts["snapshot taken"] += 1
        if trims:
            self.log.start_at(snapshot)
            self._world.counts["log start moved"] += 1
        self._step(lambda core, now: core.handle_log_changed(now))

    def _step(self, step: Step) -> None:
        if self.core is not None:
            self._inbox.append(step)
            self._drain()

    def _drain(self) -> None:
        """Hand in what waits, one event after the other."""
        while self.core is not None and self._inbox and not (self.is_paused or self._is_waiting):
            step = self._inbox.popleft()
            self.handed_ms = self.clock.now_ms()
            try:
                actions = step(self.core, self.handed_ms)
            except DiskError as error:
                self._fail(error)
                return
            self._perform(deque(actions))
        if self.core is not None and not self.is_paused and not self._is_waiting:
            self._set_timer()

    def _perform(self, actions: deque[Action]) -> None:
        while self.core is not None:
            if not actions:
                following = self._follow_up(self.core)
                if following is None:
                    self._world.witness.after_event(self)
                    return
                actions.extend(following)
                continue
            action = actions.popleft()
            delay = self.disk.persist_delay_ms
            if delay and isinstance(action, Persist):
                self._wait_and_perform(delay, action, actions)
                return
            self._do_watched(action)

    def _wait_and_perform(self, delay: float, action: Action, rest: deque[Action]) -> None:
        """Be busy with a slow disk, then go on."""
        life = self.life
        self._is_waiting = True
        self._world.counts["slow quorum-state"] += 1

        def go_on() -> None:
            if self.life == life:
                self._is_waiting = False
                self.disturbed_ms = self.clock.now_ms()
                self._do_watched(action)
                self._perform(rest)
                self._drain()

        self._world.queue.after(delay, go_on)

    def _follow_up(self, core: RaftCore) -> list[Action] | None:
        """What the shell must tell of what it has done; None if that is nothing."""
        now = self.handed_ms = self.clock.now_ms()
        if self._snapshot_loaded:
            self._snapshot_loaded = self._log_changed = False
            return core.handle_snapshot_loaded(now, self.log.start.voters or None)
        if self._new_voters:
            offset, voters = self._new_voters.popleft()
            return core.handle_voters(offset, voters, now)
        if self._claim is not None and self.applied >= self._claim[1] and core.is_leader:
            epoch, _ = self._claim
            self._claim = None
            end = self.log.end_offset
            self._lead(epoch)
            self._log_changed |= self.log.end_offset != end
        if self.core is not None and self._log_changed:
            self._log_changed = False
            return core.handle_log_changed(now)
        return None if self.core is not None else []

    def _lead(self, epoch: int) -> None:
        try:
            self.machine.lead(epoch)
        except DiskError as error:
            self._fail(error)

    def _do_watched(self, action: Action) -> None:
        witness = self._world.witness
        witness.before_action(self, action)
        try:
            self._do(action)
        except DiskError as error:
            self._fail(error)
            return
        if self.core is not None:
            witness.after_action(self, action)

    def _fail(self, error: "DiskError") -> None:
        self._world.counts[str(error)] += 1
        self.kill()

    def _do(self, action: Action) -> None:
        network = self._world.network
        match action:
            case Persist(state):
                self._persist(state)
            case Send(request_id, destination, request):
                network.send(self, request_id, destination.address, request)
            case Reply(Exchange() as exchange, response):
                network.reply(exchange, response)
            case Reply(VoterChange() as change, UpdateVoterResponse() as response):
                change.on_answer(response)
            case ReplyWithRecords(Exchange() as exchange, FetchResponse() as response, offset):
                records = self.log.read(offset, BATCHES_A_FETCH)
                network.reply(exchange, response._replace(records=records))
            case ReplyWithSnapshotBytes(
                Exchange() as exchange, FetchSnapshotResponse() as response, max_bytes
            ):
                content = self.log.snapshots[response.snapshot_id].to_bytes()
                chunk = content[response.position : response.position + max_bytes]
                network.reply(exchange, response._replace(unaligned_records=chunk))
            case HighWatermark(offset):
                self._commit(offset)
            case Flush():
                self._begin_flush()
            case Fatal(reason):
                raise AssertionError(f"node {self.id} gives up: {reason}")
            case LeaderChanged() | AskVersions() | ReplyToVoterChange():
                self._notify(action)
            case _:
                self._change_log(action)

    def _notify(self, action: LeaderChanged | AskVersions | ReplyToVoterChange) -> None:
        match action:
            case LeaderChanged(leader_id, epoch, start):
                self._claim = (epoch, start) if leader_id == self.id else None
                if leader_id != self.id:
                    self.machine.renounce()
            case AskVersions(VoterChange() as change, request, destination):
                self._ask_versions(change, request, destination.address.host)
            case ReplyToVoterChange(VoterChange() as change, response):
                change.on_answer(response)
            case _:
                raise AssertionError("a change of the voters that this node was not asked for")

    def _ask_versions(self, change: VoterChange, request: AddVoterRequest, host: str) -> None:
        """Ask the new voter, which may be dead or cut off."""
        life, network = self.life, self._world.network
        target_id = int(host.removeprefix("node"))

        def answer() -> None:
            links = (self.id, target_id), (target_id, self.id)
            target = network.hosts[target_id]
            is_same = isinstance(target, QuorumNode) and (
                target.options.directory_id == request.voter_directory_id
            )
            is_there = is_same and target.life > 0 and not any(map(network.is_cut, links))
            versions = SUPPORTED_KRAFT_VERSIONS if is_there else None
            known = request._replace(kraft_version=versions, is_unreachable=not is_there)
            if self.life == life:
                self._step(lambda core, now: core.handle_voter_change(change, known, now))

        self._world.queue.after(self._world.chance.uniform(1, 50), answer)

    def _change_log(self, action: Action) -> None:
        self._log_changed = True
        match action:
            case AppendStartOfEpoch() | AppendVoters() | AppendFetched() if self.disk.is_full:
                raise DiskError("full disk in append")
            case AppendStartOfEpoch():
                self._begin_epoch(action)
            case AppendVoters(epoch, offset, voter_set):
                own = self.log.append_control(1, epoch, b"voters", voter_set)
                assert own.base_offset == offset
                self._world.counts["voters changed"] += 1
            case AppendFetched(batches):
                for batch in batches:
                    assert isinstance(batch, Batch)
                    self._append_fetched(batch)
            case TruncateTo(offset):
                self._world.counts["truncated"] += 1
                self.log.truncate_to(offset)
            case _:
                self._log_changed = False
                self._fetch_snapshot(action)

    def _fetch_snapshot(self, action: Action) -> None:
        match action:
            case CreateSnapshot(snapshot_id):
                self._download = {snapshot_id: bytearray()}
            case WriteSnapshotChunk(snapshot_id, position, chunk):
                assert position == len(self._download[snapshot_id]), "a chunk is missing"
                self._download[snapshot_id] += chunk
            case DropSnapshot(snapshot_id):
                self._world.counts["snapshot given up"] += 1
                self._download.pop(snapshot_id, None)
            case TruncateFullyToSnapshot(snapshot_id):
                self._load(parse_snapshot(bytes(self._download.pop(snapshot_id))), snapshot_id)
            case _:
                raise AssertionError(f"an action that nobody performs: {action}")

    def _begin_epoch(self, action: AppendStartOfEpoch) -> None:
        count = 1 + (action.kraft_version is not None) + (action.voter_set is not None)
        voters = NO_VOTERS if action.voter_set is None else action.voter_set
        payload = b"leader %d" % action.leader_id
        batch = self.log.append_control(count, action.epoch, payload, voters)
        self._note_voters(batch)

    def _note_voters(self, batch: Batch) -> None:
        if batch.voters:
            self._world.counts["voters recorded"] += 1
            self._new_voters.append((batch.next_offset - 1, batch.voters))

    def _append_fetched(self, batch: Batch) -> None:
        assert batch.base_offset == self.log.end_offset, (
            f"node {self.id} appends {batch.base_offset} at {self.log.end_offset}"
        )
        own = self.log.append_copy(batch)
        self._note_voters(own)
        assert own.digest == batch.digest, f"node {self.id} diverges below {batch.next_offset}"

    def _load(self, snapshot: Snapshot, snapshot_id: OffsetAndEpoch) -> None:
        assert snapshot.id == snapshot_id
        self._world.counts["snapshot loaded"] += 1
        self.log.truncate_fully(snapshot)
        self._restore()
        self._snapshot_loaded = True

    def _persist(self, state: ElectionState) -> None:
        content = state.to_json(1 if self.options.key.has_directory else 0)
        if self.disk.is_full:
            raise DiskError("full disk in quorum-state")
        if self.disk.fail_persist:
            if self._world.chance.random() < 0.5:
                self.quorum_state = content  # renamed, and the directory's sync failed
            raise DiskError("failed quorum-state")
        self.quorum_state = content

    def _begin_flush(self) -> None:
        flush = self.log.begin_flush()
        if not self.disk.flush_delay_ms and not self.disk.fail_flush:
            self._end_flush(flush)
            return
        life = self.life

        def end() -> None:
            if self.life == life:
                self._step(lambda core, now: self._late_end(flush, core, now))

        self._world.counts["slow flush"] += 1
        self._world.queue.after(self.disk.flush_delay_ms, end)

    def _late_end(self, flush: FlushInProgress, core: RaftCore, now: int) -> list[Action]:
        if self.disk.fail_flush:
            raise DiskError("failed flush")
        self._end_flush(flush)
        self._log_changed = False
        return core.handle_log_changed(now)

    def _end_flush(self, flush: FlushInProgress) -> None:
        self.log.complete_flush(flush)
        self._log_changed = True

    def _commit(self, offset: int) -> None:
        """Apply what is committed now."""
        self.high_watermark = offset
        for batch in self.log.read(self.applied, len(self.log.batches)):
            if batch.next_offset > offset:
                break
            self.machine.apply(batch)
            self.applied = batch.next_offset

    def _set_timer(self) -> None:
        assert self.core is not None
        deadline = self.core.deadline_ms
        if deadline is None:
            return
        at = self._world.queue.now + self.clock.delay_until(deadline)
        if self._poll_at is not None and self._poll_at <= at:
            return
        self._poll_at = at
        life = self.life

        def poll() -> None:
            if self.life == life and self._poll_at == at:
                self._poll_at = None
                self._poll()

        self._world.queue.after(at - self._world.queue.now, poll)

    def _poll(self) -> None:
        core = self.core
        assert core is not None
        deadline = core.deadline_ms
        if deadline is not None and deadline <= self.clock.now_ms():
            self._step(lambda core, now: core.poll(now))
        elif self.is_idle and not self.is_paused:
            self._set_timer()
