"""ListTransactions (key 66): every transactional id that a broker coordinates.

Versions: 1 a filter by duration (KIP-994); 2 a filter by id pattern (KIP-1152).
"""

from ..schema import Message, Struct, field, int16, int32, int64


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    """The filters; an empty one matches everything."""

    state_filters: list[str] = field("0+")
    producer_id_filters: list[int64] = field("0+")
    duration_filter: int64 = field("1+", default=-1)
    transactional_id_pattern: str | None = field("2+", nullable="2+", default=None)


class TransactionState(Struct):
    """One transactional id."""

    transactional_id: str = field("0+")
    producer_id: int64 = field("0+")
    transaction_state: str = field("0+")


class ListTransactionsResponse(Message, key=66, versions="0-2", flexible="0+"):
    """The transactional ids."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    unknown_state_filters: list[str] = field("0+")
    transaction_states: list[TransactionState] = field("0+")
