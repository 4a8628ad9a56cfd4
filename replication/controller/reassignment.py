"""Reassigns partitions to other brokers, and lists ongoing reassignments (KIP-455).

A reassignment adds the new replicas to the old ones, waits until the new ones are in sync, and then
removes the old ones. A partition is being reassigned exactly while it has adding or removing
replicas. If there is nothing to wait for, the reassignment completes in the same change, and if the
replicas stay the same, nothing is recorded. If cancelled, the partition keeps its old replicas
(Kafka's `PartitionReassignmentReplicas`, `PartitionReassignmentRevert`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.kafka_uuid import Uuid
from ...clients.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ...clients.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ..metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ..metadata.metadata_records import NO_LEADER, PartitionChangeRecord
from .controller_config import Decision
from .partition_control import check_assignment, directory_of

if TYPE_CHECKING:
    from ...clients.protocol.schema import Message


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
    image: ClusterImage, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Decide on each partition: reassign it, or cancel its reassignment if replicas are null."""
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
                record = _change(
                    image,
                    topic_image,
                    partition,
                    partition_request,
                    request.allow_replication_factor_change,
                )
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


class _Replicas(NamedTuple):
    """The replicas of a partition after the change."""

    replicas: list[int]
    isr: list[int]
    adding: list[int]
    removing: list[int]


def _change(
    image: ClusterImage,
    topic: TopicImage,
    partition: PartitionImage,
    partition_request: ReassignablePartition,
    may_change_factor: bool,
) -> PartitionChangeRecord | None:
    record = PartitionChangeRecord(
        partition_id=partition_request.partition_index, topic_id=topic.topic_id
    )
    if partition_request.replicas is None:
        return _call_off(image, partition, record)
    target = partition_request.replicas
    check_assignment(image, target, None)
    # Replicas still being added are not current: those that `target` omits are dropped at once.
    current = [each for each in partition.replicas if each not in partition.adding_replicas]
    if not may_change_factor and len(target) != len(current):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(current)} to {len(target)}",
        )
    adding = sorted(set(target) - set(current))
    removing = sorted(set(current) - set(target))
    replicas = [*target, *removing]
    isr = list(partition.isr)
    if set(adding) <= set(isr) and set(isr) - set(removing):
        replicas, isr = list(target), [each for each in isr if each not in removing]
        adding, removing = [], []
    return _settled(image, partition, record, _Replicas(replicas, isr, adding, removing))


def _call_off(
    image: ClusterImage, partition: PartitionImage, record: PartitionChangeRecord
) -> PartitionChangeRecord | None:
    if not _is_moving(partition):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [each for each in partition.replicas if each not in partition.adding_replicas]
    isr = [each for each in partition.isr if each not in partition.adding_replicas]
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Cannot cancel the reassignment: none of the original replicas is in sync.",
        )
    return _settled(image, partition, record, _Replicas(replicas, isr, [], []))


def _settled(
    image: ClusterImage, before: PartitionImage, record: PartitionChangeRecord, after: _Replicas
) -> PartitionChangeRecord | None:
    """The record of the differences; None if there are none."""
    new_assignment = (tuple(after.replicas), tuple(after.adding), tuple(after.removing))
    if new_assignment == (before.replicas, before.adding_replicas, before.removing_replicas):
        return None
    directories = dict(zip(before.replicas, before.directories, strict=False))
    record.replicas = after.replicas
    record.directories = [_directory(image, directories, replica) for replica in after.replicas]
    record.adding_replicas = after.adding
    record.removing_replicas = after.removing
    if tuple(after.isr) != before.isr:
        record.isr = after.isr
    if before.leader != NO_LEADER and before.leader not in after.replicas:
        active = [each for each in after.isr if image.brokers[each].is_active]
        record.leader = active[0] if active else NO_LEADER
    return record


def _directory(image: ClusterImage, directories: Mapping[int, Uuid], replica: int) -> Uuid:
    return directories[replica] if replica in directories else directory_of(image.brokers[replica])
