"""SaslHandshake (key 17): the client names the SASL mechanism that it will use (KIP-43).

Version 1 says that the tokens follow in SaslAuthenticate requests (KIP-152); after version 0 they
follow as bare frames. It is never flexible: old clients read its versions (KAFKA-9577).
"""

from ..schema import Message, field, int16


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    """The mechanism's name."""

    mechanism: str = field("0+")


class SaslHandshakeResponse(Message, key=17, versions="0-1"):
    """An error, or none, and the mechanisms that the listener allows."""

    error_code: int16 = field("0+")
    mechanisms: list[str] = field("0+")
