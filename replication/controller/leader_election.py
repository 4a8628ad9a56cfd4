"""Elections requested by clients: preferred and unclean ones (KIP-183, KIP-460).

The preferred leader of a partition is its first replica. It is elected if it is in sync and its
broker is active; if it leads already, nothing changes and the result is ELECTION_NOT_NEEDED. An
unclean election is for a partition without a leader: the first active in-sync replica becomes the
leader, or else the first active replica. Records may then be lost, so it happens only on request.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from ..metadata.cluster_image import ClusterImage, PartitionImage
from ..metadata.metadata_records import NO_LEADER, PartitionChangeRecord
from .controller_config import Decision

if TYPE_CHECKING:
    from ...clients.protocol.schema import Message


class ElectionType(IntEnum):
    """The kind of election."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    """Decide on each partition. Raises KafkaError(INVALID_REQUEST) for an unknown kind.

    If the request is for all partitions, those that need no election are left out of the response.
    An empty list of partitions gets an empty response.
    """
    if request.topic_partitions is not None and not request.topic_partitions:
        return Decision([], ElectLeadersResponse())
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        ) from None
    records: list[Message] = []
    topics: list[ReplicaElectionResult] = []
    for name, partitions in _requested(image, request.topic_partitions):
        results: list[PartitionResult] = []
        for partition in partitions:
            try:
                records.append(_elect(image, kind, name, partition))
            except KafkaError as error:
                result = PartitionResult(
                    partition_id=partition,
                    error_code=error.code,
                    error_message=error.message or None,
                )
            else:
                result = PartitionResult(partition_id=partition, error_message=None)
            is_idle = result.error_code == ErrorCode.ELECTION_NOT_NEEDED
            if not (is_idle and request.topic_partitions is None):
                results.append(result)
        topics.append(ReplicaElectionResult(topic=name, partition_result=results))
    return Decision(records, ElectLeadersResponse(replica_election_results=topics))


def refused_election(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """The response when the whole request fails."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=partition,
                        error_code=error.code,
                        error_message=error.message or None,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _requested(
    image: ClusterImage, topics: list[TopicPartitions] | None
) -> list[tuple[str, Iterable[int]]]:
    if topics is not None:
        return [(topic.topic, topic.partitions) for topic in topics]
    return [(topic.name, topic.partitions) for topic in image.topics_by_name.values()]


def _elect(
    image: ClusterImage, kind: ElectionType, name: str, number: int
) -> PartitionChangeRecord:
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}"
        )
    record = PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id)
    if kind is ElectionType.PREFERRED:
        record.leader = _preferred(image, partition)
    else:
        _elect_anyone(image, partition, record)
    return record


def _preferred(image: ClusterImage, partition: PartitionImage) -> int:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise _not_needed()
    if preferred not in partition.isr or not _is_active(image, preferred):
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    return preferred


def _elect_anyone(
    image: ClusterImage, partition: PartitionImage, record: PartitionChangeRecord
) -> None:
    """Elect the first active replica that is in sync, or else the first active one."""
    if partition.leader != NO_LEADER:
        raise _not_needed()
    active = [replica for replica in partition.replicas if _is_active(image, replica)]
    if not active:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    in_sync = [replica for replica in active if replica in partition.isr]
    record.leader = (in_sync or active)[0]
    if not in_sync:
        record.isr = [record.leader]
        record.eligible_leader_replicas = []
        record.last_known_elr = []


def _not_needed() -> KafkaError:
    return KafkaError(
        ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    )


def _is_active(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active
