"""DescribeTransactions (key 65), version 0: the state of transactions by their id (KIP-664).

If a transaction is decided, the response has only the partitions without a marker.
"""

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ...coordinator.transaction.transaction_metadata import Transaction
from ...security.access import DESCRIBE, TOPIC, TRANSACTIONAL_ID, access_of
from ..request.context import BrokerContext, RequestContext
from ..request.lazy_list import lazy_list


def handle(
    broker: BrokerContext, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    coordinator = broker.transaction_coordinator
    access = access_of(broker, context)

    def describe(transactional_id: str) -> TransactionState:
        if access is None:
            return _state(transactional_id, coordinator.describe(transactional_id))
        if not access.allows(DESCRIBE, TRANSACTIONAL_ID, transactional_id):
            denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return _state(transactional_id, denied)
        state = _state(transactional_id, coordinator.describe(transactional_id))
        shown = access.allowed(DESCRIBE, TOPIC, (topic.topic for topic in state.topics))
        state.topics = [topic for topic in state.topics if topic.topic in shown]
        return state

    return DescribeTransactionsResponse(
        transaction_states=lazy_list(describe, request.transactional_ids)
    )


def _state(transactional_id: str, transaction: Transaction | ErrorCode) -> TransactionState:
    if isinstance(transaction, ErrorCode):
        return TransactionState(error_code=transaction, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=those) for topic, those in topics.items()],
    )
