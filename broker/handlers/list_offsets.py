"""ListOffsets (key 2), versions 1-11: offsets by timestamp, or by a word for one.

The words are negative timestamps, each known from some version on: -1 latest, -2 earliest, -3 the
largest timestamp (7, KIP-734), -4 earliest local (8, KIP-405), -5 last tiered (9, KIP-1005),
-6 earliest pending upload (11, KIP-1023). 2 brought the isolation level: read_committed sees
nothing beyond the last stable offset. A search in the remote tier makes the answer wait, from 10 on
for as long as the client says (KIP-1075).
"""

from collections import Counter
from collections.abc import Sequence

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ...clients.topic_partition import TopicPartition
from ...replication.offset_lookup import OffsetQuery, OffsetResult
from ...storage.fetch_data import FetchIsolation
from ..context import BrokerContext, Later, RequestContext

_CONSUMER_REPLICA_ID = -1
_FIRST_VERSION = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The first version that knows each of the words."""

_FIRST_WITH_LEADER_EPOCH = 4
_FIRST_WITH_TIMEOUT = 10


def handle(
    broker: BrokerContext, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Later[list[OffsetResult]]:
    """Look each partition up; one that is named twice is refused, once."""
    isolation = _isolation(request)
    named = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    queries: list[OffsetQuery] = []
    refusals: dict[int, ListOffsetsPartitionResponse] = {}
    index = 0
    for topic in request.topics:
        for each in topic.partitions:
            code = ErrorCode.NONE
            if named[topic.name, each.partition_index] > 1:
                code = ErrorCode.INVALID_REQUEST
            elif each.timestamp < 0:
                first = _FIRST_VERSION.get(each.timestamp)
                if first is None or context.api_version < first:
                    code = ErrorCode.UNSUPPORTED_VERSION
            if code:
                refusals[index] = ListOffsetsPartitionResponse(
                    partition_index=each.partition_index, error_code=code
                )
            else:
                partition = TopicPartition(topic.name, each.partition_index)
                queries.append(OffsetQuery(partition, each.timestamp, each.current_leader_epoch))
            index += 1
    timeout_ms = request.timeout_ms if context.api_version >= _FIRST_WITH_TIMEOUT else 0
    outcome = broker.replica_manager.list_offsets(queries, isolation, timeout_ms)
    if isinstance(outcome, list):
        return _response(context, request, refusals, outcome)

    def respond(results: list[OffsetResult]) -> ListOffsetsResponse:
        return _response(context, request, refusals, results)

    return Later(outcome, respond)


def _isolation(request: ListOffsetsRequest) -> FetchIsolation:
    if request.replica_id != _CONSUMER_REPLICA_ID:
        return FetchIsolation.LOG_END
    if request.isolation_level == 1:
        return FetchIsolation.TXN_COMMITTED
    return FetchIsolation.HIGH_WATERMARK


def _response(
    context: RequestContext,
    request: ListOffsetsRequest,
    refusals: dict[int, ListOffsetsPartitionResponse],
    results: Sequence[OffsetResult],
) -> ListOffsetsResponse:
    found = iter(results)
    # A topic may come in several parts; like each partition it is answered once.
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    index = 0
    for topic in request.topics:
        partitions = topics.setdefault(topic.name, {})
        for each in topic.partitions:
            answer = refusals.get(index) or _partition(context, next(found))
            partitions[each.partition_index] = answer
            index += 1
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(partitions.values()))
            for name, partitions in topics.items()
        ]
    )


def _partition(context: RequestContext, result: OffsetResult) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(
        partition_index=result.topic_partition.partition, error_code=result.error
    )
    if not result.error:
        answer.timestamp = result.timestamp
        answer.offset = result.offset
        if context.api_version >= _FIRST_WITH_LEADER_EPOCH:
            answer.leader_epoch = result.leader_epoch
    return answer
