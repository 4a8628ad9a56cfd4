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
from ...replication.append_data import AppendEntry, AppendRequest
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

_Entries: TypeAlias = list[AppendEntry]
"""In the request's order; where all partitions are answered, one for each."""
_NOTHING = memoryview(b"")


def handle(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Later[_Entries] | Coroutine[object, object, ProduceResponse | None] | None:
    """Append what can be appended; each partition is answered by itself."""
    version = context.api_version
    entries: _Entries = []
    nbytes = 0
    is_refused = False
    for topic in request.topic_data:
        name = topic_name(broker, version, topic)
        for data in topic.partition_data:
            records = data.records if data.records is not None else _NOTHING
            assert isinstance(records, memoryview), "Nothing else is decoded."
            entry = AppendEntry(TopicPartition(name, data.index), records)
            entries.append(entry)
            found = objection(version, name, data.records)
            if found is _TRANSACTIONAL_BATCH and request.transactional_id is not None:
                found = None
            if found is None:
                nbytes += len(records)
                continue
            if found is _NO_BATCHES or found is _TRANSACTIONAL_BATCH:
                # Kafka looks through all of them for transactions before it does anything.
                return _answer(broker, context, request, _all_refused(request, found[0]))
            _refuse(broker, entry, found)
            is_refused = True
    allowed = [each for each in entries if not each.error] if is_refused else entries
    if request.acks not in (-1, 0, 1):
        _refuse_wrong_acks(broker, allowed)
        return _answer(broker, context, request, entries)
    broker.bytes_in.value += nbytes
    if not allowed:
        return _answer(broker, context, request, entries)
    needs_long_check = broker.replica_manager.needs_long_check
    if any(needs_long_check(each) for each in allowed):
        for entry in allowed:
            # The request's buffer is gone by then.
            entry.records = memoryview(bytearray(entry.records))
        return _after_long_checks(broker, context, request, (entries, allowed))
    return _append(broker, context, request, (entries, allowed))


async def _after_long_checks(
    broker: BrokerContext,
    context: RequestContext,
    request: ProduceRequest,
    parts: tuple[_Entries, _Entries],
) -> ProduceResponse | None:
    """Append what is found sound by checks that let others have their turn."""
    entries, allowed = parts
    for entry in allowed:
        if broker.replica_manager.needs_long_check(entry):
            await broker.replica_manager.check_at_length(entry)
    allowed = [each for each in allowed if not each.error]
    if not allowed:
        return _answer(broker, context, request, entries)
    outcome = _append(broker, context, request, (entries, allowed))
    if isinstance(outcome, Later):
        await outcome.work
        return _answer(broker, context, request, entries)
    return await outcome if isinstance(outcome, Coroutine) else outcome


def _append(
    broker: BrokerContext,
    context: RequestContext,
    request: ProduceRequest,
    parts: tuple[_Entries, _Entries],
) -> ProduceResponse | Later[_Entries] | Coroutine[object, object, ProduceResponse | None] | None:
    entries, allowed = parts
    if request.transactional_id is not None:
        return _in_transaction(broker, context, request, (entries, allowed))
    appending = AppendRequest(allowed, request.acks, request.timeout_ms, sender=context.client_id)
    outcome = broker.replica_manager.append_records(appending)
    if isinstance(outcome, list):
        return _answer(broker, context, request, entries)

    def respond(_: _Entries) -> ProduceResponse:
        return answered(broker, context, request, entries)

    return Later(outcome, respond)


def _in_transaction(
    broker: BrokerContext,
    context: RequestContext,
    request: ProduceRequest,
    parts: tuple[_Entries, _Entries],
) -> ProduceResponse | Coroutine[object, object, ProduceResponse | None] | None:
    """Append what its transaction may write; non-transactional batches go with the others."""
    from ..transaction_membership import Support
    from ..transactional_append import append_in_transaction

    entries, allowed = parts
    version = context.api_version
    support = Support(version >= _FIRST_ADDING_PARTITIONS, version >= _FIRST_KNOWING_ABORTABLE)
    work = append_in_transaction(broker, request, allowed, support)
    if work is None:
        return _answer(broker, context, request, entries)

    async def later() -> ProduceResponse | None:
        await work
        return _answer(broker, context, request, entries)

    return later()


def _refuse(broker: BrokerContext, entry: AppendEntry, objection: _Objection) -> None:
    topic, partition = entry.topic_partition
    if topic and broker.controller.image.partition(topic, partition) is None:
        # Kafka asks that first; here it is soon enough for what is refused anyway.
        entry.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    else:
        entry.refuse(*objection)


def _refuse_wrong_acks(broker: BrokerContext, entries: _Entries) -> None:
    """Kafka asks for the acks last, of what it would append otherwise."""
    image = broker.controller.image
    for entry in entries:
        is_unknown = image.partition(*entry.topic_partition) is None
        entry.refuse(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else ErrorCode.INVALID_REQUIRED_ACKS
        )


def topic_name(broker: BrokerContext, version: int, topic: TopicProduceData) -> str:
    """The topic's name; '' for an id that nobody knows."""
    if version < 13:
        return topic.name
    known = broker.controller.image.topics_by_id.get(topic.topic_id)
    return "" if known is None else known.name


def objection(version: int, topic: str, records: Chunk | None) -> _Objection | None:
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


def _all_refused(request: ProduceRequest, code: ErrorCode) -> _Entries:
    return [
        AppendEntry(TopicPartition(topic.name, data.index), _NOTHING, code)
        for topic in request.topic_data
        for data in topic.partition_data
    ]


def _partition(entry: AppendEntry) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(
        index=entry.topic_partition.partition,
        base_offset=entry.base_offset,
        log_append_time_ms=entry.log_append_time_ms,
        log_start_offset=entry.log_start_offset,
    )
    if not entry.error:
        return answer
    answer.error_code = entry.error
    answer.error_message = entry.error_message
    if entry.record_errors:
        answer.record_errors = [
            BatchIndexAndErrorMessage(
                batch_index=each.batch_index, batch_index_error_message=each.message
            )
            for each in entry.record_errors
        ]
    if entry.current_leader is not None:
        leader_id, leader_epoch = entry.current_leader
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return answer


def _answer(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, entries: _Entries
) -> ProduceResponse | None:
    if request.acks != 0:
        return answered(broker, context, request, entries)
    failed = next((entry.error for entry in entries if entry.error), None)
    if failed is not None:
        name = ErrorCode(failed).name
        raise NoAnswer(f"a Produce with acks=0 failed with {name}, which nothing else can tell")
    return None


def answered(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, entries: _Entries
) -> ProduceResponse:
    """One answer for each partition, in the request's order."""
    following = iter(entries)
    responses: list[TopicProduceResponse] = []
    leaders: set[int] = set()
    for topic in request.topic_data:
        partitions: list[PartitionProduceResponse] = []
        for _ in topic.partition_data:
            entry = next(following)
            partitions.append(_partition(entry))
            if entry.current_leader is not None:
                leaders.add(entry.current_leader.leader_id)
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
