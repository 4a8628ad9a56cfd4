"""The controller, which makes every change to the cluster's state, one at a time (KIP-500).

    request -> decision (pure, against the newest image) -> metadata log -> fsync -> image -> answer

One worker makes the decisions in order of arrival, each against the image that the previous ones
will result in; one fsync then flushes all decisions that gathered while the disk was busy. Only
when the records are on the disk is the image updated, then its listeners are called, and then the
requests are answered. So when a client learns of a topic, the topic's log already exists.

Rules:

- no request is answered before its change is committed, and no committed change is lost in a crash;
- a failed fsync ends the controller's leadership. It is not retried, because the state of the disk
  is then unknown. Waiting requests are answered NOT_CONTROLLER;
- the queue is bounded, and a request whose timeout has passed is not started (REQUEST_TIMED_OUT).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from ...clients.environment import Environment
from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.schema import Message
from ...clients.supervisor import Supervisor
from ...clients.task_owner import TaskOwner
from ...storage.config import LogConfig
from ..metadata.cluster_image import ClusterDelta, ClusterImage
from ..metadata.metadata_log import MetadataLog
from .broker_control import (
    PRODUCER_ID_BLOCK_SIZE,
    BrokerRegistration,
    allocate_producer_ids,
    bootstrap_records,
    controlled_shutdown,
    register_broker,
    unregister_broker,
)
from .controller_config import ControllerConfig, Decision, PartitionCharge, no_charge
from .pending_write import DecidedWrite, PendingWrite

if TYPE_CHECKING:
    from ...clients.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from ...clients.protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from ...clients.protocol.messages.create_topics import (
        CreateTopicsRequest,
        CreateTopicsResponse,
    )
    from ...clients.protocol.messages.delete_topics import (
        DeleteTopicsRequest,
        DeleteTopicsResponse,
    )
    from ...clients.protocol.messages.elect_leaders import (
        ElectLeadersRequest,
        ElectLeadersResponse,
    )
    from .alter_configs import AlterationResults, ConfigAlteration
    from .client_quotas import QuotaAlteration
    from .feature_control import FeatureUpdate

_log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")

ImageListener = Callable[[ClusterImage, ClusterDelta], None]

_WRITES_MAX = 10_000
_WRITES_PER_FLUSH = 500
_DEFAULT_TIMEOUT_MS = 30_000

PUBLICATION = "Publication of metadata"
"""The name under which the supervisor counts failures to apply an image."""


class ControllerState(Enum):
    """Whether the controller accepts writes."""

    STARTING = "replaying the log"
    ACTIVE = "deciding"
    FAILED = "the metadata log cannot be written"
    STOPPED = "stopped"


class ControllerEvent(Enum):
    """The events that change the state."""

    ELECTED = "elected"
    DISK_FAILED = "disk failed"
    STOP = "stop"


TRANSITIONS: Mapping[tuple[ControllerState, ControllerEvent], ControllerState] = MappingProxyType(
    {
        (ControllerState.STARTING, ControllerEvent.ELECTED): ControllerState.ACTIVE,
        (ControllerState.STARTING, ControllerEvent.DISK_FAILED): ControllerState.FAILED,
        (ControllerState.STARTING, ControllerEvent.STOP): ControllerState.STOPPED,
        (ControllerState.ACTIVE, ControllerEvent.DISK_FAILED): ControllerState.FAILED,
        (ControllerState.ACTIVE, ControllerEvent.STOP): ControllerState.STOPPED,
        (ControllerState.FAILED, ControllerEvent.DISK_FAILED): ControllerState.FAILED,
        (ControllerState.FAILED, ControllerEvent.STOP): ControllerState.STOPPED,
        (ControllerState.STOPPED, ControllerEvent.STOP): ControllerState.STOPPED,
        # The last change was still being written when the controller was stopped.
        (ControllerState.STOPPED, ControllerEvent.DISK_FAILED): ControllerState.STOPPED,
    }
)
"""A failed controller accepts no more writes; a restart replays what is on the disk."""


class Controller:
    """Decides on changes to the cluster, commits them, and publishes them."""

    def __init__(
        self,
        config: ControllerConfig,
        cluster_id: str,
        environment: Environment,
        metadata_log: MetadataLog,
        flush_executor: Executor,
        supervisor: Supervisor,
    ) -> None:
        self._config = config
        self._environment = environment
        self._metadata_log = metadata_log
        # fsyncs run here, so that the event loop doesn't wait for the disk.
        self._flush_executor = flush_executor
        self._supervisor = supervisor
        self._listeners: list[ImageListener] = []
        self.on_failure: Callable[[str], None] = _log.critical
        """Called with a message when the controller has failed and only a restart helps."""
        self._state = ControllerState.STARTING
        # None wakes the worker so that it stops.
        self._queue: asyncio.Queue[PendingWrite[object] | None] = asyncio.Queue(_WRITES_MAX)
        self._tasks = TaskOwner(1)
        self._worker: asyncio.Task[None] | None = None
        # Whether the image matches what is on the disk.
        self._is_in_step = False
        self.image = ClusterImage(cluster_id=cluster_id, controller_id=config.node_id)

    @property
    def config(self) -> ControllerConfig:
        return self._config

    @property
    def state(self) -> ControllerState:
        return self._state

    @property
    def metadata_log(self) -> MetadataLog:
        """The metadata log, for reading its offsets; only the controller writes to it."""
        return self._metadata_log

    def subscribe(self, listener: ImageListener) -> None:
        """Call `listener` now with the current image, and later with every new one."""
        self._listeners.append(listener)
        if self.image.offset >= 0:
            empty = ClusterImage(self.image.cluster_id, self.image.controller_id)
            listener(self.image, ClusterDelta.between(empty, self.image))

    def start(
        self,
        registration: BrokerRegistration,
        check: Callable[[ClusterImage], None] | None = None,
    ) -> None:
        """Replay the log, win the election, register this node's broker; then accept writes.

        If `check` raises for the replayed image, nothing is written. Blocks on the disk. Raises
        KafkaError when the log can't be read or written.
        """
        log = self._metadata_log
        image = self._replay()
        if check is not None:
            check(image)
        log.become_leader(self._environment.wall_clock_ms())
        if image.offset < 0:
            image = self._stage(image, bootstrap_records())
        defaults = self._config.log_config
        registered = register_broker(image, registration, log.end_offset, defaults)
        image = self._stage(image, registered.records)
        # One flush for all: nothing has been published or answered yet.
        log.flush()
        self._publish(image, ClusterDelta.between(self.image, image))
        self._apply(ControllerEvent.ELECTED)
        self._is_in_step = True
        self._worker = self._tasks.start(self._work(), "controller")

    async def stop(self) -> None:
        """Finish the current writes, answer the others NOT_CONTROLLER, and close the log.

        The last records are those of this broker's controlled shutdown; no listener gets them.
        """
        self._apply(ControllerEvent.STOP)
        self._fail_queued()
        if self._worker is not None:
            self._queue.put_nowait(None)
            await asyncio.wait([self._worker])
        await self._tasks.stop()
        if self._is_in_step:
            self._leave()
        self._metadata_log.close(self._environment.wall_clock_ms())

    def _leave(self) -> None:
        records = controlled_shutdown(self.image, self._config.node_id, self._config.log_config)
        try:
            if records:
                self._metadata_log.append(records, self._environment.wall_clock_ms())
        except KafkaError as error:
            _log.warning(
                "Could not record the controlled shutdown of the broker in the metadata log: %s",
                error,
            )

    def _apply(self, event: ControllerEvent) -> None:
        self._state = TRANSITIONS[self._state, event]

    def _replay(self) -> ClusterImage:
        delta = ClusterDelta(self.image)
        offset = epoch = -1
        for committed in self._metadata_log.replay():
            delta.replay_all(committed.records)
            offset, epoch = committed.last_offset, committed.epoch
        return delta.apply(offset, epoch)

    def _stage(self, image: ClusterImage, records: Sequence[Message]) -> ClusterImage:
        """Write records without a flush; return the image that they will result in."""
        delta = ClusterDelta(image)
        delta.replay_all(records)
        offset = self._metadata_log.append(records, self._environment.wall_clock_ms())
        return delta.apply(offset, self._metadata_log.epoch)

    def _publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self.image = image
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
        if self._state is not ControllerState.ACTIVE:
            raise _not_controller()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[AnswerT] = loop.create_future()
        write = PendingWrite(decide, answer, loop.time() + timeout_ms / 1000)
        try:
            self._queue.put_nowait(write)  # type: ignore[arg-type]  # the queue is of all answers
        except asyncio.QueueFull:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{_WRITES_MAX} changes are already queued in the controller.",
            ) from None
        return await answer

    async def _work(self) -> None:
        while self._state is ControllerState.ACTIVE:
            writes = [await self._queue.get()]
            while len(writes) < _WRITES_PER_FLUSH and not self._queue.empty():
                writes.append(self._queue.get_nowait())
            await self._commit([write for write in writes if write is not None])

    async def _commit(self, writes: list[PendingWrite[object]]) -> None:
        """Decide on the writes in turn, then commit and answer them together."""
        try:
            decided = self._decide(writes)
            await self._flush()
            for one in decided:
                if one.delta is not None:
                    self._publish(one.image, one.delta)
                one.write.respond()
        except BaseException as error:
            # The image may be behind the disk now, or ahead of it: decide nothing more.
            self._is_in_step = False
            self._apply(ControllerEvent.DISK_FAILED)
            for write in writes:
                write.fail(_not_controller())
            self._fail_queued()
            is_disk = isinstance(error, (OSError, KafkaError))
            sentence = f"The controller failed and makes no more changes: {error}"
            if not is_disk:
                _log.error("Internal error in the controller: it has stopped", exc_info=True)
            self.on_failure(sentence)
            if not is_disk:
                raise

    def _decide(self, writes: list[PendingWrite[object]]) -> list[DecidedWrite]:
        """Decide on the writes and stage their records. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        decided: list[DecidedWrite] = []
        image = self.image
        now = asyncio.get_running_loop().time()
        for write in writes:
            if write.is_given_up:
                continue
            try:
                if now > write.deadline:
                    raise KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        "The change timed out in the queue of the controller.",
                    )
                records = write.decide(image).records
                delta = ClusterDelta(image)
                delta.replay_all(records)
            except Exception as error:
                # Nothing was written: only this write fails. Its caller reports unexpected errors.
                write.fail(error)
                continue
            if not records:
                decided.append(DecidedWrite(write, image, None))
                continue
            offset = self._metadata_log.append(records, self._environment.wall_clock_ms())
            image = delta.apply(offset, self._metadata_log.epoch)
            decided.append(DecidedWrite(write, image, delta))
        return decided

    async def _flush(self) -> None:
        task = self._metadata_log.prepare_flush()
        if task is not None:
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self._flush_executor, self._metadata_log.run_flush, task)
            except OSError as error:
                raise self._metadata_log.fail_flush(error) from error
            self._metadata_log.complete_flush(task)

    def _fail_queued(self) -> None:
        while not self._queue.empty():
            write = self._queue.get_nowait()
            if write is not None:
                write.fail(_not_controller())

    async def create_topics(
        self, request: "CreateTopicsRequest", charge: PartitionCharge = no_charge
    ) -> "CreateTopicsResponse":
        """Create topics; each topic has its own result."""
        from .topic_control import TopicControl, create_topics, refused_creation

        environment = self._environment
        control = TopicControl(self._config, environment.random_uuid, environment.random, charge)
        try:
            return await self._write(
                lambda image: create_topics(control, image, request), request.timeout_ms
            )
        except KafkaError as error:
            return refused_creation(request, error)

    async def delete_topics(
        self, request: "DeleteTopicsRequest", charge: PartitionCharge = no_charge
    ) -> "DeleteTopicsResponse":
        """Delete topics; each topic has its own result."""
        from .topic_control import delete_topics, refused_deletion

        try:
            return await self._write(
                lambda image: delete_topics(self._config, image, request, charge),
                request.timeout_ms,
            )
        except KafkaError as error:
            return refused_deletion(request, error)

    async def create_partitions(
        self, request: "CreatePartitionsRequest", charge: PartitionCharge = no_charge
    ) -> "CreatePartitionsResponse":
        """Add partitions to topics; each topic has its own result."""
        from .topic_control import create_partitions, refused_partitions

        random = self._environment.random
        try:
            return await self._write(
                lambda image: create_partitions(self._config, image, request, random, charge),
                request.timeout_ms,
            )
        except KafkaError as error:
            return refused_partitions(request, error)

    async def alter_configs(
        self, alterations: "Sequence[ConfigAlteration]", validate_only: bool
    ) -> "AlterationResults":
        """Change configurations; return an error or None for each alteration, in order."""
        from .alter_configs import alter_configs

        try:
            return await self._write(
                lambda image: alter_configs(self._config, image, alterations, validate_only)
            )
        except KafkaError as error:
            return [error for _ in alterations]

    async def alter_client_quotas(
        self, alterations: "Sequence[QuotaAlteration]", validate_only: bool
    ) -> "Sequence[KafkaError | None]":
        """Set and remove quotas; return an error or None for each alteration, in order."""
        from .client_quotas import alter_client_quotas

        try:
            return await self._write(
                lambda image: alter_client_quotas(image, alterations, validate_only)
            )
        except KafkaError as error:
            return [error for _ in alterations]

    async def update_features(
        self,
        supported: Mapping[str, tuple[int, int]],
        updates: "Sequence[FeatureUpdate]",
        validate_only: bool,
    ) -> None:
        """Finalise new feature levels, all or none.

        Raises KafkaError: INVALID_UPDATE_VERSION, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        from .feature_control import update_features

        await self._write(lambda image: update_features(image, supported, updates, validate_only))

    def use_topic_defaults(self, log_config: LogConfig) -> None:
        """Set the defaults used to check topic configurations."""
        self._config = replace(self._config, log_config=log_config)

    async def elect_leaders(self, request: "ElectLeadersRequest") -> "ElectLeadersResponse":
        """Hold elections; each partition has its own result."""
        from .leader_election import elect_leaders, refused_election

        try:
            return await self._write(
                lambda image: elect_leaders(image, request, self._config.log_config),
                request.timeout_ms,
            )
        except KafkaError as error:
            return refused_election(request, error)

    async def alter_partition_reassignments(
        self, request: "AlterPartitionReassignmentsRequest"
    ) -> "AlterPartitionReassignmentsResponse":
        """Begin or cancel reassignments; each partition has its own result."""
        from .reassignment import alter_reassignments, refused_reassignments

        try:
            return await self._write(
                lambda image: alter_reassignments(image, request, self._config.log_config),
                request.timeout_ms,
            )
        except KafkaError as error:
            return refused_reassignments(error)

    async def decide(self, decide: Callable[[ClusterImage], Decision[AnswerT]]) -> AnswerT:
        """Queue a decision and wait for its answer.

        Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or as `decide` does.
        """
        return await self._write(decide)

    async def unregister_broker(self, broker_id: int) -> None:
        """Unregister a broker.

        Raises KafkaError: BROKER_ID_NOT_REGISTERED, INVALID_REQUEST, NOT_CONTROLLER,
        REQUEST_TIMED_OUT.
        """
        own_id, defaults = self._config.node_id, self._config.log_config
        await self._write(lambda image: unregister_broker(image, own_id, broker_id, defaults))

    async def alter_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set overrides of a topic, or remove them with None.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, NOT_CONTROLLER,
        REQUEST_TIMED_OUT.
        """
        from .config_control import alter_topic_config

        await self._write(
            lambda image: Decision(alter_topic_config(self._config, image, topic, changes), None)
        )

    async def allocate_producer_ids(
        self, count: int = PRODUCER_ID_BLOCK_SIZE, used: Sequence[int] = ()
    ) -> int:
        """The first of a block of `count` unique producer ids.

        `used` are ids in use that are missing from the metadata log. Raises KafkaError:
        BROKER_ID_NOT_REGISTERED, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        return await self._write(
            lambda image: allocate_producer_ids(image, self._config.node_id, count, used)
        )


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This node is no longer the controller.")


def listener_name(listener: Callable[..., object]) -> str:
    """The name of a listener in the log."""
    if isinstance(listener, partial):
        listener = listener.func
    return getattr(listener, "__qualname__", type(listener).__name__)
