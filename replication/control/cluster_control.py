"""What the active controller does for the brokers of its cluster (KIP-631).

    request -> decision on the newest image -> `Controller.decide` -> committed -> answer

Brokers register, send heartbeats and are fenced when they are silent; all of it becomes records.
Only two things are soft state: when a broker was heard last (`sessions.py`) and how far it has read
the log (`broker_offsets.py`). A new active controller starts with none of it.

A heartbeat counts as a sign of life when it arrives, even if the controller is too busy to decide
on it in time (KAFKA-15019). See `QuorumController` and `ClusterControlManager` of Apache Kafka.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...clients.kafka_uuid import Uuid
from ...clients.runtime.environment import Environment
from ...clients.runtime.supervisor import Supervisor
from ...storage.config import LogConfig
from ..metadata.cluster_image import ClusterDelta, ClusterImage
from ..metadata.metadata_records import NoOpRecord
from .brokers.broker_control import PRODUCER_ID_BLOCK_SIZE, allocate_producer_ids
from .brokers.broker_offsets import BrokerOffsets
from .brokers.broker_states import Heartbeat, HeartbeatAnswer
from .brokers.broker_transitions import fence_records, first_part, removal_records, restart_records
from .brokers.death_hint import DeathHint, EndedSince, HeartbeatConnection
from .brokers.heartbeat_decision import HeartbeatDecision, offline_directories, registered_broker
from .brokers.registration import (
    BrokerRegistrationData,
    ControllerRegistrationData,
    decide_broker_registration,
    decide_controller_registration,
    decide_unregistration,
)
from .brokers.sessions import BrokerIdAndEpoch, BrokerSessions, SessionConfig, is_stale
from .cluster_control_config import ClusterControlConfig
from .controller import Controller
from .controller_config import RECORDS_PER_PART, Decision
from .controller_duties import ControllerDuties, Duty, loop_ms
from .controller_state import not_controller, refuse_late
from .leadership.leader_and_isr import elect_missing, elect_preferred

if TYPE_CHECKING:
    from ...clients.protocol.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionResponse,
    )
    from ...clients.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )
    from ...clients.protocol.schema import Message

_log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")

ELECTIONS_PER_CHANGE_MAX = 256
"""The most elections that the controller holds at once without a request."""

_ELECTION_INTERVAL_MS = 5 * 60_000
_FAREWELL_LOOK_S = 0.02


class ClusterControl:
    """Registrations, sessions, and the duties of the active controller."""

    def __init__(
        self,
        controller: Controller,
        config: ClusterControlConfig,
        environment: Environment,
        supervisor: Supervisor,
        ended_since: EndedSince = lambda _: None,
    ) -> None:
        """`ended_since`: the other controllers whose process has ended."""
        self._controller = controller
        self._environment = environment
        timing = SessionConfig(
            config.session_timeout_ms, config.session_after_reset_ms, config.clean_restart
        )
        # A decision on a heartbeat that waited longer would come after the next heartbeat.
        self._heartbeat_limit_s = timing.look_interval_ms / 1_000
        self._sessions = BrokerSessions(timing, 0)
        self._offsets = BrokerOffsets()
        # Heartbeats of brokers that stop, which are being answered.
        self._farewells = 0
        # The end of the log at the last look for whether it grows.
        self._end_offset = -1
        self._look = Duty("look for silent brokers", timing.look_interval_ms, self._fence_silent)
        self._elect = Duty("elect missing leaders", _ELECTION_INTERVAL_MS, self._elect_missing)
        duties = [self._look, self._elect]
        self._death_hint: DeathHint | None = None
        if config.session_after_reset_ms is not None:
            self._death_hint = DeathHint(
                self._sessions,
                lambda broker: controller.is_active and is_stale(controller.image, broker),
                ended_since,
                self._plan_look,
                lambda duty, due_ms: self._duties.hasten(duty, due_ms),
            )
            duties.append(self._death_hint.duty)
        if config.max_idle_interval_ms > 0:
            duties.append(
                Duty("append a no-op record", config.max_idle_interval_ms, self._append_no_op)
            )
        if config.auto_leader_rebalance:
            interval_ms = config.leader_imbalance_check_interval_s * 1_000
            duties.append(Duty("elect preferred leaders", interval_ms, self._elect_preferred))
        self._duties = ControllerDuties(duties, lambda: controller.is_active, supervisor)

    def start(self) -> None:
        """Begin to follow the controller's role and images. Call it once, in the event loop."""
        self._controller.subscribe(self._offsets_listener)
        self._controller.on_role_change(self._on_role_change)
        self._begin()
        self._duties.start()
        self._expect_all()

    async def stop(self) -> None:
        """End the duties. Requests are still decided as long as the controller does."""
        await self._duties.stop()

    async def register_broker(self, data: BrokerRegistrationData) -> int:
        """Register a broker and return its epoch.

        Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or as `decide_broker_registration`.
        """

        def decide(image: ClusterImage) -> Decision[int | None]:
            registered = image.brokers.get(data.broker_id)
            has_session = registered is not None and self._sessions.has_valid_session(
                BrokerIdAndEpoch(registered.broker_id, registered.epoch), _now_ms()
            )
            decision = decide_broker_registration(
                image,
                data,
                self._next_offset(),
                has_session,
                lambda broker_id, was_clean: restart_records(
                    image, broker_id, was_clean, self._defaults
                ),
            )
            part, is_done = first_part(decision.records)
            last_offset[0] = self._next_offset() + len(part) - 1
            return Decision(part, decision.answer if is_done else None)

        last_offset = [-1]
        epoch = await self._decide_in_parts(decide)
        self._offsets.on_registered(BrokerIdAndEpoch(data.broker_id, epoch), last_offset[0])
        return epoch

    async def heartbeat(
        self,
        broker_id: int,
        broker_epoch: int,
        heartbeat: Heartbeat,
        offline: Sequence[Uuid] = (),
        cordoned: Sequence[Uuid] | None = None,
        connection: HeartbeatConnection | None = None,
    ) -> HeartbeatAnswer:
        """Note that a broker is alive, and decide what it may do.

        `offline` are its failed directories, `cordoned` those that get no new replicas, None for
        no change. The loss of `connection` is a hint that the broker has died.
        Raises KafkaError: STALE_BROKER_EPOCH, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        self._check_active()
        broker = BrokerIdAndEpoch(broker_id, broker_epoch)
        registered = self._controller.image.brokers.get(broker_id)
        if registered is not None and registered.epoch == broker_epoch:
            self._sessions.touch(broker, _now_ms())
            if self._death_hint is not None:
                self._death_hint.heard(broker, connection)
        if offline:
            await self._decide_on_time(offline_directories(broker, offline, self._defaults))
        decision = HeartbeatDecision(
            broker, heartbeat, self._offsets, self._next_offset, self._defaults, cordoned
        )
        self._farewells += heartbeat.wants_shutdown
        try:
            answer = await self._decide_on_time(decision.steps())
        finally:
            self._farewells -= heartbeat.wants_shutdown
        if answer.should_shut_down:
            self._sessions.on_shutdown_answered(broker)
        return answer

    async def until_others_left(self, timeout_s: float) -> None:
        """Wait until no broker is about to stop, or for the timeout: they may need this controller.

        Without it, brokers that stop at the same time would have to find another one first, and
        the last of them has none.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self._controller.is_active and asyncio.get_running_loop().time() < deadline:
            if not self._farewells and not any(
                broker.in_controlled_shutdown and not broker.fenced
                for broker in self._controller.image.brokers.values()
            ):
                return
            await asyncio.sleep(_FAREWELL_LOOK_S)

    async def register_controller(self, data: ControllerRegistrationData) -> None:
        """Register a controller (KIP-919). Raises KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT."""
        await self._controller.decide(lambda _: decide_controller_registration(data))

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker, live or fenced.

        Raises KafkaError: BROKER_ID_NOT_REGISTERED, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """

        def decide(image: ClusterImage) -> Decision[bool | None]:
            decision = decide_unregistration(
                image, broker_id, lambda each: removal_records(image, each, self._defaults)
            )
            part, is_done = first_part(decision.records)
            return Decision(part, True if is_done else None)

        await self._decide_in_parts(decide)
        self._sessions.remove(broker_id)

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> tuple[int, int]:
        """Allocate a block of producer ids; return the first, and how many.

        Raises KafkaError: STALE_BROKER_EPOCH, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """

        def decide(image: ClusterImage) -> Decision[int]:
            registered_broker(image, BrokerIdAndEpoch(broker_id, broker_epoch))
            return allocate_producer_ids(image, broker_id)

        return await self._controller.decide(decide), PRODUCER_ID_BLOCK_SIZE

    async def alter_partition(self, request: "AlterPartitionRequest") -> "AlterPartitionResponse":
        """Change ISRs as their leaders ask; each partition has its own result.

        Raises KafkaError: STALE_BROKER_EPOCH, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        from .leadership import isr_requests

        def decide(
            part: "AlterPartitionRequest", image: ClusterImage
        ) -> "Decision[AlterPartitionResponse]":
            return isr_requests.decide_alter_partition(image, part, self._defaults)

        parts = isr_requests.parts_of(request, RECORDS_PER_PART)
        answers = await self._controller.decide_each([partial(decide, part) for part in parts])
        return isr_requests.joined(answers)

    async def assign_replicas(
        self, request: "AssignReplicasToDirsRequest"
    ) -> "AssignReplicasToDirsResponse":
        """Record the directories of a broker's replicas; each replica has its own result.

        Raises KafkaError: STALE_BROKER_EPOCH, NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        from .brokers import directory_requests

        def decide(
            part: "AssignReplicasToDirsRequest", image: ClusterImage
        ) -> "Decision[AssignReplicasToDirsResponse]":
            return directory_requests.decide_assignments(image, part, self._defaults)

        parts = directory_requests.parts_of(request, RECORDS_PER_PART)
        answers = await self._controller.decide_each([partial(decide, part) for part in parts])
        return directory_requests.joined(answers)

    @property
    def _defaults(self) -> LogConfig:
        return self._controller.config.log_config

    def _next_offset(self) -> int:
        """The offset of the next record: decisions are appended one by one, as they are made."""
        return self._controller.metadata_log.end_offset

    def _check_active(self) -> None:
        if not self._controller.is_active:
            raise not_controller()

    def _offsets_listener(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self._offsets.on_image(image, delta)

    def _on_role_change(self) -> None:
        self._begin()
        self._duties.on_role_change()
        # The last controller may have ended between two parts of a broker's return.
        self._duties.hasten(self._elect, loop_ms())
        self._expect_all()

    def _begin(self) -> None:
        """Give all brokers new sessions: their heartbeats went to another controller before."""
        self._sessions.take_over(self._controller.image.brokers.values(), _now_ms())
        self._offsets.on_takeover()
        self._end_offset = -1

    def _expect_all(self) -> None:
        if self._death_hint is not None and self._controller.is_active:
            self._death_hint.take_over(self._controller.image.brokers.values())

    def _plan_look(self) -> None:
        self._duties.hasten(self._look, self._sessions.next_look_ms)

    async def _decide_in_parts(
        self, decide: Callable[[ClusterImage], Decision[AnswerT | None]]
    ) -> AnswerT:
        """Decide again, each time on the newest image, until there is an answer."""
        while True:
            answer = await self._controller.decide(decide)
            if answer is not None:
                return answer

    async def _decide_on_time(
        self, decide: Callable[[ClusterImage], Decision[AnswerT | None]]
    ) -> AnswerT:
        """As `_decide_in_parts`, but a decision that waited too long changes nothing.

        Raises KafkaError(REQUEST_TIMED_OUT).
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._heartbeat_limit_s
        has_begun = False

        def decide_on_time(image: ClusterImage) -> Decision[AnswerT | None]:
            nonlocal has_begun
            if not has_begun:
                refuse_late(deadline, loop.time())
            has_begun = True
            return decide(image)

        return await self._decide_in_parts(decide_on_time)

    async def _fence_silent(self) -> bool:
        """Fence the broker that has been silent longest, if its session has expired."""
        now_ms = _now_ms()
        self._sessions.adopt(self._controller.image.brokers.values(), now_ms)
        broker = self._sessions.look(now_ms)
        self._plan_look()
        if broker is None:
            return False
        has_begun = False

        def decide(image: ClusterImage) -> Decision[bool | None]:
            nonlocal has_begun
            is_heard = not has_begun and self._sessions.has_valid_session(broker, _now_ms())
            if is_heard or not is_stale(image, broker):
                return Decision([], True)
            if not has_begun:
                _log.info("Fencing broker %d because its session has timed out", broker.broker_id)
            has_begun = True
            registered = image.brokers[broker.broker_id]
            part, is_done = first_part(fence_records(image, registered, self._defaults))
            return Decision(part, True if is_done else None)

        await self._decide_in_parts(decide)
        return False

    async def _elect_missing(self) -> bool:
        return await self._hold(
            lambda image: elect_missing(image, ELECTIONS_PER_CHANGE_MAX, self._defaults)
        )

    async def _elect_preferred(self) -> bool:
        return await self._hold(
            lambda image: elect_preferred(image, ELECTIONS_PER_CHANGE_MAX, self._defaults)
        )

    async def _hold(self, elect: "Callable[[ClusterImage], Sequence[Message]]") -> bool:
        """Hold elections; return whether there may be more."""

        def decide(image: ClusterImage) -> Decision[bool]:
            records = elect(image)
            return Decision(records, len(records) == ELECTIONS_PER_CHANGE_MAX)

        return await self._controller.decide(decide)

    async def _append_no_op(self) -> bool:
        """Append a record if there was none for an interval: observers see how far they are."""
        if self._next_offset() == self._end_offset:
            await self._controller.decide(lambda _: Decision([NoOpRecord()], None))
        self._end_offset = self._next_offset()
        return False


def _now_ms() -> int:
    return int(loop_ms())
