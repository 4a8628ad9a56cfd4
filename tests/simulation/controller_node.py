"""The controller of one simulated node: the real core and decisions over the simulated quorum.

It is the state machine of its node. As a standby it replays what is committed; as the active one it
decides on the newest image, appends, and answers at the commit. Sessions and offsets of brokers are
soft state: a new controller begins without them.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.brokers.broker_control import allocate_producer_ids
from tierlog.replication.control.brokers.broker_states import (
    BrokerProgress,
    BrokerState,
    Heartbeat,
    HeartbeatAnswer,
    lowest_active_offset,
    next_state,
    state_of,
)
from tierlog.replication.control.brokers.registration import (
    BrokerRegistrationData,
    decide_broker_registration,
    is_clean_shutdown,
)
from tierlog.replication.control.brokers.sessions import (
    BrokerIdAndEpoch,
    BrokerSessions,
    SessionConfig,
    is_stale,
)
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.control.controller_state import ControllerCore, not_controller
from tierlog.replication.control.leadership.alter_partition import (
    AlterPartitionResult,
    IsrRequest,
    alter_partitions,
)
from tierlog.replication.control.leadership.leader_and_isr import (
    ELR_FEATURE,
    LostBroker,
    with_broker,
    without_broker,
)
from tierlog.replication.metadata.cluster_image import BrokerImage, ClusterImage
from tierlog.replication.metadata.committed_reader import CommittedRecords
from tierlog.replication.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from tierlog.replication.metadata.replica_epoch import NO_BROKER_EPOCH, ReplicaEpoch

from .controller_records import decode_change, decode_image, encode_change, encode_image
from .quorum_log import EMPTY_DIGEST, Batch
from .quorum_network import EventQueue

if TYPE_CHECKING:
    from .quorum_node import QuorumNode

SESSIONS = SessionConfig(session_timeout_ms=4500)
EMPTY = ClusterImage("a cluster")
LOOK_SLACK_MS = 60
IDLE_MS = 500
_NEVER_MS = -(1 << 60)

AnswerT = TypeVar("AnswerT")
Waiter = Callable[[], None]
"""Answers a change at its commit."""
Answer = Callable[[AnswerT | KafkaError], None]


class SimulatedController:
    """See the module."""

    def __init__(
        self, node: "QuorumNode", queue: EventQueue, counts: Counter[str], *, has_elr: bool
    ) -> None:
        self.node = node
        self._has_elr = has_elr
        self.core: ControllerCore[tuple[Waiter, Waiter]] = ControllerCore(EMPTY)
        self._queue = queue
        self._counts = counts
        self._sessions = BrokerSessions(SESSIONS, 0)
        self._contacts: dict[BrokerIdAndEpoch, int] = {}
        self._offsets: dict[int, int] = {}
        self._shutdowns: dict[int, int] = {}
        self._claimed_ms = 0
        self._term = 0

    @property
    def state(self) -> ClusterImage:
        """See `Machine`."""
        return self.core.committed

    def restore(self, content: bytes) -> None:
        """See `Machine`."""
        self.core = ControllerCore(EMPTY)
        if content != EMPTY_DIGEST:
            self.core.committed = decode_image(content, EMPTY)

    def apply(self, batch: Batch) -> None:
        """See `Machine`."""
        if batch.is_control:
            return
        core, before = self.core, self.core.committed.offset
        if core.is_active:
            for change in core.commit(batch.next_offset):
                for answer, _ in change.waiting:
                    answer()
        else:
            records = decode_change(batch.payload)
            core.replay(
                [CommittedRecords(records, batch.next_offset - 1, batch.partition_leader_epoch)]
            )
        assert core.committed.offset == batch.next_offset - 1, (
            f"node {self.node.id} is at {core.committed.offset} after {batch.next_offset - 1}"
        )
        assert core.committed.offset > before, "the image goes backwards"

    def freeze(self) -> bytes:
        """See `Machine`."""
        return encode_image(self.core.committed)

    def lead(self, epoch: int) -> None:
        """See `Machine`."""
        self._term += 1
        self._counts["controller claimed"] += 1
        for records in self.core.claim(epoch, is_in_transaction=False):
            features = [FeatureLevelRecord(name=ELR_FEATURE, feature_level=1)]
            more = features if self._has_elr else []
            self._append(Decision([*records, *more], None), _ignore)
        now = self._claimed_ms = self.now_ms
        self._sessions = BrokerSessions(SESSIONS, now)
        self._contacts.clear()
        self._offsets.clear()
        newest = self.core.newest
        self._shutdowns = dict.fromkeys(newest.brokers, newest.offset)
        self.take_over_sessions(now)
        self._look_later()
        self._idle_later()

    def take_over_sessions(self, now_ms: int) -> None:
        """Give the brokers of the image their sessions."""
        self._sessions.take_over(self.core.newest.brokers.values(), now_ms)

    def renounce(self) -> None:
        """See `Machine`."""
        if not self.core.is_active:
            return
        waiting = self.core.renounce()
        self._counts["controller renounced"] += 1
        self._counts["change refused at renounce"] += len(waiting)
        for _, refuse in waiting:
            refuse()

    def end(self) -> None:
        """See `Machine`."""
        self._term += 1

    @property
    def now_ms(self) -> int:
        """The process's monotonic clock."""
        return self.node.clock.now_ms()

    def write(
        self, decide: Callable[[ClusterImage], Decision[AnswerT]], answer: Answer[AnswerT]
    ) -> int | None:
        """Decide and append; the answer comes at the commit. Returns the last offset appended."""
        core = self.core
        if not (core.is_active and self.node.is_leading):
            answer(not_controller())
            return None
        try:
            decision = decide(core.newest)
        except KafkaError as error:
            answer(error)
            return None
        return self._append(decision, answer)

    def _append(self, decision: Decision[AnswerT], answer: Answer[AnswerT]) -> int | None:
        core, records = self.core, decision.records
        waiter = (lambda: answer(decision.answer)), (lambda: answer(not_controller()))
        if not records:
            if not core.wait(waiter):
                answer(decision.answer)
            return None
        delta = core.change(records)
        last = self.node.append_now(encode_change(records), len(records)).next_offset - 1
        core.appended(delta, last, waiter)
        return last

    def register(self, data: BrokerRegistrationData, answer: Answer[int]) -> None:
        """BrokerRegistration."""

        def decide(image: ClusterImage) -> Decision[int]:
            registered = image.brokers.get(data.broker_id)
            has_session = registered is not None and self._sessions.has_valid_session(
                BrokerIdAndEpoch(data.broker_id, registered.epoch), self.now_ms
            )
            decision = decide_broker_registration(
                image,
                data,
                self.node.log.end_offset,
                has_session,
                lambda broker_id, is_clean: self.without(image, broker_id, not is_clean),
            )
            if registered is None or registered.epoch != decision.answer:
                if registered is not None:
                    key = BrokerIdAndEpoch(data.broker_id, registered.epoch)
                    silent = self.now_ms - self._contacts.get(key, _NEVER_MS)
                    assert silent > SESSIONS.session_timeout_ms, (
                        f"broker {data.broker_id} registers anew after {silent} ms"
                    )
                self._sessions.remove(data.broker_id)
                is_clean = is_clean_shutdown(registered, data)
                self._counts["clean registration" if is_clean else "unclean registration"] += 1
            return decision

        self.write(decide, answer)

    @staticmethod
    def without(image: ClusterImage, broker_id: int, is_unclean: bool) -> list[Message]:
        """The changes when a broker leaves."""
        return [*without_broker(image, LostBroker(broker_id, is_unclean=is_unclean))]

    def heartbeat(
        self, broker: BrokerIdAndEpoch, heartbeat: Heartbeat, answer: Answer[HeartbeatAnswer]
    ) -> None:
        """BrokerHeartbeat."""
        moves: list[BrokerState] = []

        def decide(image: ClusterImage) -> Decision[HeartbeatAnswer]:
            registered = _registered(image, broker)
            now = self.now_ms
            self._sessions.touch(broker, now)
            self._contacts[broker] = now
            self._offsets[broker.broker_id] = heartbeat.current_metadata_offset
            state = state_of(registered)
            target, result = next_state(state, heartbeat, self.progress(image, registered))
            if target is not state:
                moves.append(target)
            return Decision(self.moved(image, registered, state, target), result)

        last = self.write(decide, answer)
        if last is not None and moves == [BrokerState.CONTROLLED_SHUTDOWN]:
            self._shutdowns[broker.broker_id] = last

    def progress(self, image: ClusterImage, broker: BrokerImage) -> BrokerProgress:
        """What is known of a broker beside its heartbeat."""
        active = [each.broker_id for each in image.brokers.values() if each.is_active]
        return BrokerProgress(
            registration_offset=broker.epoch,
            leads=any(
                partition.leader == broker.broker_id
                for topic in image.topics_by_id.values()
                for partition in topic.partitions.values()
            ),
            shutdown_offset=self._shutdowns.get(broker.broker_id, image.offset),
            lowest_active_offset=lowest_active_offset(
                self._offsets.get(each, -1) for each in active
            ),
        )

    def moved(
        self, image: ClusterImage, broker: BrokerImage, state: BrokerState, target: BrokerState
    ) -> list[Message]:
        """The records that move a broker to another state."""
        if target is state or (state is BrokerState.FENCED and target is BrokerState.SHUTDOWN_NOW):
            return []
        self._counts[f"broker becomes {target.value}"] += 1
        broker_id = broker.broker_id
        change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch)
        match target:
            case BrokerState.UNFENCED:
                change.fenced = -1
                return [change, *with_broker(image, broker_id)]
            case BrokerState.CONTROLLED_SHUTDOWN:
                change.in_controlled_shutdown = 1
                return [change, *self.without(image, broker_id, is_unclean=False)]
            case _:
                change.fenced = 1
                return [*self.without(image, broker_id, is_unclean=False), change]

    def alter_partition(
        self, sender: ReplicaEpoch, request: IsrRequest, answer: Answer[AlterPartitionResult]
    ) -> None:
        """AlterPartition, for one partition."""

        def decide(image: ClusterImage) -> Decision[AlterPartitionResult]:
            decision = alter_partitions(image, sender, [request])
            (result,) = decision.answer
            self._counts[f"AlterPartition {result.error.name}"] += 1
            if decision.records:
                partition = image.topics_by_id[request.topic_id].partitions[request.partition]
                epochs = partition.leader_epoch, partition.partition_epoch
                assert epochs == (request.leader_epoch, request.partition_epoch), (
                    f"an ISR of {request.leader_epoch}, {request.partition_epoch}, not {epochs}"
                )
                assert partition.leader == sender.broker_id, "an ISR of one that does not lead"
                for member in request.isr:
                    broker = image.brokers.get(member.broker_id)
                    assert broker is not None, "an unregistered broker joins an ISR"
                    assert member.broker_epoch in (NO_BROKER_EPOCH, broker.epoch), (
                        f"broker {member.broker_id} of epoch {broker.epoch} joins an ISR with "
                        f"epoch {member.broker_epoch} (KIP-903)"
                    )
            return Decision(decision.records, result)

        self.write(decide, answer)

    def allocate_producer_ids(self, broker: BrokerIdAndEpoch, answer: Answer[int]) -> None:
        """AllocateProducerIds."""

        def decide(image: ClusterImage) -> Decision[int]:
            _registered(image, broker)
            return allocate_producer_ids(image, broker.broker_id)

        self.write(decide, answer)

    def _idle_later(self) -> None:
        """Write a NoOpRecord now and then, so that the high watermark moves."""
        term, life = self._term, self.node.life

        def control() -> None:
            if self.node.life == life:
                self.node.control(idle)

        def idle() -> None:
            if self._term == term and self.core.is_active:
                self.write(lambda _: Decision([NoOpRecord()], None), _ignore)
                self._queue.after(IDLE_MS, control)

        self._queue.after(IDLE_MS, control)

    def _look_later(self) -> None:
        term, life = self._term, self.node.life

        def look() -> None:
            if self._term == term and self.core.is_active:
                self._look()
                self._look_later()

        def control() -> None:
            if self.node.life == life:
                self.node.control(look)

        delay = self.node.clock.delay_until(self._sessions.next_look_ms)
        self._queue.after(delay, control)

    def _look(self) -> None:
        now = self.now_ms
        expired = self._sessions.look(now)
        if expired is not None and is_stale(self.core.newest, expired):
            self.fence(expired, now)
        self._check_silent(now)

    def fence(self, broker: BrokerIdAndEpoch, now_ms: int) -> None:
        """Fence a broker whose session has expired."""
        silent = now_ms - max(self._claimed_ms, self._contacts.get(broker, _NEVER_MS))
        assert silent > SESSIONS.session_timeout_ms, (
            f"broker {broker.broker_id} is fenced after {silent} ms"
        )
        self.write(lambda image: Decision(self.fencing(image, broker.broker_id), None), _ignore)

    def fencing(self, image: ClusterImage, broker_id: int) -> list[Message]:
        """The records that fence a broker."""
        broker = image.brokers[broker_id]
        return self.moved(image, broker, state_of(broker), BrokerState.FENCED)

    def _check_silent(self, now_ms: int) -> None:
        """No broker stays unfenced long after its last heartbeat."""
        brokers = self.core.newest.brokers.values()
        unfenced = sum(not broker.fenced for broker in brokers)
        looks = unfenced + 1
        bound = SESSIONS.session_timeout_ms + looks * SESSIONS.look_interval_ms + LOOK_SLACK_MS
        for broker in brokers:
            key = BrokerIdAndEpoch(broker.broker_id, broker.epoch)
            heard = max(
                self._claimed_ms, self._contacts.get(key, _NEVER_MS), self.node.disturbed_ms
            )
            assert broker.fenced or now_ms - heard <= bound, (
                f"broker {broker.broker_id} has been silent for {now_ms - heard} ms"
            )


def _registered(image: ClusterImage, broker: BrokerIdAndEpoch) -> BrokerImage:
    registered = image.brokers.get(broker.broker_id)
    if registered is None or registered.epoch != broker.epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, "The broker has another epoch.")
    return registered


def _ignore(_: object) -> None:
    """Nobody waits for it."""
