"""Elections requested by clients: preferred and unclean ones (KIP-183, KIP-460).

The preferred leader of a partition is its first replica. It is elected if it is in sync and its
broker is active; if it leads already, nothing changes and the result is ELECTION_NOT_NEEDED. An
unclean election is for a partition without a leader: the first active in-sync replica becomes the
leader, or else the first active replica. Records may then be lost, and the partition is RECOVERING.
The rules of elections are in `partition_change.py`.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from ....clients.errors import ErrorCode, KafkaError
from ....clients.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from ....clients.topic_partition import TopicPartition
from ....storage.config import LogConfig
from ...metadata.cluster_image import ClusterImage
from ...metadata.metadata_records import NO_LEADER, PartitionChangeRecord
from ..controller_config import Decision
from .leader_and_isr import TOPIC_DEFAULTS, PartitionChanges
from .partition_change import Election, PartitionTarget

if TYPE_CHECKING:
    from ....clients.protocol.schema import Message


class ElectionType(IntEnum):
    """The kind of election."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage, request: ElectLeadersRequest, defaults: LogConfig = TOPIC_DEFAULTS
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
    changes = PartitionChanges(image, defaults)
    records: list[Message] = []
    topics: list[ReplicaElectionResult] = []
    for name, partitions in _requested_partitions(image, request.topic_partitions):
        results: list[PartitionResult] = []
        for partition in partitions:
            try:
                records.append(_elect(image, changes, kind, TopicPartition(name, partition)))
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


def _requested_partitions(
    image: ClusterImage, topics: list[TopicPartitions] | None
) -> list[tuple[str, Iterable[int]]]:
    if topics is not None:
        return [(topic.topic, topic.partitions) for topic in topics]
    return [(topic.name, topic.partitions) for topic in image.topics_by_name.values()]


def _elect(
    image: ClusterImage,
    changes: PartitionChanges,
    kind: ElectionType,
    topic_partition: TopicPartition,
) -> PartitionChangeRecord:
    topic = image.topics_by_name.get(topic_partition.topic)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic_partition.topic}"
        )
    partition = topic.partitions.get(topic_partition.partition)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic_partition}"
        )
    is_preferred = kind is ElectionType.PREFERRED
    has_leader = partition.leader != NO_LEADER
    leads_already = partition.leader == partition.replicas[0] if is_preferred else has_leader
    if leads_already:
        raise KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    election = Election.PREFERRED if is_preferred else Election.UNCLEAN
    record = changes.change(topic, topic_partition.partition, PartitionTarget(), election)
    if record is None:
        raise _no_leader(kind)
    return record


def _no_leader(kind: ElectionType) -> KafkaError:
    if kind is ElectionType.PREFERRED:
        return KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    return KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )
