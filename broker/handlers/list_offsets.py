"""ListOffsets (key 2), versions 1-11: offsets by timestamp, or by a special timestamp.

Special timestamps are negative: -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local,
-5 last tiered, -6 earliest pending upload. A search in the remote tier delays the response.
Partitions are looked up in steps, and other requests get their turn in between. Topics that the
client may not describe come last.

v2: isolation level: read_committed sees nothing beyond the last stable offset
v4: leader epochs
v6: flexible
v7: -3 (KIP-734)
v8: -4 (KIP-405)
v9: -5 (KIP-1005)
v10: the client's timeout for searches in the remote tier (KIP-1075)
v11: -6 (KIP-1023)
"""

import asyncio
from collections import Counter
from collections.abc import Generator, Sequence
from itertools import chain

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ...clients.runtime.steps import finished
from ...clients.topic_partition import TopicPartition
from ...replication.leader.offset_lookup import OffsetQuery, OffsetResult
from ...security.access import DESCRIBE, TOPIC, access_of
from ...storage.log.fetch_data import FetchIsolation
from ..request.context import BrokerContext, Deferred, RequestContext

_CONSUMER_REPLICA_ID = -1
_FIRST_VERSION = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The first version that supports each special timestamp."""

_PARTITIONS_A_STEP = 100

_FIRST_WITH_LEADER_EPOCH = 4
_FIRST_WITH_TIMEOUT = 10


def handle(
    broker: BrokerContext, context: RequestContext, request: ListOffsetsRequest
) -> Generator[None, None, ListOffsetsResponse | Deferred[list[list[OffsetResult]]]]:
    """Look up each partition; one that is named twice is refused, and returned once."""
    isolation = _isolation(request)
    denied = _deny(broker, context, request)
    queries, refusals = yield from _sorted_out(context, request)
    timeout_ms = request.timeout_ms if context.api_version >= _FIRST_WITH_TIMEOUT else 0
    results: list[list[OffsetResult]] = []
    waiting: list[tuple[int, asyncio.Future[list[OffsetResult]]]] = []
    for start in range(0, len(queries), _PARTITIONS_A_STEP):
        step = queries[start : start + _PARTITIONS_A_STEP]
        outcome = broker.replica_manager.list_offsets(step, isolation, timeout_ms)
        if isinstance(outcome, asyncio.Future):
            waiting.append((len(results), outcome))
            results.append([])
        else:
            results.append(outcome)
        yield
    if not waiting:
        return _with_denied((yield from _response(context, request, refusals, results)), denied)

    def respond(later_results: list[list[OffsetResult]]) -> ListOffsetsResponse:
        for (index, _), each in zip(waiting, later_results, strict=True):
            results[index] = each
        return _with_denied(finished(_response(context, request, refusals, results)), denied)

    return Deferred(asyncio.gather(*(each for _, each in waiting)), respond)


def _deny(
    broker: BrokerContext, context: RequestContext, request: ListOffsetsRequest
) -> list[ListOffsetsTopic]:
    """Take the topics out of the request that the client may not describe."""
    access = access_of(broker, context)
    if access is None:
        return []
    topics = request.topics
    allowed = access.allowed(DESCRIBE, TOPIC, (topic.name for topic in topics))
    request.topics = [topic for topic in topics if topic.name in allowed]
    return [topic for topic in topics if topic.name not in allowed]


def _with_denied(
    response: ListOffsetsResponse, denied: Sequence[ListOffsetsTopic]
) -> ListOffsetsResponse:
    response.topics += [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                )
                for partition in topic.partitions
            ],
        )
        for topic in denied
    ]
    return response


def _sorted_out(
    context: RequestContext, request: ListOffsetsRequest
) -> Generator[None, None, tuple[list[OffsetQuery], dict[int, ListOffsetsPartitionResponse]]]:
    """The queries, and the refused partitions by their index in the request."""
    named = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    yield
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
            if not index % _PARTITIONS_A_STEP:
                yield
    return queries, refusals


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
    results: Sequence[list[OffsetResult]],
) -> Generator[None, None, ListOffsetsResponse]:
    remaining = chain.from_iterable(results)
    # A topic that is named several times is returned once, like each partition.
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    index = 0
    for topic in request.topics:
        partitions = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            answer = refusals.get(index) or _partition(context, next(remaining))
            partitions[partition.partition_index] = answer
            index += 1
            if not index % _PARTITIONS_A_STEP:
                yield
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
