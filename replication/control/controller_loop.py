"""The controller's loop: decisions one at a time, their commit, the images that they result in.

    request -> decision (pure, on the newest image) -> metadata log -> commit -> image -> answer

One worker makes the decisions in order of arrival, each on the image that the previous ones will
result in; one fsync then flushes all decisions that gathered while the disk was busy. Only when the
quorum reports that the records are committed is the image updated, then its listeners are called,
and then the requests are answered. So when a client learns of a topic, the topic's log already
exists. Images and states are kept by `controller_state.py`, the log by a `MetadataQuorum`.

A process that is the whole cluster calls `start`, and leads when it returns. One of several calls
`join` with its `QuorumMember`: it is a standby until it is elected, and again when another is.

Rules:

- no request is answered before its change is committed, and no committed change is lost in a crash;
- a controller that loses the lead answers all waiting requests NOT_CONTROLLER, goes back to the
  last committed image, and replays what is committed as a standby;
- an append that fails on a working disk costs the lead: what was decided on top of it is void;
- a failed fsync ends the controller. It is not retried, because the state of the disk is then
  unknown;
- a standby publishes nothing before it has replayed the log as far as it is committed;
- the queue is bounded, and a request whose timeout has passed is not started (REQUEST_TIMED_OUT);
  so are the changes that wait for their commit, after which the queue waits.

A sole voter writes no NoOpRecord every metadata.max.idle.interval.ms as Kafka does: it measures how
far observers are behind, one voter has none, and each would cost an fsync and grow the log.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.schema import Message
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...clients.runtime.task_owner import TaskOwner
from ...clients.runtime.turns import in_turns
from ..metadata.cluster_image import ClusterDelta, ClusterImage
from ..metadata.metadata_log import MetadataLog
from ..metadata.metadata_quorum import MetadataQuorum, SoleVoter
from .brokers.broker_control import (
    BrokerRegistration,
    controlled_shutdown,
    register_broker,
)
from .controller_config import (
    RECORDS_PER_OPERATION_MAX,
    ControllerConfig,
    Decision,
)
from .controller_state import (
    SLOW_EVENT_MS,
    ControllerCore,
    ControllerState,
    Replayed,
    not_controller,
    refuse_late,
)
from .pending_write import PendingWrite
from .standby_replay import StandbyReplay

if TYPE_CHECKING:
    from ..metadata.quorum_member import QuorumMember

_log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")

ImageListener = Callable[[ClusterImage, ClusterDelta], None]

WRITES_MAX = 10_000
_WRITES_PER_FLUSH = 500
_PENDING_MAX = 10_000
_RECORDS_PER_TURN = 256
"""After so many records the event loop serves others, before more are decided on or published."""
_DECISION_WORK = 4
"""A decision takes as much time as so many records, besides those that it has."""
_DEFAULT_TIMEOUT_MS = 30_000
_QUORUM_STOP_SECONDS = 5.0
"""How long a member waits at its stop until the others have heard (`KafkaRaftManager.shutdown`)."""

PUBLICATION = "Publication of metadata"
"""The name under which the supervisor counts failures to apply an image."""


class ControllerTools(NamedTuple):
    """What the process gives its controller."""

    flush_executor: Executor
    """It syncs the metadata log, in a process that is the whole cluster."""
    supervisor: Supervisor
    on_failure: Callable[[str], None]
    """Called with a message when the controller has failed and only a restart helps."""


class ControllerLoop:
    """Makes decisions on the cluster's state, commits them, and publishes what they result in."""

    def __init__(
        self,
        config: ControllerConfig,
        cluster_id: str,
        environment: Environment,
        metadata_log: MetadataLog,
        tools: ControllerTools,
        member: "QuorumMember | None" = None,
    ) -> None:
        """`member` is None in a process that is the whole cluster."""
        self._config = config
        self._environment = environment
        self._metadata_log = metadata_log
        self._member = member
        self._sole_voter = SoleVoter(
            metadata_log, config.node_id, environment, tools.flush_executor
        )
        self._quorum: MetadataQuorum = self._sole_voter if member is None else member
        self._supervisor = tools.supervisor
        self._listeners: list[ImageListener] = []
        self._role_callbacks: list[Callable[[], None]] = []
        self._on_failure = tools.on_failure
        # None wakes the worker so that it stops.
        self._queue: asyncio.Queue[PendingWrite[object] | None] = asyncio.Queue(WRITES_MAX)
        self._tasks = TaskOwner(1)
        self._worker: asyncio.Task[None] | None = None
        self._empty = ClusterImage(cluster_id)
        self._core: ControllerCore[PendingWrite[object]] = ControllerCore(self._empty)
        self._replay = StandbyReplay(self._core, metadata_log, self._publish_replayed)
        # Set when changes may have been committed or given up.
        self._has_moved = asyncio.Event()
        # Whether the log ends with what the core knows.
        self._is_in_step = False
        # What listeners have; while the changes of one flush are published, the core is ahead.
        self.image = self._empty
        # All of the image as a change, for those who subscribe at a start.
        self._whole: ClusterDelta | None = None

    @property
    def config(self) -> ControllerConfig:
        return self._config

    @property
    def state(self) -> ControllerState:
        return self._core.state

    @property
    def is_active(self) -> bool:
        """Whether this controller decides."""
        return self._core.is_active

    @property
    def leader_id(self) -> int:
        """The node id of the active controller; -1 if unknown."""
        return self._quorum.leader_id

    @property
    def metadata_log(self) -> MetadataLog:
        """The metadata log, for reading its offsets; only the controller writes to it."""
        return self._metadata_log

    def subscribe(self, listener: ImageListener) -> None:
        """Call `listener` now with the current image, and later with every new one."""
        self._listeners.append(listener)
        if self.image.offset >= 0:
            if self._whole is None:
                self._whole = ClusterDelta.between(self._empty, self.image)
            listener(self.image, self._whole)

    def on_role_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever this controller has become active, or is active no longer.

        Not when it is stopped. It must not block; what it decides is decided after the call.
        """
        self._role_callbacks.append(callback)

    def start(
        self,
        registration: BrokerRegistration,
        check: Callable[[ClusterImage], None] | None = None,
    ) -> None:
        """Replay the log, win the election, register this node's broker; then accept writes.

        If `check` raises for the replayed image, nothing is written. Blocks on the disk. Raises
        KafkaError when the log can't be read or written.
        """
        core = self._core
        core.replay(self._metadata_log.replay())
        if check is not None:
            check(core.committed)
        self._sole_voter.start(self)
        end, defaults = self._metadata_log.end_offset, self._config.log_config
        registered = register_broker(core.newest, registration, end, defaults)
        # Several batches for many partitions: a start that a crash cuts short is made again.
        for first in range(0, len(registered.records), RECORDS_PER_OPERATION_MAX):
            records = registered.records[first : first + RECORDS_PER_OPERATION_MAX]
            self._append(core.change(records), records)
        # One flush for all: nothing has been published or answered yet.
        self._sole_voter.flush_now()
        self._worker = self._tasks.start(self._work(), "controller")

    async def join(self, check: Callable[[ClusterImage], None] | None = None) -> None:
        """Replay the newest local snapshot and take part in the quorum, as a standby first.

        If `check` raises for the replayed image, nothing is written. `on_failure` is called if the
        quorum cannot begin. Raises KafkaError when the snapshot can't be read.
        """
        member = self._member
        assert member is not None, "a sole voter starts"
        await in_turns(self._core.replay_steps(self._metadata_log.replay_snapshot()))
        if check is not None:
            check(self._core.committed)
        self._worker = self._tasks.start(self._work(), "controller")
        await member.start(self)

    async def stop(self) -> None:
        """Finish the current writes, answer the others NOT_CONTROLLER, and close the log.

        The last records of a sole voter are those of its broker's controlled shutdown; no listener
        gets them. A member answers all writes that are not committed NOT_CONTROLLER, and resigns.
        """
        leads = self._core.is_active
        self._core.stop()
        self._refuse_all(())
        if self._worker is not None:
            self._queue.put_nowait(None)
            await asyncio.wait([self._worker])
        await self._tasks.stop()
        _refuse(self._core.abandon())
        if self._member is not None:
            await self._member.stop(_QUORUM_STOP_SECONDS)
        elif leads and self._is_in_step:
            self._leave()
        self._metadata_log.close(self._environment.wall_clock_ms())

    def _leave(self) -> None:
        records = controlled_shutdown(self.image, self._config.node_id, self._config.log_config)
        try:
            if records:
                self._quorum.append(records, self._core.epoch)
        except KafkaError as error:
            _log.warning(
                "Could not record the controlled shutdown of the broker in the metadata log: %s",
                error,
            )

    def on_elected(self, epoch: int) -> None:
        """See `QuorumListener`: go before all that is queued."""
        changes = self._core.claim(
            epoch,
            self._metadata_log.is_in_transaction,
            self._config.bootstrap,
            self._config.static_min_isr,
        )
        if not self._core.is_active:
            return
        if self._member is not None:
            _log.info(
                "Becoming the active controller at epoch %d, next write offset %d.",
                epoch,
                self._metadata_log.end_offset,
            )
        for records in changes:
            self._append(self._core.change(records), records)
        self._is_in_step = True
        self._notify_role_change()

    def on_deposed(self) -> None:
        """See `QuorumListener`: refuse all that waits, and go on as a standby."""
        self._is_in_step = False
        was_active = self._core.is_active
        self._refuse_all(self._core.renounce())
        if was_active and self._member is not None:
            _log.warning(
                "Renouncing the leadership at epoch %d. Reverting to last committed offset %d.",
                self._core.epoch,
                self._core.committed.offset,
            )
        reader = self._metadata_log.reader
        if self._core.committed.offset >= reader.offset:
            # The active controller has not read what it wrote itself.
            reader.skip_to(self._core.committed.offset + 1)
        if was_active:
            self._notify_role_change()

    def on_high_watermark(self, offset: int) -> bool:
        """See `QuorumListener`: publish what is committed, and answer who waits for it."""
        reader = self._metadata_log.reader
        if self._core.state is ControllerState.STANDBY:
            return self._replay.go_on(offset)
        done = self._core.commit(offset, _RECORDS_PER_TURN)
        is_all = not self._core.has_committed(offset)
        if self._member is not None and self._core.is_active:
            # No further than this: a standby reads the rest.
            reader.pass_over(offset if is_all else done[-1].image.offset + 1)
        if done and self._metadata_log.is_in_transaction:
            # A leader that finds an open transaction begins with its abort.
            reader.skip_to(done[0].image.offset + 1)
        for change in done:
            self._publish(change.image, change.delta)
            for write in change.waiting:
                write.respond()
        self._has_moved.set()
        return is_all

    def on_snapshot_loaded(self) -> None:
        """See `QuorumListener`: publish how the snapshot differs from what was published."""
        assert not self._core.is_active, "a leader never loads a snapshot"
        if self._core.state is ControllerState.STANDBY:
            self._replay.begin_with_snapshot()

    def on_quorum_failure(self, message: str) -> None:
        """See `QuorumListener`: decide and replay nothing more."""
        if self._core.state in (ControllerState.STANDBY, ControllerState.ACTIVE):
            self._fail(f"The controller failed and makes no more changes: {message}")

    def _publish_replayed(self, replayed: Replayed) -> None:
        image, delta = replayed
        if delta.base is not self.image:
            delta = ClusterDelta.between(self.image, image)
        self._publish(image, delta)

    def _notify_role_change(self) -> None:
        for callback in self._role_callbacks:
            callback()

    def _append(
        self, delta: ClusterDelta, records: Sequence[Message], *waiting: PendingWrite[object]
    ) -> None:
        """Append a change without a flush. Raises KafkaError."""
        offset = self._quorum.append(records, self._core.epoch)
        self._core.appended(delta, offset, *waiting)

    def _publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self.image, self._whole = image, None
        for listener in self._listeners:
            # A listener that fails must not end the controller.
            with self._supervisor.attempt(PUBLICATION, listener_name(listener)):
                listener(image, delta)

    async def _write(
        self,
        decide: Callable[[ClusterImage], Decision[AnswerT]],
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
    ) -> AnswerT:
        """Queue a write and wait for its answer.

        Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or as `decide` does.
        """
        return await self._queue_write(decide, timeout_ms)

    def _queue_write(
        self,
        decide: Callable[[ClusterImage], Decision[AnswerT]],
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
    ) -> "asyncio.Future[AnswerT]":
        if not self._core.is_active:
            raise not_controller()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[AnswerT] = loop.create_future()
        write = PendingWrite(decide, answer, loop.time() + timeout_ms / 1000)
        try:
            self._queue.put_nowait(write)  # type: ignore[arg-type]  # the queue is of all answers
        except asyncio.QueueFull:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{WRITES_MAX} changes are already queued in the controller.",
            ) from None
        return answer

    async def _work(self) -> None:
        while self._core.state in (ControllerState.ACTIVE, ControllerState.STANDBY):
            writes = [await self._queue.get()]
            while len(writes) < _WRITES_PER_FLUSH and not self._queue.empty():
                writes.append(self._queue.get_nowait())
            while self._core.is_active and self._core.pending_count >= _PENDING_MAX:
                self._has_moved.clear()
                await self._has_moved.wait()
            await self._commit([write for write in writes if write is not None])

    async def _commit(self, writes: list[PendingWrite[object]]) -> None:
        """Decide on the writes in order, and sync their changes together.

        What is too much for one turn of the event loop is decided on in several; whatever else
        happens to the controller in between, happens between two writes.
        """
        try:
            try:
                decided = self._decide(writes)
                while decided < len(writes):
                    await asyncio.sleep(0)
                    decided += self._decide(writes[decided:])
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                _log.warning("The controller gives up its lead, for an append failed: %s", error)
                _refuse(writes)
                await self._quorum.resign()
            await self._quorum.flush()
        except BaseException as error:
            # The image may be behind the disk now, or ahead of it: decide nothing more.
            is_disk = isinstance(error, (OSError, KafkaError))
            if not is_disk:
                _log.error("Internal error in the controller: it has stopped", exc_info=True)
            _refuse(writes)
            self._fail(f"The controller failed and makes no more changes: {error}")
            if not is_disk:
                raise

    def _fail(self, message: str) -> None:
        """Decide nothing more, and say why."""
        self._is_in_step = False
        was_active = self._core.is_active
        self._refuse_all(self._core.fail())
        if self._member is not None:
            self._member.give_up()
        if was_active:
            self._notify_role_change()
        self._on_failure(message)

    def _decide(self, writes: list[PendingWrite[object]]) -> int:
        """Decide on writes and append their records; returns on how many, which fit into a turn.

        Raises KafkaError if an append fails.
        """
        core = self._core
        loop = asyncio.get_running_loop()
        began = loop.time()
        decided = work = 0
        for write in writes:
            if work >= _RECORDS_PER_TURN:
                break
            decided += 1
            if write.is_given_up:
                continue
            work += _DECISION_WORK
            try:
                if not core.is_active:
                    raise not_controller()
                refuse_late(write.deadline, began)
                records = write.decide(core.newest).records
                delta = core.change(records)
            except Exception as error:
                # Nothing was written: only this write fails. Its caller reports unexpected errors.
                write.fail(error)
                continue
            work += len(records)
            if records:
                self._append_or_refuse(delta, records, write)
            elif not core.wait(write):
                write.respond()
        took_ms = (loop.time() - began) * 1_000
        if took_ms > SLOW_EVENT_MS:
            _log.warning("Slow decisions: %d changes took the controller %d ms", decided, took_ms)
        return decided

    def _append_or_refuse(
        self, delta: ClusterDelta, records: Sequence[Message], write: PendingWrite[object]
    ) -> None:
        """Append a change, or refuse it if it is too large. Raises KafkaError if that fails."""
        try:
            self._append(delta, records, write)
        except KafkaError as error:
            if error.code is not ErrorCode.RECORD_LIST_TOO_LARGE:
                raise
            # Nothing was written: only this write fails.
            write.fail(error)

    def _refuse_all(self, waiting: Sequence[PendingWrite[object]]) -> None:
        """Refuse who waits for a commit, and all that is queued."""
        _refuse(waiting)
        self._fail_queued()
        self._has_moved.set()

    def _fail_queued(self) -> None:
        is_stopping = False
        while not self._queue.empty():
            write = self._queue.get_nowait()
            if write is None:
                is_stopping = True
            else:
                write.fail(not_controller())
        if is_stopping:
            self._queue.put_nowait(None)

    async def decide(self, decide: Callable[[ClusterImage], Decision[AnswerT]]) -> AnswerT:
        """Queue a decision and wait for its answer.

        Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or as `decide` does.
        """
        return await self._write(decide)

    async def decide_each(
        self, decisions: Sequence[Callable[[ClusterImage], Decision[AnswerT]]]
    ) -> list[AnswerT]:
        """Queue decisions that may take several turns, one behind the other; wait for all answers.

        Raises KafkaError as `decide`, for the first of them that fails; others may be committed.
        """
        answers: list[asyncio.Future[AnswerT]] = []
        try:
            for decide in decisions:
                answers.append(self._queue_write(decide))  # noqa: PERF401 -- the next may fail
            results = await asyncio.gather(*answers, return_exceptions=True)
        finally:
            # Give up those that are queued, if there is no room for all or the caller is cancelled.
            for answer in answers:
                answer.cancel()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [answer.result() for answer in answers]


def _refuse(writes: Sequence[PendingWrite[object]]) -> None:
    for write in writes:
        write.fail(not_controller())


def listener_name(listener: Callable[..., object]) -> str:
    """The name of a listener in the log."""
    if isinstance(listener, partial):
        listener = listener.func
    return getattr(listener, "__qualname__", type(listener).__name__)
