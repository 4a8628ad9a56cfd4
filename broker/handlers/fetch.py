"""Fetch (key 1), versions 4-18: record batches, as they are in the log.

Batches are neither decoded nor copied: the response refers to regions of segment files. A fetch
waits up to `max_wait_ms` for `min_bytes`, unless a partition has an error.

v5: log start offsets
v7: sessions: responses have only the changed partitions (KIP-227)
v9: current leader epoch
v11: the client's rack, and the replica it should read from; any replica may answer (KIP-392)
v12: flexible; the epoch and offset where a fetcher's log diverges (KIP-595)
v13: topic ids instead of names (KIP-516)
v15: the replica id is in the replica state (KIP-903)
v16: addresses of new leaders
"""

from collections.abc import Container, Generator, Sequence
from functools import partial
from typing import TypeAlias

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ...clients.protocol.primitives import size_of
from ...clients.topic_partition import TopicIdPartition
from ...replication.leader.leader_fetch import InTurn
from ...replication.metadata.cluster_image import ClusterImage
from ...replication.partition.fetch_data import (
    CONSUMER_REPLICA_ID,
    FetchParams,
    FetchPartition,
    FetchResults,
)
from ...security.access import CLUSTER_ACTION, READ, TOPIC, Access, access_of
from ...storage.log.fetch_data import FetchIsolation
from ..metrics.metrics import Counter
from ..request.context import BrokerContext, Deferred, RequestContext
from ..request.fetch_session import (
    NO_SESSION,
    PARTITIONS_AT_ONCE,
    FetchContext,
    SessionPartition,
)

_FIRST_TELLING_LEADERS = 16
_FIRST_WITH_RACKS = 11
_FIRST_WITH_TOPIC_IDS = 13
_PARTITIONS_A_STEP = 128
_NOT_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

# In Python 3.11 looking up an enum member takes 0.1 µs, which would slow down every fetch.
_HIGH_WATERMARK, _TXN_COMMITTED = FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED

_Unknown: TypeAlias = dict[int, PartitionData]
"""By index in the request: the results of partitions that cannot be read."""
_Outcome: TypeAlias = FetchResponse | Deferred[FetchResults]


def handle(
    broker: BrokerContext, context: RequestContext, request: FetchRequest
) -> _Outcome | Generator[None, None, _Outcome]:
    """Read the partitions, or wait for more records; many partitions are read in steps."""
    params = params_of(broker, context, request)
    access = access_of(broker, context)
    # Everyone can state a replica id, and a follower's session takes the place of a consumer's.
    is_follower = params.is_from_follower and (
        access is None or access.allows_cluster(CLUSTER_ACTION, audited=False)
    )
    try:
        fetch = broker.fetch_sessions.begin(
            request,
            is_follower,
            broker.environment.wall_clock_ms(),
            topic_ids=context.api_version >= _FIRST_WITH_TOPIC_IDS,
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    denied: Container[int] = ()
    if access is not None:
        denied = _denied_indexes(access, broker, context, params, fetch)
    if len(fetch.partitions) > PARTITIONS_AT_ONCE:
        queue = broker.follower_requests if is_follower else broker.large_requests
        in_turn = partial(queue.submit, client=(context.principal, context.client_host))
        return _in_steps(broker, context, params, fetch, denied, in_turn)
    everything = range(len(fetch.partitions))
    partitions, unknown = _resolve_all(broker, context, fetch, everything, denied)
    if not partitions:
        return _respond(broker, context, params, fetch, unknown, [])
    outcome = broker.replica_manager.leader_fetch.fetch(params, partitions)
    if isinstance(outcome, list):
        return _respond(broker, context, params, fetch, unknown, outcome)
    return Deferred(outcome, partial(_respond, broker, context, params, fetch, unknown))


def _in_steps(
    broker: BrokerContext,
    context: RequestContext,
    params: FetchParams,
    fetch: FetchContext,
    denied: Container[int],
    in_turn: InTurn,
) -> Generator[None, None, _Outcome]:
    """The same for thousands of partitions, with pauses."""
    partitions: list[FetchPartition] = []
    unknown: _Unknown = {}
    count = len(fetch.partitions)
    for begin in range(0, count, _PARTITIONS_A_STEP):
        indexes = range(begin, min(begin + _PARTITIONS_A_STEP, count))
        readable, others = _resolve_all(broker, context, fetch, indexes, denied)
        partitions += readable
        unknown.update(others)
        yield
    if not partitions:
        return _respond(broker, context, params, fetch, unknown, [])
    fetching = broker.replica_manager.leader_fetch
    outcome = yield from fetching.fetch_in_steps(params, partitions, in_turn)
    if isinstance(outcome, list):
        return _respond(broker, context, params, fetch, unknown, outcome)
    return Deferred(outcome, partial(_respond, broker, context, params, fetch, unknown))


def _resolve_all(
    broker: BrokerContext,
    context: RequestContext,
    fetch: FetchContext,
    indexes: range,
    denied: Container[int],
) -> tuple[list[FetchPartition], _Unknown]:
    """The partitions to read of those with these indexes, and the results of all others."""
    version, image = context.api_version, broker.controller.image
    partitions: list[FetchPartition] = []
    unknown: _Unknown = {}
    for index in indexes:
        partition = fetch.partitions[index]
        if index in denied:
            resolved: FetchPartition | ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            resolved = resolve(image, partition, version)
        if isinstance(resolved, FetchPartition):
            partitions.append(resolved)
        else:
            unknown[index] = PartitionData(
                partition_index=partition.request.partition,
                error_code=resolved,
                high_watermark=-1,
                records=b"",
            )
    return partitions, unknown


def _denied_indexes(
    access: Access,
    broker: BrokerContext,
    context: RequestContext,
    params: FetchParams,
    fetch: FetchContext,
) -> Container[int]:
    """The indexes of the partitions that the client may not read, of the whole session.

    Decided for each request: what a session holds was allowed earlier, if at all.
    """
    everything = range(len(fetch.partitions))
    if params.is_from_follower:
        return () if access.allows_cluster(CLUSTER_ACTION) else everything
    by_id = context.api_version >= _FIRST_WITH_TOPIC_IDS
    if by_id:
        by_ids = broker.controller.image.topics_by_id
        topics = (by_ids.get(partition.topic_id) for partition in fetch.partitions)
        names = ["" if topic is None else topic.name for topic in topics]
    else:
        names = [partition.topic for partition in fetch.partitions]
    # An id that is not there has no name, and so no entry can be about it.
    allowed = access.allowed(READ, TOPIC, filter(None, names) if by_id else names)
    return {
        index
        for index in everything
        if names[index] not in allowed and not (by_id and not names[index])
    }


def params_of(broker: BrokerContext, context: RequestContext, request: FetchRequest) -> FetchParams:
    """The parameters that all partitions of the request share."""
    state = request.replica_state
    replica_id = state.replica_id if context.api_version >= 15 else request.replica_id
    rack: str | None = None
    if replica_id >= 0:
        isolation, max_bytes = FetchIsolation.LOG_END, request.max_bytes
    else:
        replica_id = CONSUMER_REPLICA_ID
        isolation = _TXN_COMMITTED if request.isolation_level == 1 else _HIGH_WATERMARK
        max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        if context.api_version >= _FIRST_WITH_RACKS:
            rack = request.rack_id
    return FetchParams(
        replica_id,
        state.replica_epoch,
        request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        isolation,
        rack,
        context.listener,
    )


def resolve(
    image: ClusterImage, partition: SessionPartition, version: int
) -> FetchPartition | ErrorCode:
    """The partition to read, or its error code."""
    if version >= _FIRST_WITH_TOPIC_IDS:
        topic = image.topics_by_id.get(partition.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = image.topics_by_name.get(partition.topic)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = partition.request
    number = request.partition
    if number not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return FetchPartition(
        TopicIdPartition(topic.topic_id, topic.name, number),
        request.fetch_offset,
        request.partition_max_bytes,
        request.current_leader_epoch,
        request.last_fetched_epoch,
        request.log_start_offset,
    )


def _respond(
    broker: BrokerContext,
    context: RequestContext,
    params: FetchParams,
    fetch: FetchContext,
    unknown: _Unknown,
    results: FetchResults,
) -> FetchResponse:
    """The response, with these results and those of partitions that cannot be read."""
    bytes_out = broker.replication_bytes_out if params.is_from_follower else broker.bytes_out
    return to_response(broker, context, fetch, _merge(unknown, results), bytes_out)


def _merge(unknown: _Unknown, results: FetchResults) -> FetchResults:
    """One result for each partition, in request order."""
    if not unknown:
        return results
    read = iter(results)
    total = len(unknown) + len(results)
    return [unknown.get(index) or next(read) for index in range(total)]


def to_response(
    broker: BrokerContext,
    context: RequestContext,
    fetch: FetchContext,
    answers: FetchResults,
    bytes_out: Counter | None = None,
) -> FetchResponse:
    """The response with these results, which are in request order.

    Their records are counted in `bytes_out`, by default those sent to consumers.
    """
    pairs = list(zip(fetch.partitions, answers, strict=True))
    session = fetch.session
    if session is not None and fetch.is_incremental:
        pairs = session.results_to_send(pairs)
    elif session is not None:
        session.note_all(pairs)
    response = FetchResponse(
        session_id=NO_SESSION if session is None else session.session_id,
        responses=_by_topic(pairs),
    )
    sent = 0
    leaders: set[int] = set()
    for _, answer in pairs:
        if answer.records:
            sent += size_of(answer.records)
        if answer.error_code in _NOT_LEADER:
            if context.api_version < _FIRST_TELLING_LEADERS:
                answer.current_leader = LeaderIdAndEpoch()
            else:
                leaders.add(answer.current_leader.leader_id)
    (bytes_out or broker.bytes_out).add(sent)
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.nodes(leaders, context.listener)
        ]
    return response


def _by_topic(
    pairs: Sequence[tuple[SessionPartition, PartitionData]],
) -> list[FetchableTopicResponse]:
    """Adjacent partitions of one topic share an entry; the order of partitions is kept."""
    topics: list[FetchableTopicResponse] = []
    last: SessionPartition | None = None
    for partition, answer in pairs:
        if last is None or partition.topic_id != last.topic_id or partition.topic != last.topic:
            topics.append(
                FetchableTopicResponse(
                    topic=partition.topic, topic_id=partition.topic_id, partitions=[]
                )
            )
            last = partition
        topics[-1].partitions.append(answer)
    return topics
