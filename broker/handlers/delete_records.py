"""DeleteRecords (key 21), versions 0-2: deletes records, by raising the log start offset for good.

The response has the low watermark: the smallest log start offset of all replicas. A partition named
twice is returned once, and its last offset counts.

v2: flexible; nothing else changed
"""

from collections.abc import Sequence

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ...clients.topic_partition import TopicPartition
from ...replication.leader.delete_records import DeleteRecordsResult
from ...security.access import DELETE, TOPIC, access_of
from ..request.context import BrokerContext, Deferred, RequestContext


def handle(
    broker: BrokerContext, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Deferred[list[DeleteRecordsResult]]:
    """Delete at once; the response waits for the followers, if any."""
    offsets = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    access = access_of(broker, context)
    denied: list[DeleteRecordsResult] = []
    if access is not None:
        allowed = access.allowed(DELETE, TOPIC, (partition.topic for partition in offsets))
        denied = [
            _denied_result(partition) for partition in offsets if partition.topic not in allowed
        ]
        offsets = {
            partition: offset for partition, offset in offsets.items() if partition.topic in allowed
        }
    outcome = broker.replica_manager.delete_records(list(offsets.items()), request.timeout_ms)
    if isinstance(outcome, list):
        return _response([*outcome, *denied])

    def respond(results: Sequence[DeleteRecordsResult]) -> DeleteRecordsResponse:
        return _response([*results, *denied])

    return Deferred(outcome, respond)


def _denied_result(partition: TopicPartition) -> DeleteRecordsResult:
    return DeleteRecordsResult(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _response(results: Sequence[DeleteRecordsResult]) -> DeleteRecordsResponse:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for result in results:
        name, partition = result.topic_partition
        topic = topics.setdefault(name, DeleteRecordsTopicResult(name=name))
        topic.partitions.append(
            DeleteRecordsPartitionResult(
                partition_index=partition,
                low_watermark=result.low_watermark,
                error_code=result.error,
            )
        )
    return DeleteRecordsResponse(topics=list(topics.values()))
