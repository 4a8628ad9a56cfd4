"""SaslAuthenticate (key 36): one token of a SASL exchange (KIP-152).

Versions: 1 the session's lifetime (KIP-368); 2 flexible.
"""

from ..schema import Message, field, int16, int64


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    """The client's token, which is secret."""

    auth_bytes: bytes = field("0+")

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest(********)"


class SaslAuthenticateResponse(Message, key=36, versions="0-2", flexible="2+"):
    """The server's token; with the last one, how long the session lasts (0: for ever)."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    auth_bytes: bytes = field("0+")
    session_lifetime_ms: int64 = field("1+", ignorable=True)
