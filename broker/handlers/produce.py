"""Produce (key 0), versions 3-13: append batches, and answer when they are as safe as asked.

Each partition carries exactly one batch of magic 2 (KIP-98), zstd only from version 7 on (KIP-110).
13 names topics by id (KIP-516). With acks=0 nothing is answered; if something failed the connection
is closed instead, so that the producer notices. Bytes that cannot be cut into batches at all fail
every partition of the request with CORRUPT_MESSAGE. From 10 on, NOT_LEADER_OR_FOLLOWER comes with
the leader's address (KIP-951).

The first batch of a transaction in a partition is appended only if the coordinator knows of the
partition; from 12 on it learns of it here (`transaction_membership.py`, KIP-890). Transactional
batches of a request that names no transactional id fail all of it.
"""

from collections.abc import Coroutine
from struct import Struct
from typing import TypeAlias

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ...clients.protocol.schema import Chunk
from ...clients.topic_partition import TopicPartition
from ...replication.append_data import AppendEntry, AppendRequest, PartitionAppendResult
from ..context import BrokerContext, Later, NoAnswer, RequestContext

_BATCH_HEADER = Struct(">8xi4xb5xB38x")
"""Length, magic and attributes, in the 61 bytes that begin a batch."""
_LENGTH = slice(8, 12)
_LOG_OVERHEAD = 12
_SMALLEST_RECORD = 14
_MAGIC = 16
_ATTRIBUTES_LOW = 22
_CODEC_MASK = 0x07
_ZSTD = 4
_TRANSACTIONAL = 0x10

_Objection: TypeAlias = tuple[ErrorCode, str | None]

_NO_BATCHES: _Objection = ErrorCode.CORRUPT_MESSAGE, None
"""The bytes cannot be cut into batches: a length or a magic that none has."""
_TRANSACTIONAL_BATCH: _Objection = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
"""Only a request that names its transactional id may hold such a batch."""
_NOT_ONE_BATCH = "must have exactly one record batch per partition"

_FIRST_KNOWING_ABORTABLE = 11
_FIRST_ADDING_PARTITIONS = 12

_Results: TypeAlias = list[PartitionAppendResult]
"""One for each partition, in the request's order."""


def handle(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Later[_Results] | Coroutine[object, object, ProduceResponse | None] | None:
    """Append what can be appended; each partition is answered by itself."""
    version = context.api_version
    entries: list[AppendEntry] = []
    refused: dict[int, PartitionAppendResult] = {}
    index = nbytes = 0
    for topic in request.topic_data:
        name = _topic_name(broker, version, topic)
        for data in topic.partition_data:
            partition = TopicPartition(name, data.index)
            records = data.records
            objection = _objection(version, name, records)
            if objection is _TRANSACTIONAL_BATCH and request.transactional_id is not None:
                objection = None
            if objection is not None:
                code, message = objection
                if objection is _NO_BATCHES or objection is _TRANSACTIONAL_BATCH:
                    # Kafka looks through all of them for transactions before it does anything.
                    return _answer(broker, context, request, _all_refused(request, code))
                if name and broker.controller.image.partition(name, data.index) is None:
                    # Kafka asks that first; here it is soon enough for what is refused anyway.
                    code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
                refused[index] = PartitionAppendResult(partition, code, error_message=message)
            else:
                assert isinstance(records, memoryview), "Nothing else is decoded."
                entries.append(AppendEntry(partition, records))
                nbytes += len(records)
            index += 1
    if request.acks not in (-1, 0, 1):
        results = _in_order(refused, _wrong_acks(broker, entries))
        return _answer(broker, context, request, results)
    broker.bytes_in.value += nbytes
    if request.transactional_id is not None and entries:
        return _in_transaction(broker, context, request, (refused, entries))
    appending = AppendRequest(entries, request.acks, request.timeout_ms)
    outcome = broker.replica_manager.append_records(appending) if entries else []
    if isinstance(outcome, list):
        return _answer(broker, context, request, _in_order(refused, outcome))

    def respond(results: _Results) -> ProduceResponse:
        return _answered(broker, context, request, _in_order(refused, results))

    return Later(outcome, respond)


def _in_transaction(
    broker: BrokerContext,
    context: RequestContext,
    request: ProduceRequest,
    parts: tuple[dict[int, PartitionAppendResult], list[AppendEntry]],
) -> ProduceResponse | Coroutine[object, object, ProduceResponse | None] | None:
    """Append what its transaction may write; non-transactional batches go with the others."""
    from ..transaction_membership import Support
    from ..transactional_append import append_in_transaction

    version = context.api_version
    support = Support(version >= _FIRST_ADDING_PARTITIONS, version >= _FIRST_KNOWING_ABORTABLE)
    outcome = append_in_transaction(broker, request, parts, support)
    if isinstance(outcome, list):
        return _answer(broker, context, request, outcome)

    async def later() -> ProduceResponse | None:
        return _answer(broker, context, request, await outcome)

    return later()


def _in_order(refused: dict[int, PartitionAppendResult], results: _Results) -> _Results:
    """What was refused before the log was asked, put where it stood among the rest."""
    for index, result in refused.items():
        results.insert(index, result)
    return results


def _wrong_acks(broker: BrokerContext, entries: list[AppendEntry]) -> _Results:
    """Kafka asks for the acks last, of what it would append otherwise."""
    image = broker.controller.image
    return [
        PartitionAppendResult(
            partition,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if image.partition(*partition) is None
            else ErrorCode.INVALID_REQUIRED_ACKS,
        )
        for partition, _ in entries
    ]


def _topic_name(broker: BrokerContext, version: int, topic: TopicProduceData) -> str:
    """The topic's name; '' for an id that nobody knows."""
    if version < 13:
        return topic.name
    known = broker.controller.image.topics_by_id.get(topic.topic_id)
    return "" if known is None else known.name


def _objection(version: int, topic: str, records: Chunk | None) -> _Objection | None:
    """What is wrong with one partition's records before the log is asked; nearly always nothing.

    One look at the header finds that out. Otherwise the questions are asked one by one in Kafka's
    order, so that the codes are the same (`ByteBufferLogInputStream.nextBatchSize`, then
    `ProduceRequest.validateRecords`).
    """
    if version >= 13 and not topic:
        found = _first_objection(version, records) if isinstance(records, memoryview) else None
        return _NO_BATCHES if found is _NO_BATCHES else (ErrorCode.UNKNOWN_TOPIC_ID, None)
    if not isinstance(records, memoryview):
        return _refused(version, _NOT_ONE_BATCH)
    if (size := len(records)) >= _BATCH_HEADER.size and version >= 7:
        length, magic, attributes = _BATCH_HEADER.unpack_from(records)
        if length + _LOG_OVERHEAD == size and magic == 2 and not attributes & _TRANSACTIONAL:
            return None
    return _first_objection(version, records)


def _first_objection(version: int, records: memoryview) -> _Objection | None:
    size = len(records)
    if size < _LOG_OVERHEAD:
        return _refused(version, _NOT_ONE_BATCH)
    end = _LOG_OVERHEAD + int.from_bytes(records[_LENGTH], "big", signed=True)
    if end < _LOG_OVERHEAD + _SMALLEST_RECORD:
        return _NO_BATCHES
    if size > _MAGIC and records[_MAGIC] > 2:
        return _NO_BATCHES
    if size < end:
        return _refused(version, _NOT_ONE_BATCH)
    if records[_MAGIC] != 2:
        return _refused(version, "are only allowed to contain record batches with magic version 2")
    if size > end:
        return _refused(
            version, "are only allowed to contain exactly one record batch per partition"
        )
    if size < _BATCH_HEADER.size:
        return ErrorCode.CORRUPT_MESSAGE, "The record batch is smaller than its own header"
    attributes = records[_ATTRIBUTES_LOW]
    if version < 7 and attributes & _CODEC_MASK == _ZSTD:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    return _TRANSACTIONAL_BATCH if attributes & _TRANSACTIONAL else None


def _refused(version: int, rule: str) -> tuple[ErrorCode, str]:
    return ErrorCode.INVALID_RECORD, f"Produce requests with version {version} {rule}"


def _all_refused(request: ProduceRequest, code: ErrorCode) -> _Results:
    return [
        PartitionAppendResult(TopicPartition(topic.name, data.index), code)
        for topic in request.topic_data
        for data in topic.partition_data
    ]


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
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, results: _Results
) -> ProduceResponse | None:
    if request.acks != 0:
        return _answered(broker, context, request, results)
    failed = next((result.error for result in results if result.error), None)
    if failed is not None:
        name = ErrorCode(failed).name
        raise NoAnswer(f"a Produce with acks=0 failed with {name}, which nothing else can tell")
    return None


def _answered(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, results: _Results
) -> ProduceResponse:
    """One answer for each partition, in the request's order."""
    following = iter(results)
    responses: list[TopicProduceResponse] = []
    leaders: set[int] = set()
    for topic in request.topic_data:
        partitions: list[PartitionProduceResponse] = []
        for _ in topic.partition_data:
            result = next(following)
            partitions.append(_partition(result))
            if result.current_leader is not None:
                leaders.add(result.current_leader.leader_id)
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
