"""AlterPartition and AssignReplicasToDirs as messages; the decisions know no messages.

A leader may ask for thousands of partitions at once. Each has its own result, so the controller
decides on some of them at a time (`parts_of`), and joins the answers. See `alter_partition.py` and
`directory_control.py`.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from ....clients.errors import ErrorCode
from ....clients.kafka_uuid import Uuid
from ....clients.protocol.messages.alter_partition import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from ....clients.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    PartitionData as RequestedPartition,
    TopicData as RequestedTopic,
)
from ....storage.config import LogConfig
from ...metadata.cluster_image import ClusterImage
from ...metadata.replica_epoch import NO_BROKER_EPOCH, ReplicaEpoch
from ..controller_config import Decision
from .alter_partition import AlterPartitionResult, IsrRequest, alter_partitions


def decide_alter_partition(
    image: ClusterImage, request: AlterPartitionRequest, defaults: LogConfig
) -> Decision[AlterPartitionResponse]:
    """Decide on each partition of a request.

    Raises KafkaError(STALE_BROKER_EPOCH) if the sender has another epoch.
    """
    sender = ReplicaEpoch(request.broker_id, request.broker_epoch)
    changes = [
        IsrRequest(
            topic.topic_id,
            partition.partition_index,
            partition.leader_epoch,
            partition.partition_epoch,
            _members(partition),
            partition.leader_recovery_state,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    decision = alter_partitions(image, sender, changes, defaults)
    return Decision(decision.records, _response(request, list(decision.answer)))


def parts_of(request: AlterPartitionRequest, size: int) -> list[AlterPartitionRequest]:
    """The same request as several, each for `size` partitions at most."""
    requested = [(topic.topic_id, each) for topic in request.topics for each in topic.partitions]
    if len(requested) <= size:
        return [request]
    parts: list[AlterPartitionRequest] = []
    for first in range(0, len(requested), size):
        part = AlterPartitionRequest(broker_id=request.broker_id, broker_epoch=request.broker_epoch)
        for topic_id, some in groupby(requested[first : first + size], itemgetter(0)):
            partitions = [partition for _, partition in some]
            part.topics.append(RequestedTopic(topic_id=topic_id, partitions=partitions))
        parts.append(part)
    return parts


def joined(answers: Sequence[AlterPartitionResponse]) -> AlterPartitionResponse:
    """The answer to a request whose parts have these answers."""
    response = AlterPartitionResponse()
    for answer in answers:
        for topic in answer.topics:
            if response.topics and response.topics[-1].topic_id == topic.topic_id:
                response.topics[-1].partitions += topic.partitions
            else:
                response.topics.append(topic)
    return response


def _members(partition: RequestedPartition) -> list[ReplicaEpoch]:
    """The ISR that is asked for; before version 3 its members have no epochs."""
    if partition.new_isr_with_epochs:
        return [
            ReplicaEpoch(broker.broker_id, broker.broker_epoch)
            for broker in partition.new_isr_with_epochs
        ]
    return [ReplicaEpoch(each, NO_BROKER_EPOCH) for each in partition.new_isr]


def _response(
    request: AlterPartitionRequest, results: list[AlterPartitionResult]
) -> AlterPartitionResponse:
    """The results are in the order of the request."""
    response = AlterPartitionResponse()
    each = iter(results)
    for topic in request.topics:
        partitions = [_result(next(each)) for _ in topic.partitions]
        response.topics.append(TopicData(topic_id=Uuid(topic.topic_id), partitions=partitions))
    return response


def _result(result: AlterPartitionResult) -> PartitionData:
    answer = PartitionData(partition_index=result.partition, error_code=result.error)
    state = result.state
    if result.error is ErrorCode.NONE and state is not None:
        answer.leader_id = state.leader
        answer.leader_epoch = state.leader_epoch
        answer.isr = list(state.isr)
        answer.leader_recovery_state = state.leader_recovery_state
        answer.partition_epoch = state.partition_epoch
    return answer
