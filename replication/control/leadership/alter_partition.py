"""Decides whether a leader's ISR changes as it asks (AlterPartition, KIP-497). Pure.

The controller hears only the leader of the current epoch, and only if it has seen the current
partition epoch: everything else is answered with an error, and the leader waits for newer metadata
or asks again. The broker of each member of the new ISR must be active, and must not have restarted
since the leader saw its epoch (KIP-841, KIP-903): it may have lost records that the leader counts
on. See `ReplicationControlManager.alterPartition`.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....clients.errors import ErrorCode, KafkaError
from ....clients.kafka_uuid import Uuid
from ....storage.config import LogConfig
from ...metadata.cluster_image import ClusterImage, PartitionImage, changed_partition
from ...metadata.metadata_records import NO_LEADER_CHANGE
from ...metadata.replica_epoch import NO_BROKER_EPOCH, ReplicaEpoch
from ..controller_config import Decision
from .leader_and_isr import TOPIC_DEFAULTS, PartitionChanges
from .partition_change import RECOVERED, RECOVERING, PartitionTarget

if TYPE_CHECKING:
    from ....clients.protocol.schema import Message


class IsrRequest(NamedTuple):
    """The ISR that the leader of one partition asks for."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[ReplicaEpoch]
    recovery_state: int = RECOVERED


class AlterPartitionResult(NamedTuple):
    """The answer for one partition: an error, or the state after the change."""

    topic_id: Uuid
    partition: int
    error: ErrorCode
    state: PartitionImage | None = None


def alter_partitions(
    image: ClusterImage,
    sender: ReplicaEpoch,
    requests: Sequence[IsrRequest],
    defaults: LogConfig = TOPIC_DEFAULTS,
) -> Decision[Sequence[AlterPartitionResult]]:
    """Decide on each partition; the results are in request order.

    A request that changes nothing is answered with the present state. Raises
    KafkaError(STALE_BROKER_EPOCH) if the sender has another epoch.
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
    for request in requests:
        key = (request.topic_id, request.partition)
        if key in decided:
            # The image does not have the first change: this one cannot be checked against it.
            results.append(AlterPartitionResult(*key, ErrorCode.INVALID_REQUEST))
            continue
        decided.add(key)
        error = _check(image, sender.broker_id, request)
        if error is not ErrorCode.NONE:
            results.append(AlterPartitionResult(*key, error))
            continue
        topic = image.topics_by_id[request.topic_id]
        state = topic.partitions[request.partition]
        isr = [member.broker_id for member in request.isr]
        target = PartitionTarget(isr=isr, recovery_state=request.recovery_state)
        record = changes.change(topic, request.partition, target)
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


def _check(image: ClusterImage, broker_id: int, request: IsrRequest) -> ErrorCode:
    """The first error of a request, in Kafka's order (`validateAlterPartitionData`)."""
    topic = image.topics_by_id.get(request.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(request.partition)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = _check_epochs(partition, broker_id, request)
    if error is not ErrorCode.NONE:
        return error
    if not _is_valid_isr(partition, [member.broker_id for member in request.isr]):
        return ErrorCode.INVALID_REQUEST
    if not _is_valid_recovery(partition, request):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, member) for member in request.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _check_epochs(partition: PartitionImage, broker_id: int, request: IsrRequest) -> ErrorCode:
    if (
        request.leader_epoch > partition.leader_epoch
        or request.partition_epoch > partition.partition_epoch
    ):
        # The sender knows more than this node, so another one must be the controller.
        return ErrorCode.NOT_CONTROLLER
    if request.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if partition.leader != broker_id:
        return ErrorCode.INVALID_REQUEST
    if request.partition_epoch < partition.partition_epoch:
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


def _is_valid_recovery(partition: PartitionImage, request: IsrRequest) -> bool:
    """Whether only a leader that has recovered takes others into the ISR, and stays recovered."""
    if request.recovery_state == RECOVERED:
        return True
    return (
        request.recovery_state == RECOVERING
        and len(request.isr) == 1
        and partition.leader_recovery_state == RECOVERING
    )


def _is_eligible(image: ClusterImage, member: ReplicaEpoch) -> bool:
    broker = image.brokers.get(member.broker_id)
    return (
        broker is not None
        and broker.is_active
        and member.broker_epoch in (NO_BROKER_EPOCH, broker.epoch)
    )
