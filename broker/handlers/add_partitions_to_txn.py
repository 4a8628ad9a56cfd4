"""AddPartitionsToTxn (key 24), versions 0-5: adds partitions to transactions.

A partition that does not exist gets UNKNOWN_TOPIC_OR_PARTITION, one that the client may not write
gets TOPIC_AUTHORIZATION_FAILED, and the other partitions of its transaction get
OPERATION_NOT_ATTEMPTED. No client may add internal topics, whatever it is allowed.

v0-v3: one transaction, from a client
v2: a fenced producer gets PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
v3: flexible
v4: several transactions, from a broker, which may request only to verify partitions (KIP-890)
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ...clients.topic_partition import TopicPartition
from ...coordinator.transaction.transaction_metadata import EPOCH_BUMP_VERSION
from ...coordinator.transaction.transaction_shard import Addition
from ...replication.topic_names import INTERNAL_TOPICS
from ...security.access import CLUSTER_ACTION, TOPIC, TRANSACTIONAL_ID, WRITE, access_of
from ..request.context import BrokerContext, RequestContext
from ..request.producer_identity import error_for_version

_FIRST_BATCHED = 4
_FIRST_KNOWING_PRODUCER_FENCED = 2

_Errors = Mapping[TopicPartition, ErrorCode]
_Result = tuple[AddPartitionsToTxnTransaction, "_Errors | asyncio.Future[ErrorCode]"]


def handle(
    broker: BrokerContext, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Coroutine[object, object, AddPartitionsToTxnResponse]:
    access = access_of(broker, context)
    if context.api_version >= _FIRST_BATCHED:
        if access is not None and not access.allows_cluster(CLUSTER_ACTION):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        transactions = request.transactions
    else:
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    version = context.api_version
    results = [(transaction, _add(broker, context, transaction)) for transaction in transactions]
    if any(isinstance(result, asyncio.Future) for _, result in results):
        return _later(version, results)
    return _response(version, results)


async def _later(version: int, results: Sequence[_Result]) -> AddPartitionsToTxnResponse:
    settled: list[_Result] = []
    for transaction, result in results:
        if isinstance(result, asyncio.Future):
            error = _error_for(version, await result)
            settled.append((transaction, dict.fromkeys(_partitions(transaction.topics), error)))
        else:
            settled.append((transaction, result))
    return _response(version, settled)


def _add(
    broker: BrokerContext, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> "_Errors | asyncio.Future[ErrorCode]":
    version = context.api_version
    partitions = _partitions(transaction.topics)
    refused = _refusals(broker, context, transaction.transactional_id, partitions)
    if refused:
        return {**dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED), **refused}
    addition = Addition(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        frozenset(partitions),
        EPOCH_BUMP_VERSION if version >= _FIRST_BATCHED else 0,
    )
    if transaction.verify_only:
        return broker.transaction_coordinator.verify_partitions(addition)
    answer = broker.transaction_coordinator.add_partitions(addition)
    if isinstance(answer, asyncio.Future):
        return answer
    return dict.fromkeys(partitions, _error_for(version, answer))


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _refusals(
    broker: BrokerContext,
    context: RequestContext,
    transactional_id: str,
    partitions: Sequence[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """The partitions that the client may not write, or that do not exist."""
    names = {partition.topic for partition in partitions}
    if context.api_version < _FIRST_BATCHED:
        names -= INTERNAL_TOPICS
        access = access_of(broker, context)
        if access is not None:
            if not access.allows(WRITE, TRANSACTIONAL_ID, transactional_id):
                denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                return dict.fromkeys(partitions, denied)
            names = access.allowed(WRITE, TOPIC, names)
    refused: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        if partition.topic not in names:
            refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif broker.controller.image.partition(partition.topic, partition.partition) is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _error_for(version: int, error: ErrorCode) -> ErrorCode:
    return error_for_version(error, version, _FIRST_KNOWING_PRODUCER_FENCED)


def _response(version: int, results: Sequence[_Result]) -> AddPartitionsToTxnResponse:
    answers = [
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=_topic_results(transaction.topics, errors),
        )
        for transaction, errors in results
        if not isinstance(errors, asyncio.Future)
    ]
    if version >= _FIRST_BATCHED:
        return AddPartitionsToTxnResponse(results_by_transaction=answers)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=answers[0].topic_results)


def _topic_results(
    topics: Sequence[AddPartitionsToTxnTopic], errors: _Errors
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=number,
                    partition_error_code=errors[TopicPartition(topic.name, number)],
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]
