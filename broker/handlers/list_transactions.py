"""ListTransactions (key 66), versions 0-2: every transactional id that this broker coordinates.

Filters leave out what is in no named state, of no named producer id, (1) what has not run for
longer than so many milliseconds (KIP-994), and (2) what does not match a pattern, which is read as
RE2 reads it (KIP-1152). Names of states that nobody knows are told, and match nothing.
"""

from ...clients.errors import ErrorCode, KafkaError
from ...clients.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState as ListedState,
)
from ..coordinator.transaction.transaction_metadata import Transaction
from ..coordinator.transaction.transaction_state import TransactionState
from ..request.context import BrokerContext, RequestContext

_STATES = {state.value for state in TransactionState} | {"PrepareEpochFence"}
"""The last is a step of Kafka's own that no id is ever seen in."""


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
    now_ms = broker.environment.wall_clock_ms()
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in _STATES],
        transaction_states=[
            ListedState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.value,
            )
            for each in listed
            if _matches_filters(each, request, now_ms)
        ],
    )


def _matching(transactions: list[Transaction], pattern: str | None) -> list[Transaction]:
    """Raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    if not pattern:
        return transactions
    from ..coordinator.consumer.topic_regex import compile_regex

    compiled = compile_regex(pattern)
    return [each for each in transactions if compiled.matches(each.transactional_id)]


def _matches_filters(each: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    states, producer_ids = request.state_filters, request.producer_id_filters
    shortest = request.duration_filter
    return (
        (not states or each.state.value in states)
        and (not producer_ids or each.producer_id in producer_ids)
        and (shortest < 0 or now_ms - each.start_ms > shortest)
    )
