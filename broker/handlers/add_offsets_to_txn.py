"""AddOffsetsToTxn (key 25), versions 0-4: adds a group's offsets to a transaction.

The group's partition of `__consumer_offsets` becomes part of the transaction. Clients that use
TxnOffsetCommit 5 or later need not send this request (KIP-890).

v2: a fenced producer gets PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH
v3: flexible
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ...clients.topic_partition import TopicPartition
from ...coordinator.offsets_topic import OFFSETS_TOPIC
from ...coordinator.transaction.transaction_shard import Addition
from ...security.access import GROUP, READ, TRANSACTIONAL_ID, WRITE, denies
from ..request.context import BrokerContext, Deferred, RequestContext
from ..request.producer_identity import error_for_version

_FIRST_KNOWING_PRODUCER_FENCED = 2


def handle(
    broker: BrokerContext, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Deferred[ErrorCode]:
    def respond(error: ErrorCode) -> AddOffsetsToTxnResponse:
        error_code = error_for_version(error, context.api_version, _FIRST_KNOWING_PRODUCER_FENCED)
        return AddOffsetsToTxnResponse(error_code=error_code)

    if denies(broker, context, WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if denies(broker, context, READ, GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    partition = broker.group_coordinator.partition_of(request.group_id)
    answer = broker.transaction_coordinator.add_partitions(
        Addition(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({TopicPartition(OFFSETS_TOPIC, partition)}),
        )
    )
    return respond(answer) if isinstance(answer, ErrorCode) else Deferred(answer, respond)
