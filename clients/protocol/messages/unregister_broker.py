"""UnregisterBroker (key 64): forget a broker that will not come back (KIP-631).

Version 0 is the only one, and flexible.
"""

from ..schema import Message, field, int16, int32


class UnregisterBrokerRequest(Message, key=64, versions="0", flexible="0+"):
    """Which broker."""

    broker_id: int32 = field("0+")


class UnregisterBrokerResponse(Message, key=64, versions="0", flexible="0+"):
    """Whether it is forgotten."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
