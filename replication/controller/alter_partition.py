"""Decides what becomes of a leader's wish to change its ISR (AlterPartition, KIP-497). Pure.

The controller takes a wish only from the leader of the current epoch that has seen the current
partition epoch: everything else is answered with an error, and the leader waits for newer metadata
or asks again. A member of the new ISR must be active, and in the life that the leader has seen
(KIP-841, KIP-903): a replica that has restarted since may have lost what the leader knows it to
have. See `ReplicationControlManager.alterPartition`.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...storage.config import LogConfig
from ..metadata.cluster_image import ClusterImage, PartitionImage, changed_partition
from ..metadata.metadata_records import NO_LEADER_CHANGE
from .controller_config import Decision
from .leader_and_isr import TOPIC_DEFAULTS, PartitionChanges
from .partition_change import RECOVERED, RECOVERING, PartitionTarget

if TYPE_CHECKING:
    from ...clients.protocol.schema import Message

ANY_EPOCH = -1
"""The leader does not know the broker epoch of a replica: it is not checked."""


class IsrMember(NamedTuple):
    """A replica of the wanted ISR, and the broker epoch that its fetches carried."""

    broker_id: int
    broker_epoch: int = ANY_EPOCH


class WantedIsr(NamedTuple):
    """The ISR that the leader of one partition wants."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[IsrMember]
    recovery_state: int = RECOVERED


class AlterPartitionResult(NamedTuple):
    """The answer for one partition: an error, or the state after the change."""

    topic_id: Uuid
    partition: int
    error: ErrorCode
    state: PartitionImage | None = None


def alter_partitions(
    image: ClusterImage,
    sender: IsrMember,
    wanted: Sequence[WantedIsr],
    defaults: LogConfig = TOPIC_DEFAULTS,
) -> Decision[Sequence[AlterPartitionResult]]:
    """Decide on each partition; the results are in request order.

    A wish that changes nothing is answered with the present state. Raises
    KafkaError(STALE_BROKER_EPOCH) if the sender is not in the life that it thinks it is.
    """
    broker = image.brokers.get(sender.broker_id)
    if broker is None or broker.epoch != sender.broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {sender.broker_id} with epoch {sender.broker_epoch} is not registered.",
        )
    changes = PartitionChanges(image, defaults)
    records: list[Message] = []
    results: list[AlterPartitionResult] = []
    decided: set[tuple[Uuid, int]] = set()
    for each in wanted:
        key = (each.topic_id, each.partition)
        if key in decided:
            # The image does not have the first change: this one cannot be checked against it.
            results.append(AlterPartitionResult(*key, ErrorCode.INVALID_REQUEST))
            continue
        decided.add(key)
        error = _check(image, sender.broker_id, each)
        if error is not ErrorCode.NONE:
            results.append(AlterPartitionResult(*key, error))
            continue
        topic = image.topics_by_id[each.topic_id]
        state = topic.partitions[each.partition]
        isr = [member.broker_id for member in each.isr]
        target = PartitionTarget(isr=isr, recovery_state=each.recovery_state)
        record = changes.change(topic, each.partition, target)
        if record is None:
            results.append(AlterPartitionResult(*key, ErrorCode.NONE, state))
            continue
        records.append(record)
        if record.leader not in (sender.broker_id, NO_LEADER_CHANGE):
            # The change has completed a reassignment, and the sender is not a replica any more.
            results.append(AlterPartitionResult(*key, ErrorCode.NEW_LEADER_ELECTED))
            continue
        after = changed_partition(state, record)
        results.append(AlterPartitionResult(*key, ErrorCode.NONE, after))
    return Decision(records, results)


def _check(image: ClusterImage, broker_id: int, wanted: WantedIsr) -> ErrorCode:
    """The first error of a wish, in Kafka's order (`validateAlterPartitionData`)."""
    topic = image.topics_by_id.get(wanted.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(wanted.partition)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = _check_epochs(partition, broker_id, wanted)
    if error is not ErrorCode.NONE:
        return error
    if not _is_valid_isr(partition, [member.broker_id for member in wanted.isr]):
        return ErrorCode.INVALID_REQUEST
    if not _is_valid_recovery(partition, wanted):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, member) for member in wanted.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _check_epochs(partition: PartitionImage, broker_id: int, wanted: WantedIsr) -> ErrorCode:
    if (
        wanted.leader_epoch > partition.leader_epoch
        or wanted.partition_epoch > partition.partition_epoch
    ):
        # The sender knows more than this node, so another one must be the controller.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if partition.leader != broker_id:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE


def _is_valid_isr(partition: PartitionImage, isr: Collection[int]) -> bool:
    """Whether it has only replicas, none of them twice, and the leader among them."""
    members = set(isr)
    return (
        len(members) == len(isr)
        and members <= set(partition.replicas)
        and partition.leader in members
    )


def _is_valid_recovery(partition: PartitionImage, wanted: WantedIsr) -> bool:
    """Whether only a leader that has recovered takes others into the ISR, and stays recovered."""
    if wanted.recovery_state == RECOVERED:
        return True
    return (
        wanted.recovery_state == RECOVERING
        and len(wanted.isr) == 1
        and partition.leader_recovery_state == RECOVERING
    )


def _is_eligible(image: ClusterImage, member: IsrMember) -> bool:
    broker = image.brokers.get(member.broker_id)
    return (
        broker is not None and broker.is_active and member.broker_epoch in (ANY_EPOCH, broker.epoch)
    )
