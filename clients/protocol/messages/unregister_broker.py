"""UnregisterBroker (key 64): removes a broker that will not come back (KIP-631).

The only version is 0, which is flexible.
"""

from ..schema import Message, field, int16, int32


class UnregisterBrokerRequest(Message, key=64, versions="0", flexible="0+"):
    """The broker to remove."""

    broker_id: int32 = field("0+")


class UnregisterBrokerResponse(Message, key=64, versions="0", flexible="0+"):
    """Whether the broker was removed."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
