"""Envelope (key 58): a client's request, forwarded by a broker to the controller (KIP-590).

The only version is 0, which is flexible.
"""

from ..schema import Message, field, int16


class EnvelopeRequest(Message, key=58, versions="0", flexible="0+"):
    """A request with its header, its client's serialized principal, and its client's address."""

    request_data: bytes = field("0+")
    request_principal: bytes | None = field("0+", nullable="0+")
    client_host_address: bytes = field("0+")


class EnvelopeResponse(Message, key=58, versions="0", flexible="0+"):
    """The response with its header; an error here is about the envelope itself."""

    response_data: bytes | None = field("0+", nullable="0+", default=None)
    error_code: int16 = field("0+")
