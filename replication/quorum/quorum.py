"""The metadata quorum of this process: the shell of `raft.py` (Kafka's `KafkaRaftClient`).

One task hands events to the core, one at a time, and performs the actions of each in order: it
writes the state file, the log and the snapshots, sends requests and answers those of other nodes.
Only fsyncs of the log run beside it.

A `QuorumListener` learns of the leader, the high watermark, a loaded snapshot, and of a failure,
after which this node takes no further part in the quorum.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import NamedTuple, Protocol, cast

from ...clients.errors import ErrorCode, KafkaError
from ...clients.runtime.task_owner import TaskOwner
from ...storage.log.local_log import FlushTask
from ...storage.remote.remote_lineage import OffsetAndEpoch
from ..raft.raft import RaftCore
from ..raft.raft_actions import (
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
from ..raft.raft_messages import (
    FetchSnapshotResponse,
    QuorumDescription,
    RaftRequest,
    RaftResponse,
    VoterChangeRequest,
    VoterChangeResponse,
)
from ..raft.voter_set import Address, VoterSet
from .quorum_channel import QuorumTransport
from .quorum_storage import QuorumStorage, Records

_REQUESTS_MAX = 256
"""The requests of other nodes that wait for their answers, and ours that are in flight, each."""

_CHANGES_MAX = 64
"""Changes of the voters that wait for their answers: all but one are refused."""

_log = logging.getLogger(__name__)

Event = Callable[[int], list[Action]]


class QuorumListener(Protocol):
    """Learns what the quorum decides. Called from the event loop; no call may block."""

    def on_leader(self, leader_id: int | None, epoch: int, epoch_start_offset: int) -> None: ...

    def on_high_watermark(self, offset: int) -> None: ...

    def on_snapshot_loaded(self, snapshot_id: OffsetAndEpoch) -> None: ...

    def on_failure(self, message: str) -> None: ...


class Answer(NamedTuple):
    """A response, and the records that go with it."""

    response: RaftResponse
    records: Records | None = None


class Quorum:
    """One node of the quorum, as its process sees it."""

    def __init__(
        self,
        core: RaftCore,
        storage: QuorumStorage,
        transport: QuorumTransport,
        listener: QuorumListener,
        executor: Executor,
    ) -> None:
        self._core = core
        self._storage = storage
        self._transport = transport
        self._listener = listener
        self._executor = executor
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks = TaskOwner(_REQUESTS_MAX + 2, self._on_task_failure)
        self._waiting: dict[asyncio.Future[Answer], None] = {}
        self._changes: dict[asyncio.Future[VoterChangeResponse], None] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._is_flush_due = False
        self._has_failed = False
        # The latest epoch that this node has begun as its leader.
        self._led_epoch = -1
        self._stopped = asyncio.Event()

    @property
    def epoch(self) -> int:
        return self._core.epoch

    async def until_stopped(self) -> None:
        """Wait until this node takes no part in the quorum any more."""
        await self._stopped.wait()

    @property
    def leader_id(self) -> int | None:
        """The leader; None while it is unknown."""
        return self._core.leader_id

    @property
    def leader_address(self) -> Address | None:
        """The leader's address on the quorum's listener; None while it is unknown."""
        return self._core.leader_address

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, and has appended the first record of its epoch."""
        core = self._core
        return core.is_leader and self._led_epoch == core.epoch and not self._has_failed

    @property
    def high_watermark(self) -> int | None:
        return self._core.high_watermark

    @property
    def voters(self) -> VoterSet:
        """The voter set in effect, committed or not."""
        return self._core.voters

    @property
    def kraft_version(self) -> int:
        """The level of `kraft.version`: 1 if voters may change, 0 if they are static."""
        return 1 if self.voters and self.voters.has_directories else 0

    def describe(self) -> QuorumDescription:
        """The data of a DescribeQuorum response; its times are those of the loop's clock."""
        if self._has_failed:
            return QuorumDescription(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._core.describe_quorum(self._now_ms())

    def ms_since(self, time_ms: int) -> int:
        """How long ago a time of `describe` was, in milliseconds."""
        return self._now_ms() - time_ms

    async def start(self) -> None:
        """Take up the persisted state. A sole voter leads when this returns."""
        await self._handle(self._core.start)
        self._tasks.start(self._work(), "quorum")

    async def stop(self, timeout_s: float) -> None:
        """Resign if this node leads, notify the others, and end within the timeout."""
        if not self._has_failed:
            self._events.put_nowait(self._core.shutdown)
            try:
                async with asyncio.timeout(timeout_s):
                    await self._stopped.wait()
            except TimeoutError:
                _log.info("The quorum was left before all voters had answered.")
        await self.abort()

    async def abort(self) -> None:
        """End at once, without a word to the other nodes; does nothing after `stop`."""
        self._has_failed = True
        self._fail_waiting(ErrorCode.BROKER_NOT_AVAILABLE)
        await self._tasks.stop()
        await self._transport.close()

    async def handle(self, request: RaftRequest) -> Answer:
        """Answer a request of another node.

        Raises KafkaError(BROKER_NOT_AVAILABLE) while this node stops or when it has failed.
        """
        if self._has_failed or len(self._waiting) >= _REQUESTS_MAX:
            raise _not_available()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[answer] = None
        try:
            self._post(lambda now_ms: self._core.handle_request(answer, request, now_ms))
            return await answer
        finally:
            self._waiting.pop(answer, None)

    async def handle_voter_change(self, request: VoterChangeRequest) -> VoterChangeResponse:
        """Add or remove a voter; returns when that is committed, or refused.

        Raises KafkaError(BROKER_NOT_AVAILABLE) while this node stops or when it has failed.
        """
        if self._has_failed or len(self._changes) >= _CHANGES_MAX:
            raise _not_available()
        changed: asyncio.Future[VoterChangeResponse] = asyncio.get_running_loop().create_future()
        self._changes[changed] = None
        try:
            self._post(lambda now_ms: self._core.handle_voter_change(changed, request, now_ms))
            return await changed
        finally:
            self._changes.pop(changed, None)

    def appended(self) -> None:
        """The controller has appended records as the leader of the current epoch."""
        self._post(self._core.handle_log_changed)

    def resign(self, epoch: int) -> None:
        """Give up the leadership of an epoch; does nothing if this node does not lead it."""
        self._post(lambda now_ms: self._core.resign(epoch, now_ms))

    def in_a_later_turn(self, work: Callable[[], None]) -> None:
        """Call `work` in a later turn of the event loop, as one of the events.

        Like what the listener does, it is never called while the log is truncated or replaced, and
        its failure ends this node's part in the quorum.
        """

        def event(_: int) -> list[Action]:
            work()
            return []

        # Not at once: events that are in the queue already may be handled in the same turn.
        asyncio.get_running_loop().call_soon(self._post, event)

    def _post(self, event: Event) -> None:
        self._events.put_nowait(event)

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    async def _work(self) -> None:
        while not (self._has_failed or self._core.is_stopped):
            deadline_ms = self._core.deadline_ms
            wait_s = None if deadline_ms is None else max(0, deadline_ms - self._now_ms()) / 1000
            try:
                async with asyncio.timeout(wait_s):
                    event = await self._events.get()
            except TimeoutError:
                event = self._core.poll
            await self._handle(event)
        self._stopped.set()

    async def _handle(self, event: Event) -> None:
        """Hand an event to the core and perform its actions, and the actions of what they lead to.

        Raises nothing: a failure ends this node's part in the quorum.
        """
        following: list[Event] = [event]
        try:
            while following:
                for action in following.pop(0)(self._now_ms()):
                    if self._has_failed:
                        return
                    if (then := await self._perform(action)) is not None:
                        following.append(then)
        except OSError as error:
            self._fail(f"The metadata log failed: {self._storage.log_dir.fail(error)}")
        except KafkaError as error:
            self._fail(f"The metadata log failed: {error}")

    async def _perform(self, action: Action) -> Event | None:
        """Perform one action; returns the event that it leads to at once."""
        match action:
            case Persist():
                await self._in_thread(self._storage.persist, action.state)
            case Send():
                self._send(action)
            case Reply():
                self._reply(action.token, Answer(action.response))
            case ReplyWithRecords():
                records = self._storage.records_from(action.offset)
                self._reply(action.token, Answer(action.response, records))
            case HighWatermark():
                self._storage.advance_high_watermark(action.offset)
                self._listener.on_high_watermark(action.offset)
            case LeaderChanged():
                if action.epoch_start_offset >= 0:
                    self._led_epoch = action.epoch
                self._listener.on_leader(action.leader_id, action.epoch, action.epoch_start_offset)
            case Fatal():
                self._fail(action.reason)
            case Flush():
                self._flush()
            case AskVersions() | ReplyToVoterChange():
                self._change_voters(action)
            case _:
                return await self._write(action)
        return None

    async def _write(self, action: Action) -> Event | None:
        """Perform an action that changes the log or the snapshots."""
        core, storage = self._core, self._storage
        match action:
            case AppendStartOfEpoch():
                storage.append_start_of_epoch(action)
                if action.voter_set is None:
                    return core.handle_log_changed
                # The Voters record is the last one of the batch.
                return self._log_changed([(storage.end_offset - 1, action.voter_set)])
            case AppendVoters():
                storage.append_voters(action)
                return core.handle_log_changed
            case AppendFetched():
                return self._log_changed(storage.append_fetched(action.batches))
            case TruncateTo():
                await self._flushes_ended()
                storage.truncate_to(action.offset)
                return core.handle_log_changed
            case CreateSnapshot():
                storage.create_snapshot(action.snapshot_id)
            case WriteSnapshotChunk():
                await self._in_thread(storage.write_snapshot_chunk, action)
            case DropSnapshot():
                storage.drop_snapshot(action.snapshot_id)
            case TruncateFullyToSnapshot():
                await self._flushes_ended()
                await self._in_thread(storage.truncate_fully_to_snapshot, action.snapshot_id)
                voters = storage.snapshot_voters(action.snapshot_id)
                self._listener.on_snapshot_loaded(action.snapshot_id)
                return lambda now_ms: core.handle_snapshot_loaded(now_ms, voters)
            case ReplyWithSnapshotBytes():
                response = action.response
                assert isinstance(response, FetchSnapshotResponse), "It answers FetchSnapshot."
                records = storage.snapshot_bytes(
                    response.snapshot_id, response.position, action.max_bytes
                )
                self._reply(action.token, Answer(response, records))
            case _:
                raise AssertionError(f"{action} is not performed anywhere.")
        return None

    def _log_changed(self, voter_sets: Sequence[tuple[int, VoterSet]]) -> Event:
        """Records were appended, with these voter sets among them."""
        core = self._core

        def event(now_ms: int) -> list[Action]:
            actions: list[Action] = []
            for offset, voters in voter_sets:
                actions += core.handle_voters(offset, voters, now_ms)
            return actions + core.handle_log_changed(now_ms)

        return event

    async def _in_thread(self, work: Callable[..., None], *arguments: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    def _flush(self) -> None:
        if self._flushing is not None and not self._flushing.done():
            # What is appended during an fsync is synced together by the next one.
            self._is_flush_due = True
            return
        task = self._storage.prepare_flush()
        if task is not None:
            self._flushing = self._tasks.start(self._run_flushes(task), "metadata log fsync")

    async def _flushes_ended(self) -> None:
        """Wait for the fsync in progress: what it syncs must not be truncated meanwhile."""
        self._is_flush_due = False
        if self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def _run_flushes(self, task: FlushTask | None) -> None:
        try:
            while task is not None:
                await self._in_thread(self._storage.run_flush, task)
                # At once, not as an event: a truncation may be waiting for this fsync.
                self._storage.complete_flush(task)
                self._post(self._core.handle_log_changed)
                task = self._storage.prepare_flush() if self._is_flush_due else None
                self._is_flush_due = False
        except OSError as error:
            self._fail(f"The metadata log could not be synced: {self._storage.log_dir.fail(error)}")
        except KafkaError as error:
            self._fail(f"The metadata log could not be synced: {error}")

    def _send(self, send: Send) -> None:
        try:
            self._tasks.start(self._exchange(send), f"{type(send.request).__name__}")
        except RuntimeError:
            # As many are in flight as may be; the core has a timeout of its own for each.
            request_id = send.request_id
            self._post(lambda now_ms: self._core.handle_failure(request_id, now_ms))

    async def _exchange(self, send: Send) -> None:
        request_id = send.request_id
        try:
            response = await self._transport.request(send.destination, send.request)
        except KafkaError as error:
            code = error.code
            self._post(lambda now_ms: self._core.handle_failure(request_id, now_ms, code))
        else:
            self._post(lambda now_ms: self._core.handle_response(request_id, response, now_ms))

    def _change_voters(self, action: AskVersions | ReplyToVoterChange) -> None:
        if isinstance(action, ReplyToVoterChange):
            changed = cast("asyncio.Future[VoterChangeResponse]", action.token)
            if not changed.done():
                changed.set_result(action.response)
            return
        try:
            self._tasks.start(self._versions_of(action), "ApiVersions of a new voter")
        except RuntimeError:
            self._go_on(action, action.request._replace(is_unreachable=True))

    async def _versions_of(self, action: AskVersions) -> None:
        try:
            versions = await self._transport.kraft_versions(action.destination)
        except KafkaError as error:
            _log.info(
                "The new voter %d does not report its versions: %s", action.request.voter_id, error
            )
            self._go_on(action, action.request._replace(is_unreachable=True))
        else:
            self._go_on(action, action.request._replace(kraft_version=versions))

    def _go_on(self, action: AskVersions, request: VoterChangeRequest) -> None:
        """Hand in a request again, with what was asked about it."""
        self._post(lambda now_ms: self._core.handle_voter_change(action.token, request, now_ms))

    def _reply(self, token: object, answer: Answer) -> None:
        future = cast("asyncio.Future[Answer]", token)
        if not future.done():
            future.set_result(answer)

    def _fail(self, message: str) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        _log.error("This node takes no further part in the quorum: %s", message)
        self._fail_waiting(ErrorCode.BROKER_NOT_AVAILABLE)
        self._listener.on_failure(message)
        self._stopped.set()

    def _fail_waiting(self, code: ErrorCode) -> None:
        waiting: list[asyncio.Future[Answer] | asyncio.Future[VoterChangeResponse]]
        waiting = [*self._waiting, *self._changes]
        for answer in waiting:
            if not answer.done():
                answer.set_exception(KafkaError(code, "This node has left the quorum."))

    def _on_task_failure(self, _task: asyncio.Task[object], failure: BaseException) -> None:
        _log.error("Internal error in the quorum", exc_info=failure)
        self._fail(f"internal error: {failure}")


def _not_available() -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "This node takes no part in the quorum.")
