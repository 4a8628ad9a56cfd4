"""Rules of the controller and its brokers, each broken once (cluster.md 2.2 to 2.8, traps of 8)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Message
from tierlog.replication.control.brokers import broker_states, registration
from tierlog.replication.control.brokers.broker_states import (
    BrokerProgress,
    BrokerState,
    Heartbeat,
    HeartbeatEvent,
)
from tierlog.replication.control.brokers.registration import BrokerRegistrationData
from tierlog.replication.control.brokers.sessions import BrokerIdAndEpoch, BrokerSessions
from tierlog.replication.control.controller_config import Decision
from tierlog.replication.control.controller_state import ControllerCore
from tierlog.replication.control.leadership import alter_partition, partition_change
from tierlog.replication.control.leadership.alter_partition import IsrRequest
from tierlog.replication.control.leadership.leader_and_isr import PartitionChanges
from tierlog.replication.control.leadership.partition_change import LiveBrokers
from tierlog.replication.control.topics import topic_control
from tierlog.replication.metadata import cluster_image
from tierlog.replication.metadata.cluster_image import BrokerImage, ClusterImage, PartitionImage
from tierlog.replication.metadata.metadata_records import (
    NO_LEADER,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from tierlog.replication.metadata.replica_epoch import ReplicaEpoch
from tierlog.replication.raft.raft_actions import LeaderChanged
from tierlog.replication.raft.raft_node import RaftNode

from . import controller_node, controller_records
from .controller_node import SESSIONS, Answer, SimulatedController

Plant = Callable[[pytest.MonkeyPatch], None]


class Eligible(Protocol):
    """A partition that is worked out, with its eligible leader replicas."""

    elr: list[int]


_private: Callable[[object, str], Any] = getattr


def _yes(*_: object) -> bool:
    return True


def _no(*_: object) -> bool:
    return False


def _nothing(*_: object) -> list[Message]:
    return []


def puts_the_registration_first(patch: pytest.MonkeyPatch) -> None:
    """The record of the new incarnation comes before those that end the old one."""
    original = _private(registration, "decide_broker_registration")

    def decide(
        image: ClusterImage, request: BrokerRegistrationData, *rest: object
    ) -> Decision[int]:
        decision: Decision[int] = original(image, request, *rest)
        is_last = [isinstance(each, RegisterBrokerRecord) for each in decision.records]
        first = [each for each, is_it in zip(decision.records, is_last, strict=True) if is_it]
        others = [each for each, is_it in zip(decision.records, is_last, strict=True) if not is_it]
        return Decision([*first, *others], decision.answer)

    patch.setattr(controller_node, "decide_broker_registration", decide)


def takes_every_stop_for_a_clean_one(patch: pytest.MonkeyPatch) -> None:
    """A broker that has lost records stays an eligible leader (KAFKA-18106)."""
    patch.setattr(registration, "is_clean_shutdown", _yes)


def registers_over_a_live_session(patch: pytest.MonkeyPatch) -> None:
    """Another incarnation registers while the last one still sends heartbeats."""
    patch.setattr(BrokerSessions, "has_valid_session", _no)


def keeps_the_epoch_of_the_last_incarnation(patch: pytest.MonkeyPatch) -> None:
    """A restarted broker gets the epoch that it had."""
    original = _private(registration, "decide_broker_registration")

    def decide(
        image: ClusterImage, request: BrokerRegistrationData, *rest: object
    ) -> Decision[int]:
        decision: Decision[int] = original(image, request, *rest)
        before = image.brokers.get(request.broker_id)
        if before is None:
            return decision
        for record in decision.records:
            if isinstance(record, RegisterBrokerRecord):
                record.broker_epoch = before.epoch
        return Decision(decision.records, before.epoch)

    patch.setattr(controller_node, "decide_broker_registration", decide)


def unfences_before_it_has_caught_up(patch: pytest.MonkeyPatch) -> None:
    """A broker is unfenced whatever it has replayed."""
    original = broker_states.event_of

    def event_of(heartbeat: Heartbeat, progress: BrokerProgress) -> HeartbeatEvent:
        event = original(heartbeat, progress)
        is_behind = event in (HeartbeatEvent.BEHIND, HeartbeatEvent.FENCE)
        return HeartbeatEvent.CAUGHT_UP if is_behind else event

    patch.setattr(broker_states, "event_of", event_of)


def elects_before_it_unfences(patch: pytest.MonkeyPatch) -> None:
    """The records of the elections come before the one that unfences the broker."""
    original = SimulatedController.moved

    def moved(
        controller: SimulatedController,
        image: ClusterImage,
        broker: BrokerImage,
        state: BrokerState,
        target: BrokerState,
    ) -> list[Message]:
        records = original(controller, image, broker, state, target)
        return records[::-1] if target is BrokerState.UNFENCED else records

    patch.setattr(SimulatedController, "moved", moved)


def fences_and_moves_nothing(patch: pytest.MonkeyPatch) -> None:
    """A fenced broker stays the leader and in the ISRs."""
    patch.setattr(controller_node, "without_broker", _nothing)


def stops_before_others_have_seen_it(patch: pytest.MonkeyPatch) -> None:
    """A broker may stop as soon as it leads nothing."""
    original = broker_states.event_of

    def event_of(heartbeat: Heartbeat, progress: BrokerProgress) -> HeartbeatEvent:
        event = original(heartbeat, progress)
        is_unseen = event is HeartbeatEvent.SHUTDOWN_UNSEEN
        return HeartbeatEvent.SHUTDOWN_SEEN if is_unseen else event

    patch.setattr(broker_states, "event_of", event_of)


def takes_over_old_sessions(patch: pytest.MonkeyPatch) -> None:
    """A new controller has heard nothing of the brokers, and believes that they are dead."""
    original = BrokerSessions.take_over

    def take_over(sessions: BrokerSessions, brokers: Iterable[BrokerImage], now_ms: int) -> None:
        original(sessions, brokers, now_ms - SESSIONS.session_timeout_ms)

    patch.setattr(BrokerSessions, "take_over", take_over)


def takes_over_no_sessions(patch: pytest.MonkeyPatch) -> None:
    """A broker that dies with the controller is never fenced."""

    def take_over(_: BrokerSessions, _brokers: Iterable[BrokerImage], _now_ms: int) -> None:
        """Do nothing."""

    patch.setattr(BrokerSessions, "take_over", take_over)


def fences_several_on_one_image(patch: pytest.MonkeyPatch) -> None:
    """The records of the second broker are decided without those of the first (KAFKA-13173)."""

    def look(controller: SimulatedController) -> None:
        sessions: BrokerSessions = _private(controller, "_sessions")
        contacts: dict[BrokerIdAndEpoch, int] = _private(sessions, "_contacts")
        now, image = controller.now_ms, controller.core.newest
        if sessions.look(now) is None:
            return
        brokers = [
            broker
            for broker in image.brokers.values()
            if not broker.fenced
            and now - contacts.get(BrokerIdAndEpoch(broker.broker_id, broker.epoch), 0)
            > SESSIONS.session_timeout_ms
        ]
        for broker in brokers:
            records = controller.fencing(image, broker.broker_id)
            controller.write(_decided(records), _ignore)

    patch.setattr(SimulatedController, "_look", look)


def _decided(records: Sequence[Message]) -> Callable[[ClusterImage], Decision[None]]:
    return lambda _: Decision(records, None)


def _ignore(_: object) -> None:
    """Nobody waits for it."""


def elects_a_fenced_broker(patch: pytest.MonkeyPatch) -> None:
    """Whoever is registered may lead (KAFKA-19522)."""

    def is_active(live: LiveBrokers, broker_id: int) -> bool:
        return broker_id != live.leaving and broker_id in live.brokers

    patch.setattr(LiveBrokers, "is_active", is_active)


def elects_who_leaves(patch: pytest.MonkeyPatch) -> None:
    """The broker that is being fenced may lead."""

    def is_active(live: LiveBrokers, broker_id: int) -> bool:
        broker = live.brokers.get(broker_id)
        return broker is not None and (broker_id == live.arriving or broker.is_active)

    def is_valid(candidates: partition_change.Candidates, broker_id: int) -> bool:
        return broker_id in candidates.replicas and candidates.may_lead(broker_id)

    patch.setattr(LiveBrokers, "is_active", is_active)
    patch.setattr(partition_change.Candidates, "is_valid", is_valid)


def puts_fenced_brokers_into_new_isrs(patch: pytest.MonkeyPatch) -> None:
    """All replicas of a new partition are in sync (KAFKA-13083)."""
    original = _private(topic_control, "new_partition")

    def new_partition(
        image: ClusterImage, topic_id: Uuid, partition: int, replicas: Sequence[int]
    ) -> PartitionRecord:
        record: PartitionRecord = original(image, topic_id, partition, replicas)
        record.isr = list(replicas)
        return record

    patch.setattr(topic_control, "new_partition", new_partition)


def elects_uncleanly_unasked(patch: pytest.MonkeyPatch) -> None:
    """Every topic prefers a leader that has lost records to none."""
    patch.setattr(PartitionChanges, "allows_unclean_election", _yes)


def forgets_to_raise_the_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """A partition that loses its leader keeps the leader's epoch."""
    original = cluster_image.changed_partition

    def changed(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
        after = original(before, record)
        if record.leader == NO_LEADER:
            object.__setattr__(after, "leader_epoch", before.leader_epoch)
        return after

    patch.setattr(cluster_image, "changed_partition", changed)
    patch.setattr(alter_partition, "changed_partition", changed)


def keeps_members_of_the_isr_eligible(patch: pytest.MonkeyPatch) -> None:
    """Who comes back into the ISR stays in the ELR (KIP-966)."""
    original = _private(partition_change, "_fill_elr")

    def fill(draft: Eligible, before: PartitionImage, *rest: object) -> None:
        original(draft, before, *rest)
        draft.elr += [each for each in before.elr if each not in draft.elr]

    patch.setattr(partition_change, "_fill_elr", fill)


def takes_a_restarted_broker_into_the_isr(patch: pytest.MonkeyPatch) -> None:
    """The epoch of a member of the ISR is not compared (KIP-903)."""
    original = _private(alter_partition, "_is_eligible")

    def is_eligible(image: ClusterImage, member: ReplicaEpoch) -> bool:
        return bool(original(image, ReplicaEpoch(member.broker_id)))

    patch.setattr(alter_partition, "_is_eligible", is_eligible)


def takes_a_fenced_broker_into_the_isr(patch: pytest.MonkeyPatch) -> None:
    """Whoever is registered may join an ISR (KIP-841)."""

    def is_eligible(image: ClusterImage, member: ReplicaEpoch) -> bool:
        broker = image.brokers.get(member.broker_id)
        return broker is not None and member.broker_epoch in (-1, broker.epoch)

    patch.setattr(alter_partition, "_is_eligible", is_eligible)


def believes_a_stale_leader(patch: pytest.MonkeyPatch) -> None:
    """An ISR is taken from a leader that has not seen the last change of its partition."""
    original = _private(alter_partition, "_check_epochs")

    def check(partition: PartitionImage, broker_id: int, request: IsrRequest) -> ErrorCode:
        error: ErrorCode = original(partition, broker_id, request)
        return ErrorCode.NONE if error is ErrorCode.INVALID_UPDATE_VERSION else error

    patch.setattr(alter_partition, "_check_epochs", check)


def decides_on_the_committed_image(patch: pytest.MonkeyPatch) -> None:
    """What is pending is not seen by the next decision."""
    patch.setattr(ControllerCore, "newest", property(lambda core: core.committed))


def answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A change is answered as soon as it is appended."""
    original = _private(SimulatedController, "_append")

    def append(
        controller: SimulatedController, decision: Decision[object], answer: Answer[object]
    ) -> int | None:
        last: int | None = original(controller, decision, _ignore)
        answer(decision.answer)
        return last

    patch.setattr(SimulatedController, "_append", append)


def keeps_what_was_pending(patch: pytest.MonkeyPatch) -> None:
    """Who loses the lead goes on with what it had decided."""
    original = _private(ControllerCore, "renounce")

    def renounce(core: ControllerCore[object]) -> list[object]:
        newest = core.newest
        waiting: list[object] = original(core)
        core.committed = newest
        return waiting

    patch.setattr(ControllerCore, "renounce", renounce)


def claims_before_it_has_replayed(patch: pytest.MonkeyPatch) -> None:
    """A new leader decides on an image without the last records of the epochs before."""
    original = _private(RaftNode, "_announce")

    def announce(node: RaftNode) -> None:
        original(node)
        actions: list[object] = _private(node, "_actions")
        if actions and isinstance(actions[-1], LeaderChanged):
            actions[-1] = actions[-1]._replace(epoch_start_offset=-1)

    patch.setattr(RaftNode, "_announce", announce)


def gives_a_block_of_producer_ids_twice(patch: pytest.MonkeyPatch) -> None:
    """Who dies with a block unused gives it to the next one: the record is not written."""
    original = _private(controller_node, "allocate_producer_ids")

    def allocate(image: ClusterImage, broker_id: int) -> Decision[int]:
        return Decision([], original(image, broker_id).answer)

    patch.setattr(controller_node, "allocate_producer_ids", allocate)


def forgets_producer_ids_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    """A snapshot lacks a kind of record."""
    original = _private(controller_records, "image_records")

    def records(image: ClusterImage) -> Iterator[Message]:
        return (each for each in original(image) if not isinstance(each, ProducerIdsRecord))

    patch.setattr(controller_records, "image_records", records)


CONTROLLER_BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        puts_the_registration_first,
        takes_every_stop_for_a_clean_one,
        registers_over_a_live_session,
        keeps_the_epoch_of_the_last_incarnation,
        unfences_before_it_has_caught_up,
        elects_before_it_unfences,
        fences_and_moves_nothing,
        stops_before_others_have_seen_it,
        takes_over_old_sessions,
        takes_over_no_sessions,
        fences_several_on_one_image,
        elects_a_fenced_broker,
        elects_who_leaves,
        puts_fenced_brokers_into_new_isrs,
        elects_uncleanly_unasked,
        forgets_to_raise_the_leader_epoch,
        keeps_members_of_the_isr_eligible,
        takes_a_restarted_broker_into_the_isr,
        takes_a_fenced_broker_into_the_isr,
        believes_a_stale_leader,
        decides_on_the_committed_image,
        answers_before_the_commit,
        keeps_what_was_pending,
        claims_before_it_has_replayed,
        gives_a_block_of_producer_ids_twice,
        forgets_producer_ids_in_snapshots,
    )
}
