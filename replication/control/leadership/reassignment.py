"""Reassigns partitions to other brokers, and lists ongoing reassignments (KIP-455).

A reassignment adds the new replicas to the old ones, waits until the new ones are in sync, and then
removes the old ones. A partition is being reassigned exactly while it has adding or removing
replicas. It completes with the change that brings the last awaited replica into the ISR, possibly
with the very change that asks for it (`partition_change.py`). If cancelled, the partition keeps its
old replicas (Kafka's `PartitionReassignmentReplicas`, `PartitionReassignmentRevert`).
"""

from typing import TYPE_CHECKING

from ....clients.errors import ErrorCode, KafkaError
from ....clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ....clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ....storage.config import LogConfig
from ...metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ..controller_config import Decision
from ..partition_control import check_assignment
from .leader_and_isr import TOPIC_DEFAULTS, PartitionChanges
from .partition_change import RECOVERING, PartitionTarget

if TYPE_CHECKING:
    from ....clients.protocol.schema import Message


def list_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The ongoing reassignments; topics and partitions that do not exist are skipped."""
    if request.topics is None:
        listed = [(topic, list(topic.partitions)) for topic in image.topics_by_name.values()]
    else:
        listed = [
            (image.topics_by_name[topic.name], topic.partition_indexes)
            for topic in request.topics
            if topic.name in image.topics_by_name
        ]
    topics: list[OngoingTopicReassignment] = []
    for topic, indexes in listed:
        moving = [
            _ongoing(index, topic.partitions[index])
            for index in indexes
            if index in topic.partitions and _is_moving(topic.partitions[index])
        ]
        if moving:
            topics.append(OngoingTopicReassignment(name=topic.name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _ongoing(index: int, partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )


def alter_reassignments(
    image: ClusterImage,
    request: AlterPartitionReassignmentsRequest,
    defaults: LogConfig = TOPIC_DEFAULTS,
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Decide on each partition: reassign it, or cancel its reassignment if replicas are null."""
    changes = PartitionChanges(image, defaults)
    records: list[Message] = []
    answer = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        results: list[ReassignablePartitionResponse] = []
        for partition_request in topic.partitions:
            result = ReassignablePartitionResponse(
                partition_index=partition_request.partition_index, error_message=None
            )
            try:
                topic_image, partition = _find(image, topic.name, partition_request.partition_index)
                if partition_request.replicas is None:
                    is_allowed = changes.allows_unclean_election(topic.name)
                    target = _called_off(partition, is_allowed)
                else:
                    check_assignment(image, partition_request.replicas, None)
                    if not request.allow_replication_factor_change:
                        _check_factor(partition, partition_request.replicas)
                    target = _reassign(partition, partition_request.replicas)
                record = changes.change(topic_image, partition_request.partition_index, target)
                records += [] if record is None else [record]
            except KafkaError as error:
                result.error_code = error.code
                result.error_message = error.message or None
            results.append(result)
        answer.responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    return Decision(records, answer)


def refused_reassignments(error: KafkaError) -> AlterPartitionReassignmentsResponse:
    """The response when the whole request fails."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code, error_message=error.message or None
    )


def _find(image: ClusterImage, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
        )
    partition = topic.partitions.get(index)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
        )
    return topic, partition


def _reassign(partition: PartitionImage, target: list[int]) -> PartitionTarget:
    """The new target replaces that of an ongoing reassignment.

    Replicas that were being added, and that the new target omits, are dropped at once. If only such
    replicas are in sync, they are removed like others instead: when a wanted one is in sync.
    """
    dropped = set(partition.adding_replicas) - set(target)
    isr = [replica for replica in partition.isr if replica not in dropped]
    if not isr:
        isr, dropped = list(partition.isr), set[int]()
    original = set(partition.replicas) - set(partition.adding_replicas)
    removing = sorted(set(partition.replicas) - dropped - set(target))
    return PartitionTarget(
        isr=isr,
        replicas=[*target, *removing],
        adding=sorted(set(target) - original),
        removing=removing,
    )


def _called_off(partition: PartitionImage, is_unclean_allowed: bool) -> PartitionTarget:
    """The state before the reassignment. Raises KafkaError.

    If none of the old replicas is in sync, the first one becomes the ISR, and records may be lost
    (`PartitionReassignmentRevert`).
    """
    if not _is_moving(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [
        replica for replica in partition.replicas if replica not in partition.adding_replicas
    ]
    isr = [replica for replica in partition.isr if replica not in partition.adding_replicas]
    target = PartitionTarget(isr=isr, replicas=replicas, adding=[], removing=[])
    if isr:
        return target
    if not is_unclean_allowed:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Cannot cancel the reassignment: none of the original replicas is in sync.",
        )
    return target._replace(isr=replicas[:1], recovery_state=RECOVERING)


def _check_factor(partition: PartitionImage, target: list[int]) -> None:
    current = len(partition.replicas) - len(partition.adding_replicas)
    if len(target) != current:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {current} to {len(target)}",
        )
