"""TxnOffsetCommit (key 28), versions 0-5: commits a group's offsets as part of a transaction.

The group's partition of `__consumer_offsets` must be part of the transaction.

v0-v1: while the coordinator loads, the error is COORDINATOR_NOT_AVAILABLE, because these clients
    cannot handle the usual one (KAFKA-7296)
v2: leader epoch
v3: flexible; member id and generation: a consumer that is no longer a member of the generation
    gets UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or FENCED_INSTANCE_ID (KIP-447)
v4: TRANSACTION_ABORTABLE
v5: adds the partition of `__consumer_offsets` to the transaction (KIP-890)
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterable
from functools import partial

from ...clients.errors import ErrorCode
from ...clients.kafka_uuid import ZERO_UUID
from ...clients.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...clients.topic_partition import TopicPartition
from ...coordinator.group.prepared_commit import PreparedCommit
from ...coordinator.group_actions import MemberIdentity
from ...coordinator.offsets import CommitRequest, OffsetsProducer, OffsetToCommit
from ...coordinator.offsets_topic import OFFSETS_TOPIC
from ...replication.metadata.cluster_image import ClusterImage
from ...security.access import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE, Access, access_of
from ..request.context import BrokerContext, Deferred, RequestContext
from ..request.lazy_list import lazy_list
from ..request.transaction_membership import (
    Attempt,
    Support,
    TransactionProducer,
    join_transaction,
    led_log,
    opens_transaction,
)

_FIRST_KNOWING_LOADING = 2
_FIRST_KNOWING_ABORTABLE = 4
_FIRST_ADDING_PARTITIONS = 5

_Response = TxnOffsetCommitResponse | Deferred[list[ErrorCode]]
_Outcome = _Response | Coroutine[object, object, TxnOffsetCommitResponse]


def handle(
    broker: BrokerContext, context: RequestContext, request: TxnOffsetCommitRequest
) -> Generator[None, None, _Outcome]:
    version = context.api_version
    image = broker.controller.image
    access = access_of(broker, context)
    denied = None if access is None else _denial(access, request)
    if denied is not None:
        partitions = sum(len(topic.partitions) for topic in request.topics)
        return _response(version, request, [denied] * partitions)
    offsets: list[OffsetToCommit] = []
    for topic in request.topics:
        for offset in _offsets_of(topic, image, access):
            offsets.append(offset)
            yield
    # Like Kafka, skip the coordinator if no offset belongs to an existing partition.
    if all(offset.error for offset in offsets):
        return _response(version, request, [offset.error for offset in offsets])
    coordinator = broker.group_coordinator
    commit = CommitRequest(
        group_id=request.group_id,
        identity=MemberIdentity(request.member_id, request.group_instance_id),
        generation=request.generation_id,
        retention_ms=None,
        knows_group_id_not_found=True,
        offsets=offsets,
        producer=OffsetsProducer(request.producer_id, request.producer_epoch),
    )
    # Prepared before the join: nothing may come between the join and the commit.
    prepared = yield from coordinator.prepare_commit(commit)
    partition = TopicPartition(OFFSETS_TOPIC, coordinator.partition_of(request.group_id))
    producer = TransactionProducer(
        request.transactional_id, request.producer_id, request.producer_epoch
    )
    is_led = broker.member is None or led_log(broker, partition) is not None
    if not is_led or not opens_transaction(broker, partition, producer):
        return _commit(broker, version, request, prepared)
    support = Support(version >= _FIRST_ADDING_PARTITIONS, version >= _FIRST_KNOWING_ABORTABLE)
    answer = join_transaction(broker, producer, [partition], support)
    if isinstance(answer, asyncio.Future):
        attempt = Attempt(broker, producer, [partition], [partition])

        async def later() -> TxnOffsetCommitResponse:
            refused = (await attempt.refusals(answer)).get(partition)
            if refused is not None:
                return _error_response(version, request, offsets, refused.code)
            errors = coordinator.commit_offsets(prepared)
            settled = await errors if isinstance(errors, asyncio.Future) else errors
            return _response(version, request, settled)

        return later()
    refusal = answer.get(partition)
    if refusal is not None:
        return _error_response(version, request, offsets, refusal.code)
    return _commit(broker, version, request, prepared)


def _denial(access: Access, request: TxnOffsetCommitRequest) -> ErrorCode | None:
    """Why the client may commit nothing, if so."""
    if not access.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not access.allows(READ, GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None


def _commit(
    broker: BrokerContext, version: int, request: TxnOffsetCommitRequest, prepared: PreparedCommit
) -> _Response:
    answer = broker.group_coordinator.commit_offsets(prepared)
    if isinstance(answer, list):
        return _response(version, request, answer)
    return Deferred(answer, partial(_response, version, request))


def _error_response(
    version: int,
    request: TxnOffsetCommitRequest,
    offsets: Iterable[OffsetToCommit],
    error: ErrorCode,
) -> TxnOffsetCommitResponse:
    if error is ErrorCode.NOT_ENOUGH_REPLICAS:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return _response(version, request, [offset.error or error for offset in offsets])


def _offsets_of(
    topic: TxnOffsetCommitRequestTopic, image: ClusterImage, access: Access | None
) -> Iterable[OffsetToCommit]:
    is_denied = access is not None and not access.allows(READ, TOPIC, topic.name)
    for partition in topic.partitions:
        error = ErrorCode.NONE
        if is_denied:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif image.partition(topic.name, partition.partition_index) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield OffsetToCommit(
            topic.name,
            ZERO_UUID,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata,
            error,
        )


def _response(
    version: int, request: TxnOffsetCommitRequest, errors: list[ErrorCode]
) -> TxnOffsetCommitResponse:
    """The response: each requested partition with its error code, in request order."""
    if version < _FIRST_KNOWING_LOADING:
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        absent = ErrorCode.COORDINATOR_NOT_AVAILABLE
        errors = [absent if error is loading else error for error in errors]
    remaining = iter(errors)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=lazy_list(
                    _partition, [(partition, next(remaining)) for partition in topic.partitions]
                ),
            )
            for topic in request.topics
        ]
    )


def _partition(
    answered: tuple[TxnOffsetCommitRequestPartition, ErrorCode],
) -> TxnOffsetCommitResponsePartition:
    partition, error = answered
    return TxnOffsetCommitResponsePartition(
        partition_index=partition.partition_index, error_code=error
    )
