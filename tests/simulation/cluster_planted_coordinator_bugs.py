"""Rules of the coordinators of a whole cluster, each broken once: see `cluster_planted_bugs.py`."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tierlog.broker.request import transactional_append
from tierlog.broker.request.transaction_membership import Attempt
from tierlog.clients.errors import ErrorCode
from tierlog.clients.topic_partition import TopicPartition
from tierlog.coordinator import replicated_offsets_log
from tierlog.coordinator.group.group_coordinator import GroupCoordinator
from tierlog.coordinator.group.group_shard import GroupShard
from tierlog.coordinator.led_shards import LedShards
from tierlog.coordinator.pending_offsets import PendingOffsets
from tierlog.coordinator.replicated_offsets_log import ReplicatedOffsetsLog
from tierlog.coordinator.transaction import marker_queues
from tierlog.coordinator.transaction.marker_queues import MarkerQueues
from tierlog.coordinator.transaction.producer_ids import ProducerIds
from tierlog.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from tierlog.replication.partition.append_data import ACKS_LEADER, AppendRequest

Plant = Callable[[pytest.MonkeyPatch], None]
Loose: TypeAlias = Any
"""What the patched function gets or gives, which is handed on."""
_private: Callable[[object, str], Loose] = getattr


def _no(*_: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    return None


def loses_markers_with_their_coordinator(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not go on with what was decided before it."""
    patch.setattr(TransactionCoordinator, "_resume_transactions", _nothing)


def takes_an_unknown_partition_for_marked(patch: pytest.MonkeyPatch) -> None:
    """Another broker that has not heard of a partition, or does not lead it, settles a marker."""
    unknown = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    patch.setattr(marker_queues, "SETTLING", marker_queues.SETTLING | unknown)


def takes_a_lost_connection_for_marked(patch: pytest.MonkeyPatch) -> None:
    """A marker whose answer is lost is not sent again."""
    original = _private(MarkerQueues, "answered")

    def answered(self: MarkerQueues, broker_id: int, errors: Loose) -> Loose:
        items = _private(self, "_sent")[broker_id]
        lost = {item: ErrorCode.NONE for item in items if item not in errors}
        return original(self, broker_id, {**lost, **errors})

    patch.setattr(MarkerQueues, "answered", answered)


def verifies_nothing(patch: pytest.MonkeyPatch) -> None:
    """A partition takes records of a transaction that it does not know, from anybody."""

    def refusals(*_: object) -> dict[TopicPartition, ErrorCode]:
        return {}

    patch.setattr(transactional_append, "refusals", refusals)


def drops_the_guard(patch: pytest.MonkeyPatch) -> None:
    """A verification that was overtaken by the end of the transaction still counts."""
    patch.setattr(Attempt, "_is_overtaken", _no)


def shows_offsets_before_their_commit(patch: pytest.MonkeyPatch) -> None:
    """The offsets of an open transaction are visible at once."""
    original = _private(GroupShard, "apply_offsets")

    def apply_offsets(
        self: GroupShard, entries: Loose, base: int, now_ms: int, producer: Loose = None
    ) -> None:
        original(self, entries, base, now_ms, producer)
        if producer is not None:
            original(self, entries, base, now_ms)

    patch.setattr(GroupShard, "apply_offsets", apply_offsets)


def commits_aborted_offsets(patch: pytest.MonkeyPatch) -> None:
    """The offsets of an aborted transaction count."""
    original = _private(GroupShard, "end_transaction")

    def end_transaction(self: GroupShard, producer_id: int, _: bool, now_ms: int) -> Loose:
        return original(self, producer_id, True, now_ms)

    patch.setattr(GroupShard, "end_transaction", end_transaction)


def answers_a_marker_before_its_offsets(patch: pytest.MonkeyPatch) -> None:
    """A marker is written, and the group coordinator is not told (KAFKA-17507)."""
    patch.setattr(GroupCoordinator, "transaction_ended", _nothing)


def forgets_pending_offsets_at_load(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not know the offsets of open transactions."""
    original = _private(GroupShard, "replay_record")

    def replay_record(self: GroupShard, batch: Loose, record: Loose) -> None:
        if not batch.is_transactional:
            original(self, batch, record)

    patch.setattr(GroupShard, "replay_record", replay_record)


def takes_pending_offsets_for_stable(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the end of a transaction with offsets."""
    patch.setattr(PendingOffsets, "has", _no)


def gives_the_same_producer_id_twice(patch: pytest.MonkeyPatch) -> None:
    """Each broker begins with the same producer ids."""
    numbers: dict[int, int] = {}

    def next_if_there(self: ProducerIds) -> int:
        numbers[id(self)] = numbers.get(id(self), 1000) + 1
        return numbers[id(self)]

    patch.setattr(ProducerIds, "next_if_there", next_if_there)


def answers_before_others_have_it(patch: pytest.MonkeyPatch) -> None:
    """A coordinator answers when its own log has the record."""

    def one_ack(entries: Loose, **rest: Loose) -> AppendRequest:
        stated: dict[str, Loose] = {**rest, "acks": ACKS_LEADER}
        return AppendRequest(entries, **stated)

    def at_once(*_: object) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(replicated_offsets_log, "AppendRequest", one_ack)
    patch.setattr(ReplicatedOffsetsLog, "when_replicated", at_once)


def keeps_its_memory_of_a_former_term(patch: pytest.MonkeyPatch) -> None:
    """A coordinator that comes back goes on with what it had in memory."""
    original = _private(LedShards, "on_elected")

    def on_elected(self: LedShards[Loose], partition: int, leader_epoch: int) -> None:
        shard = self.get(partition)
        if shard is None:
            original(self, partition, leader_epoch)
        else:
            shard.leader_epoch = leader_epoch

    patch.setattr(LedShards, "on_elected", on_elected)
    patch.setattr(LedShards, "on_resigned", _nothing)


def loads_nothing(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator begins with nothing."""
    original = _private(ReplicatedOffsetsLog, "offsets")

    def offsets(self: ReplicatedOffsetsLog, partition: int) -> tuple[int, int]:
        _, end = original(self, partition)
        return end, end

    patch.setattr(ReplicatedOffsetsLog, "offsets", offsets)


COORDINATOR_BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        loses_markers_with_their_coordinator,
        takes_an_unknown_partition_for_marked,
        takes_a_lost_connection_for_marked,
        verifies_nothing,
        drops_the_guard,
        shows_offsets_before_their_commit,
        commits_aborted_offsets,
        answers_a_marker_before_its_offsets,
        forgets_pending_offsets_at_load,
        takes_pending_offsets_for_stable,
        gives_the_same_producer_id_twice,
        answers_before_others_have_it,
        keeps_its_memory_of_a_former_term,
        loads_nothing,
    )
}
"""By name."""
