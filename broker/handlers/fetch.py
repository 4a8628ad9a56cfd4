"""Fetch (key 1), versions 4-18: record batches, as they lie in the log.

Nothing is decoded or copied: what is answered are regions of segment files. With a session
(7, KIP-227) only what is new is answered. 12 tells a fetcher where its log diverges (KIP-595),
13 names topics by id (KIP-516), 15 moved the replica id (KIP-903), 16 tells the leader's address.

A fetch waits up to `max_wait_ms` for `min_bytes`, unless something is wrong with a partition.
"""

from collections.abc import Sequence

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ...clients.protocol.primitives import size_of
from ...clients.topic_partition import TopicIdPartition
from ...replication.cluster_image import ClusterImage
from ...replication.fetch_data import (
    CONSUMER_REPLICA_ID,
    FetchParams,
    FetchPartition,
    FetchPartitionResult,
)
from ...storage.fetch_data import FetchIsolation
from ..context import BrokerContext, Later, RequestContext
from ..fetch_session import NO_SESSION, FetchContext, PartitionKey, SessionPartition

_NOT_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(
    broker: BrokerContext, context: RequestContext, request: FetchRequest
) -> FetchResponse | Later[list[FetchPartitionResult]]:
    """Read what is there, or wait for it."""
    version = context.api_version
    params = _params(broker, context, request)
    try:
        fetch = broker.fetch_sessions.begin(
            request, params.is_from_follower, broker.environment.wall_clock_ms()
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    image = broker.controller.image
    wanted: list[FetchPartition] = []
    unknown: dict[int, PartitionData] = {}
    for index, partition in enumerate(fetch.partitions):
        found = _resolve(image, partition, version)
        if isinstance(found, FetchPartition):
            wanted.append(found)
        else:
            unknown[index] = PartitionData(
                partition_index=partition.key.partition,
                error_code=found,
                high_watermark=-1,
                records=b"",
            )
    if not wanted:
        return _response(broker, context, fetch, _merge(unknown, ()))
    outcome = broker.replica_manager.fetch(params, wanted)
    if isinstance(outcome, list):
        return _response(broker, context, fetch, _merge(unknown, outcome))

    def respond(results: list[FetchPartitionResult]) -> FetchResponse:
        return _response(broker, context, fetch, _merge(unknown, results))

    return Later(outcome, respond)


def _params(broker: BrokerContext, context: RequestContext, request: FetchRequest) -> FetchParams:
    newer = context.api_version >= 15
    replica_id = request.replica_state.replica_id if newer else request.replica_id
    is_consumer = replica_id < 0
    if not is_consumer:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level == 1:
        isolation = FetchIsolation.TXN_COMMITTED
    else:
        isolation = FetchIsolation.HIGH_WATERMARK
    max_bytes = request.max_bytes
    if is_consumer:
        max_bytes = min(max_bytes, broker.fetch_max_bytes)
    return FetchParams(
        replica_id=CONSUMER_REPLICA_ID if is_consumer else replica_id,
        replica_epoch=request.replica_state.replica_epoch,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        isolation=isolation,
    )


def _resolve(
    image: ClusterImage, partition: SessionPartition, version: int
) -> FetchPartition | ErrorCode:
    """What to read, or why it cannot be read."""
    key = partition.key
    if version >= 13:
        topic = image.topics_by_id.get(key.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = image.topics_by_name.get(key.topic)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if key.partition not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = partition.wanted
    return FetchPartition(
        TopicIdPartition(topic.topic_id, topic.name, key.partition),
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
        asked.log_start_offset,
    )


def _merge(
    unknown: dict[int, PartitionData], results: Sequence[FetchPartitionResult]
) -> list[PartitionData]:
    """One answer for each partition, in the order asked."""
    if not unknown:
        return [_partition(result) for result in results]
    read = iter(results)
    total = len(unknown) + len(results)
    return [unknown.get(index) or _partition(next(read)) for index in range(total)]


def _partition(result: FetchPartitionResult) -> PartitionData:
    records = result.records
    answer = PartitionData(
        partition_index=result.topic_id_partition.partition,
        error_code=result.error,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=None,
        records=b"" if records is None else records,
    )
    if result.aborted_transactions is not None:
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in result.aborted_transactions
        ]
    if result.diverging_epoch is not None:
        epoch, end_offset = result.diverging_epoch
        answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if result.current_leader is not None:
        leader_id, leader_epoch = result.current_leader
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return answer


def _response(
    broker: BrokerContext,
    context: RequestContext,
    fetch: FetchContext,
    answers: list[PartitionData],
) -> FetchResponse:
    pairs = list(zip(fetch.partitions, answers, strict=True))
    session = fetch.session
    if session is not None:
        news = session.news(pairs)
        if fetch.is_incremental:
            pairs = news
    response = FetchResponse(
        session_id=NO_SESSION if session is None else session.session_id,
        responses=_by_topic(pairs),
    )
    sent = 0
    for _, answer in pairs:
        records = answer.records
        if records is not None:
            sent += size_of(records)
    broker.bytes_out.add(sent)
    if context.api_version >= 16:
        leaders = {
            answer.current_leader.leader_id
            for _, answer in pairs
            if answer.error_code and answer.error_code in _NOT_LEADER
        }
        if leaders:
            response.node_endpoints = [
                NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in broker.nodes(leaders, context.listener)
            ]
    return response


def _by_topic(
    pairs: Sequence[tuple[SessionPartition, PartitionData]],
) -> list[FetchableTopicResponse]:
    """Neighbours of one topic share an entry; the order of partitions is kept."""
    topics: list[FetchableTopicResponse] = []
    last: PartitionKey | None = None
    for partition, answer in pairs:
        key = partition.key
        if last is None or key.topic_id != last.topic_id or key.topic != last.topic:
            topics.append(
                FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id, partitions=[])
            )
            last = key
        topics[-1].partitions.append(answer)
    return topics
