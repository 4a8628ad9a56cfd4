"""Produce (key 0), versions 3-13: append batches, and answer when they are as safe as asked.

Each partition carries exactly one batch of magic 2 (KIP-98), zstd only from version 7 on (KIP-110).
13 names topics by id (KIP-516). With acks=0 nothing is answered; if something failed the connection
is closed instead, so that the producer notices. From 10 on, NOT_LEADER_OR_FOLLOWER comes with the
leader's address (KIP-951).

Transactions are not served: a transactional batch is refused with INVALID_TXN_STATE, because no
coordinator could ever end its transaction, and the last stable offset would stand still for ever.
"""

from collections.abc import Sequence
from typing import TypeAlias

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ...clients.topic_partition import TopicPartition
from ...replication.append_data import AppendEntry, AppendRequest, PartitionAppendResult
from ..context import BrokerContext, Later, NoAnswer, RequestContext

_BATCH_HEADER_BYTES = 61
_LENGTH = slice(8, 12)
_LOG_OVERHEAD = 12
_SMALLEST_RECORD = 14
_MAGIC = 16
_ATTRIBUTES_LOW = 22
_CODEC_MASK = 0x07
_ZSTD = 4
_TRANSACTIONAL = 0x10

_Refusals: TypeAlias = dict[int, PartitionProduceResponse]
"""What is refused before the log is asked, by its place in the request."""

_Outcome: TypeAlias = tuple[_Refusals, Sequence[PartitionAppendResult]]


def handle(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Later[list[PartitionAppendResult]] | None:
    """Append what can be appended; each partition is answered by itself."""
    if request.acks not in (-1, 0, 1):
        return _answer(broker, context, request, (_wrong_acks(request), ()))
    version = context.api_version
    entries: list[AppendEntry] = []
    refusals: _Refusals = {}
    index = nbytes = 0
    for topic in request.topic_data:
        name = _topic_name(broker, version, topic)
        for data in topic.partition_data:
            records = data.records
            code, message = _objection(version, name, data)
            if code or request.transactional_id is not None:
                code = code or ErrorCode.INVALID_TXN_STATE
                refusals[index] = PartitionProduceResponse(
                    index=data.index, error_code=code, base_offset=-1, error_message=message
                )
            else:
                assert isinstance(records, memoryview), "Nothing else is decoded."
                entries.append(AppendEntry(TopicPartition(name, data.index), records))
                nbytes += len(records)
            index += 1
    broker.bytes_in.value += nbytes
    appending = AppendRequest(entries, request.acks, request.timeout_ms)
    outcome = broker.replica_manager.append_records(appending) if entries else []
    if isinstance(outcome, list):
        return _answer(broker, context, request, (refusals, outcome))

    def respond(results: list[PartitionAppendResult]) -> ProduceResponse:
        return _answered(broker, context, request, (refusals, results))

    return Later(outcome, respond)


def _topic_name(broker: BrokerContext, version: int, topic: TopicProduceData) -> str:
    """The topic's name; '' for an id that nobody knows."""
    if version < 13:
        return topic.name
    known = broker.controller.image.topics_by_id.get(topic.topic_id)
    return "" if known is None else known.name


def _objection(
    version: int, topic: str, data: PartitionProduceData
) -> tuple[ErrorCode, str | None]:
    """What is wrong with one partition's records before the log is asked.

    The order is that in which Kafka looks at them (`ByteBufferLogInputStream.nextBatchSize`, then
    `ProduceRequest.validateRecords`), so that the codes are the same.
    """
    if version >= 13 and not topic:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    records = data.records
    size = len(records) if isinstance(records, memoryview) else 0
    if size < _LOG_OVERHEAD:
        return _refused(version, "must have exactly one record batch per partition")
    assert isinstance(records, memoryview)
    end = _LOG_OVERHEAD + int.from_bytes(records[_LENGTH], "big", signed=True)
    if end < _LOG_OVERHEAD + _SMALLEST_RECORD:
        return ErrorCode.CORRUPT_MESSAGE, "The size of the record batch is impossible"
    if size > _MAGIC and records[_MAGIC] > 2:
        return ErrorCode.CORRUPT_MESSAGE, f"There is no magic {records[_MAGIC]}"
    if size < end:
        return _refused(version, "must have exactly one record batch per partition")
    if records[_MAGIC] != 2:
        return _refused(version, "are only allowed to contain record batches with magic version 2")
    if size > end:
        return _refused(
            version, "are only allowed to contain exactly one record batch per partition"
        )
    if size < _BATCH_HEADER_BYTES:
        return ErrorCode.CORRUPT_MESSAGE, "The record batch is smaller than its own header"
    attributes = records[_ATTRIBUTES_LOW]
    if version < 7 and attributes & _CODEC_MASK == _ZSTD:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    if attributes & _TRANSACTIONAL:
        return ErrorCode.INVALID_TXN_STATE, "Transactions are not served"
    return ErrorCode.NONE, None


def _refused(version: int, rule: str) -> tuple[ErrorCode, str]:
    return ErrorCode.INVALID_RECORD, f"Produce requests with version {version} {rule}"


def _wrong_acks(request: ProduceRequest) -> _Refusals:
    partitions = (data for topic in request.topic_data for data in topic.partition_data)
    return {
        index: PartitionProduceResponse(
            index=data.index, error_code=ErrorCode.INVALID_REQUIRED_ACKS, base_offset=-1
        )
        for index, data in enumerate(partitions)
    }


def _partition(result: PartitionAppendResult) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(
        index=result.topic_partition.partition,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    if not result.error:
        return answer
    answer.error_code = result.error
    answer.error_message = result.error_message
    if result.record_errors:
        answer.record_errors = [
            BatchIndexAndErrorMessage(
                batch_index=each.batch_index, batch_index_error_message=each.message
            )
            for each in result.record_errors
        ]
    if result.current_leader is not None:
        leader_id, leader_epoch = result.current_leader
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return answer


def _answer(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, outcome: _Outcome
) -> ProduceResponse | None:
    if request.acks != 0:
        return _answered(broker, context, request, outcome)
    refusals, results = outcome
    codes = [each.error_code for each in refusals.values()] + [each.error for each in results]
    failed = next(filter(None, codes), None)
    if failed is not None:
        name = ErrorCode(failed).name
        raise NoAnswer(f"a Produce with acks=0 failed with {name}, which nothing else can tell")
    return None


def _answered(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, outcome: _Outcome
) -> ProduceResponse:
    """One answer for each partition, in the request's order."""
    refusals, results = outcome
    appended = iter(results)
    responses: list[TopicProduceResponse] = []
    leaders: set[int] = set()
    index = 0
    for topic in request.topic_data:
        partitions: list[PartitionProduceResponse] = []
        for _ in topic.partition_data:
            answer = refusals.get(index) or _partition(next(appended))
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leaders.add(answer.current_leader.leader_id)
            partitions.append(answer)
            index += 1
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    response = ProduceResponse(responses=responses)
    if leaders and context.api_version >= 10:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.nodes(leaders, context.listener)
        ]
    return response
