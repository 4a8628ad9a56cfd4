"""Produce (key 0), versions 3-13: appends batches, and responds when `acks` is satisfied.

Each partition has exactly one batch of magic 2 (KIP-98). With acks=0 there is no response; if
something fails the connection is closed instead, so that the producer notices. If bytes cannot be
split into batches, every partition of the request gets CORRUPT_MESSAGE.

The first batch of a transaction in a partition is appended only if the partition belongs to the
transaction at the coordinator (`transaction_membership.py`, KIP-890). A transactional batch in a
request without a transactional id, or with one that the client may not write, fails the whole
request. A topic that the client may not write is refused before its records are looked at.

As in Kafka, partitions are appended independently. So a request with many partitions, or with long
checks, is appended in parts, and other requests get their turn in between.

v5: log start offset
v7: zstd (KIP-110)
v8: errors of single records, error messages
v9: flexible
v10: the leader's address with NOT_LEADER_OR_FOLLOWER (KIP-951)
v11: TRANSACTION_ABORTABLE
v12: adds the partitions to the transaction (KIP-890)
v13: topic ids instead of names (KIP-516)
"""

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ...clients.errors import ErrorCode
from ...clients.protocol.connection import lasting
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
from ...clients.runtime.steps import finished
from ...clients.runtime.turns import in_turns
from ...clients.topic_partition import TopicPartition
from ...replication.partition.append_data import AppendEntry, AppendRequest
from ...security.access import TOPIC, TRANSACTIONAL_ID, WRITE, Access, access_of
from ...storage.log.log_validator import plain_work, work_of
from ..request.context import BrokerContext, Deferred, NoAnswer, RequestContext
from ..request.lazy_list import lazy_list

if TYPE_CHECKING:
    from ..request.transaction_membership import Support

_BATCH_HEADER = Struct(">8xi4xb5xB38x")
"""Length, magic and attributes, in the first 61 bytes of a batch."""
_LENGTH = slice(8, 12)
_LOG_OVERHEAD = 12
_SMALLEST_RECORD = 14
_MAGIC = 16
_ATTRIBUTES_LOW = 22
_CODEC_MASK = 0x07
_ZSTD = 4
_FIRST_TELLING_LEADERS = 10
"""KIP-951: the answer names the new leader, and where it is."""
_TRANSACTIONAL = 0x10

_Objection: TypeAlias = tuple[ErrorCode, str | None]

_NO_BATCHES: _Objection = ErrorCode.CORRUPT_MESSAGE, None
"""The bytes cannot be split into batches: an invalid length or magic."""
_TRANSACTIONAL_BATCH: _Objection = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None
"""Only a request with a transactional id may hold a transactional batch."""
_UNKNOWN_ID: _Objection = ErrorCode.UNKNOWN_TOPIC_ID, None
_NOT_ONE_BATCH = "must have exactly one record batch per partition"

_PARTITIONS_A_STEP = 256
_WORK_AT_ONCE = 16_384
_WORK_OF_A_PART = 4_096
"""A request with more work (`work_of`) than `_WORK_AT_ONCE` is appended in parts of this size."""

_FIRST_KNOWING_ABORTABLE = 11
_FIRST_ADDING_PARTITIONS = 12
_FIRST_BY_ID = 13

_Entries: TypeAlias = list[AppendEntry]
"""In request order; a response needs one for each partition."""
_Outcome: TypeAlias = asyncio.Future[_Entries] | Coroutine[object, object, _Entries]
"""A future waits for followers; a coroutine waits for the transaction coordinator first."""
_NOTHING = memoryview(b"")


class _Sorted(NamedTuple):
    """All partitions of a request, and those that have passed the checks so far."""

    entries: _Entries
    allowed: _Entries
    nbytes: int
    work: int = 0
    """The work of appending the plain batches."""
    others: Sequence[AppendEntry] = ()
    """The entries whose batches are not plain (`plain_work`)."""
    refused_as_a_whole: bool = False


def handle(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest
) -> (
    ProduceResponse | Deferred[_Entries] | Coroutine[object, object, ProduceResponse | None] | None
):
    """Append the valid batches; each partition has its own result."""
    if sum(len(topic.partition_data) for topic in request.topic_data) > _PARTITIONS_A_STEP:
        _keep_records(request)
        return _in_parts(broker, context, request, None)
    parts = finished(_sorted_out(broker, context, request))
    entries, allowed = parts.entries, parts.allowed
    if _is_decided(broker, request, parts):
        return _answer(broker, context, request, entries)
    if _takes_long(broker, parts):
        for entry in allowed:
            # The request's buffer is reused before these are appended.
            entry.records = lasting(entry.records)
        return _in_parts(broker, context, request, parts)
    outcome = _append(broker, context, request, allowed)
    if outcome is None:
        return _answer(broker, context, request, entries)

    def respond(_: _Entries) -> ProduceResponse | None:
        return _answer(broker, context, request, entries)

    return Deferred(outcome, respond)


def _keep_records(request: ProduceRequest) -> None:
    """Keep the records, as the request's buffer may be reused before all are checked."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = lasting(data.records)


def _takes_long(broker: BrokerContext, parts: _Sorted) -> bool:
    needs_long_check = broker.replica_manager.needs_long_check
    if parts.others and any(needs_long_check(entry) for entry in parts.others):
        return True
    work = parts.work + sum(work_of(entry.records) for entry in parts.others)
    return work > _WORK_AT_ONCE and len(parts.allowed) > 1


def _sorted_out(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest
) -> Generator[None, None, _Sorted]:
    """Check the entries before the append, with pauses."""
    version = context.api_version
    entries: _Entries = []
    others: _Entries = []
    nbytes = work = 0
    is_refused = False
    access = access_of(broker, context)
    for topic in request.topic_data:
        name = topic_name(broker, version, topic)
        # An id that is not there has no name, and so no entry can be about it.
        has_name = name or version < _FIRST_BY_ID
        is_denied = access is not None and has_name and not access.allows(WRITE, TOPIC, name)
        for data in topic.partition_data:
            records = data.records if data.records is not None else _NOTHING
            assert isinstance(records, memoryview), "Records are decoded as a memoryview."
            entry = AppendEntry(TopicPartition(name, data.index), records)
            entries.append(entry)
            if not len(entries) % _PARTITIONS_A_STEP:
                yield
            plain = plain_work(records) if name and not is_denied else 0
            if plain:
                nbytes += len(records)
                work += plain
                continue
            problem = objection(version, name, data.records)
            if problem is _TRANSACTIONAL_BATCH and _may_write_transaction(access, request):
                problem = None if name or version < _FIRST_BY_ID else _UNKNOWN_ID
            if is_denied and problem is not _NO_BATCHES and problem is not _TRANSACTIONAL_BATCH:
                entry.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                is_refused = True
                continue
            if problem is None:
                nbytes += len(records)
                others.append(entry)
                continue
            if problem is _NO_BATCHES or problem is _TRANSACTIONAL_BATCH:
                # Kafka checks all batches for transactions before it appends any.
                return _Sorted(_all_refused(request, problem[0]), [], 0, refused_as_a_whole=True)
            _refuse(broker, entry, problem)
            is_refused = True
    allowed = [each for each in entries if not each.error] if is_refused else entries
    return _Sorted(entries, allowed, nbytes, work, others)


def _may_write_transaction(access: Access | None, request: ProduceRequest) -> bool:
    if request.transactional_id is None:
        return False
    return access is None or access.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id)


def _is_decided(broker: BrokerContext, request: ProduceRequest, parts: _Sorted) -> bool:
    """Refuse all entries if `acks` is invalid, and count the bytes in.

    Returns whether nothing is left to append.
    """
    if parts.refused_as_a_whole:
        return True
    if request.acks not in (-1, 0, 1):
        _refuse_wrong_acks(broker, parts.allowed)
        return True
    broker.bytes_in.value += parts.nbytes
    return not parts.allowed


async def _in_parts(
    broker: BrokerContext,
    context: RequestContext,
    request: ProduceRequest,
    parts: _Sorted | None,
) -> ProduceResponse | None:
    """Append in parts, with pauses; only one part is appended at a time, across all requests."""
    if parts is None:
        parts = await in_turns(_sorted_out(broker, context, request))
        if _is_decided(broker, request, parts):
            return _answer(broker, context, request, parts.entries)
    if request.transactional_id is not None:
        from ..request.transactional_append import join_at_once

        await join_at_once(broker, request, parts.allowed, _support(context))
    replicas = broker.replica_manager
    waiting: list[asyncio.Future[_Entries]] = []
    part: _Entries = []
    work = 0
    for number, entry in enumerate(parts.allowed, 1):
        if replicas.needs_long_check(entry):
            await replicas.check_in_steps(entry)
        if not entry.error:
            part.append(entry)
            work += work_of(entry.records)
        if part and (work >= _WORK_OF_A_PART or number == len(parts.allowed)):
            async with replicas.long_work:
                outcome = _append(broker, context, request, part)
                await asyncio.sleep(0)
            if isinstance(outcome, asyncio.Future):
                # This part waits for followers; the next part need not wait for this one.
                waiting.append(outcome)
            elif outcome is not None:
                await outcome
            part, work = [], 0
    for each in waiting:
        await each
    return _answer(broker, context, request, parts.entries)


def _append(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, entries: _Entries
) -> _Outcome | None:
    """Append these entries of the request; returns what to wait for, if anything."""
    if request.transactional_id is not None:
        from ..request.transactional_append import append_in_transaction

        # Non-transactional batches are appended along with the others.
        return append_in_transaction(broker, request, entries, _support(context))
    appending = AppendRequest(entries, request.acks, request.timeout_ms, sender=context.client_id)
    outcome = broker.replica_manager.append_records(appending)
    return outcome if isinstance(outcome, asyncio.Future) else None


def _support(context: RequestContext) -> "Support":
    """What a transactional client of this version supports."""
    from ..request.transaction_membership import Support

    version = context.api_version
    return Support(version >= _FIRST_ADDING_PARTITIONS, version >= _FIRST_KNOWING_ABORTABLE)


def _refuse(broker: BrokerContext, entry: AppendEntry, objection: _Objection) -> None:
    topic, partition = entry.topic_partition
    if topic and broker.controller.image.partition(topic, partition) is None:
        # Kafka checks this first; here only entries that are refused anyway are checked.
        entry.refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    else:
        entry.refuse(*objection)


def _refuse_wrong_acks(broker: BrokerContext, entries: _Entries) -> None:
    """Refuse entries for invalid acks, after all other checks, as in Kafka."""
    image = broker.controller.image
    for entry in entries:
        is_unknown = image.partition(*entry.topic_partition) is None
        entry.refuse(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_unknown else ErrorCode.INVALID_REQUIRED_ACKS
        )


def topic_name(broker: BrokerContext, version: int, topic: TopicProduceData) -> str:
    """The topic's name; '' for an unknown id."""
    if version < _FIRST_BY_ID:
        return topic.name
    image_topic = broker.controller.image.topics_by_id.get(topic.topic_id)
    return "" if image_topic is None else image_topic.name


def objection(version: int, topic: str, records: Chunk | None) -> _Objection | None:
    """Check one partition's records before the append; nearly always None.

    Usually the header is enough. Otherwise the checks run one by one in Kafka's order, so that the
    error codes are the same (`ByteBufferLogInputStream.nextBatchSize`, then
    `ProduceRequest.validateRecords`).
    """
    if version >= _FIRST_BY_ID and not topic:
        first = _first_objection(version, records) if isinstance(records, memoryview) else None
        is_of_all = first is _NO_BATCHES or first is _TRANSACTIONAL_BATCH
        return first if is_of_all else _UNKNOWN_ID
    if not isinstance(records, memoryview):
        return _refusal(version, _NOT_ONE_BATCH)
    if (size := len(records)) >= _BATCH_HEADER.size and version >= 7:
        length, magic, attributes = _BATCH_HEADER.unpack_from(records)
        if length + _LOG_OVERHEAD == size and magic == 2 and not attributes & _TRANSACTIONAL:
            return None
    return _first_objection(version, records)


def _first_objection(version: int, records: memoryview) -> _Objection | None:
    size = len(records)
    if size < _LOG_OVERHEAD:
        return _refusal(version, _NOT_ONE_BATCH)
    end = _LOG_OVERHEAD + int.from_bytes(records[_LENGTH], "big", signed=True)
    if end < _LOG_OVERHEAD + _SMALLEST_RECORD:
        return _NO_BATCHES
    if size > _MAGIC and records[_MAGIC] > 2:
        return _NO_BATCHES
    if size < end:
        return _refusal(version, _NOT_ONE_BATCH)
    if records[_MAGIC] != 2:
        return _refusal(version, "are only allowed to contain record batches with magic version 2")
    if size > end:
        return _refusal(
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


def _refusal(version: int, rule: str) -> tuple[ErrorCode, str]:
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
                batch_index=error.batch_index, batch_index_error_message=error.message
            )
            for error in entry.record_errors
        ]
    if entry.current_leader is not None:
        leader_id, leader_epoch = entry.current_leader
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return answer


def _answer(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, entries: _Entries
) -> ProduceResponse | None:
    if request.acks != 0:
        return to_response(broker, context, request, entries)
    failed = next((entry.error for entry in entries if entry.error), None)
    if failed is not None:
        name = ErrorCode(failed).name
        raise NoAnswer(
            f"a Produce request with acks=0 failed with {name}, and has no response to report it"
        )
    return None


def to_response(
    broker: BrokerContext, context: RequestContext, request: ProduceRequest, entries: _Entries
) -> ProduceResponse:
    """The response, with the result of each partition in request order."""
    leaders = {
        entry.current_leader.leader_id for entry in entries if entry.current_leader is not None
    }
    if leaders and context.api_version < _FIRST_TELLING_LEADERS:
        leaders.clear()
        for entry in entries:
            entry.current_leader = None
    responses: list[TopicProduceResponse] = []
    start = 0
    for topic in request.topic_data:
        end = start + len(topic.partition_data)
        responses.append(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=lazy_list(_partition, entries[start:end]),
            )
        )
        start = end
    response = ProduceResponse(responses=responses)
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.nodes(leaders, context.listener)
        ]
    return response
