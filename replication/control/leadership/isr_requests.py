"""AlterPartition and AssignReplicasToDirs as messages; the decisions know no messages.

See `alter_partition.py` and `directory_control.py`.
"""

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
