"""ListTransactions (key 66), versions 0-2: the transactional ids that this broker coordinates.

Filters select by state and by producer id. Unknown state names match nothing, and are returned.

v1: filter by duration: transactions that have run for longer than a number of ms (KIP-994)
v2: filter by a pattern of transactional ids, in RE2's syntax (KIP-1152)
"""

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState as ListedState,
)
from ...coordinator.transaction.transaction_metadata import Transaction
from ...coordinator.transaction.transaction_state import TransactionState
from ...security.access import DESCRIBE, TRANSACTIONAL_ID, access_of
from ..request.context import BrokerContext, RequestContext

_STATES = {state.value for state in TransactionState} | {"PrepareEpochFence"}
"""PrepareEpochFence is a state inside Kafka in which clients never see a transaction."""


def handle(
    broker: BrokerContext, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    transactions = broker.transaction_coordinator.transactions()
    if isinstance(transactions, ErrorCode):
        return ListTransactionsResponse(error_code=transactions)
    try:
        listed = _matching(transactions, request.transactional_id_pattern)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    access = access_of(broker, context)
    if access is not None:
        ids = (transaction.transactional_id for transaction in listed)
        shown = access.allowed(DESCRIBE, TRANSACTIONAL_ID, ids, audited=False)
        listed = [transaction for transaction in listed if transaction.transactional_id in shown]
    now_ms = broker.environment.wall_clock_ms()
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in _STATES],
        transaction_states=[
            ListedState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.value,
            )
            for transaction in listed
            if _matches_filters(transaction, request, now_ms)
        ],
    )


def _matching(transactions: list[Transaction], pattern: str | None) -> list[Transaction]:
    """The transactions whose id matches. Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    if not pattern:
        return transactions
    from ...coordinator.consumer.topic_regex import compile_regex

    compiled = compile_regex(pattern)
    return [
        transaction
        for transaction in transactions
        if compiled.matches(transaction.transactional_id)
    ]


def _matches_filters(each: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    states, producer_ids = request.state_filters, request.producer_id_filters
    shortest = request.duration_filter
    return (
        (not states or each.state.value in states)
        and (not producer_ids or each.producer_id in producer_ids)
        and (shortest < 0 or now_ms - each.start_ms > shortest)
    )
