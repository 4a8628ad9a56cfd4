"""Sends a client's request to the active controller in an Envelope (KIP-590; `ForwardingManager`).

The request travels in the client's own version, with a header, the client's principal and its
address. The controller executes it as that client's.
"""

from typing import NamedTuple

from ...clients.errors import ErrorCode, KafkaError
from ...clients.network.refusal import refusal
from ...clients.protocol.api import response_class
from ...clients.protocol.codec import decode, encode_bytes
from ...clients.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from ...clients.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ...clients.protocol.schema import Message
from .controller_channel import ControllerChannel
from .principal_data import encode_address, encode_principal

FORWARDING_TIMEOUT_MS = 60_000
"""How long a forwarded request waits for the active controller, as in Kafka."""

_CORRELATION_ID = 0
"""Only for the channel: the dispatcher answers the client with the client's id."""


class ForwardedClient(NamedTuple):
    """The client of a forwarded request; `host` is its address."""

    client_id: str | None
    principal: str
    host: str


async def forward(
    channel: ControllerChannel, request: Message, version: int, client: ForwardedClient
) -> Message:
    """The active controller's response to a request of one of our clients.

    Raises KafkaError: REQUEST_TIMED_OUT; UNSUPPORTED_VERSION if the controller cannot read the
    request, in which case the client's connection should be closed so that it negotiates versions
    again; UNKNOWN_SERVER_ERROR for any other error of the envelope.
    """
    envelope = EnvelopeRequest(
        request_data=_encode(request, version, client.client_id),
        request_principal=encode_principal(client.principal),
        client_host_address=encode_address(client.host),
    )
    answer = await channel.request(envelope, EnvelopeResponse, FORWARDING_TIMEOUT_MS)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The active controller cannot read version {version} of {type(request).__name__}.",
        )
    if answer.error_code or answer.response_data is None:
        raise _unexpected_error(f"The active controller refused it: {refusal(answer.error_code)}")
    return _decode(request.api_key, version, answer.response_data)


def _encode(request: Message, version: int, client_id: str | None) -> bytes:
    header = RequestHeader(request.api_key, version, _CORRELATION_ID, client_id)
    return encode_request_header(header) + encode_bytes(request, version)


def _decode(api_key: int, version: int, data: bytes) -> Message:
    view = memoryview(data)
    try:
        correlation_id, position = decode_response_header(api_key, version, view)
        response, _ = decode(response_class(api_key), version, view, position)
    except KafkaError as error:
        raise _unexpected_error(
            f"The active controller's response cannot be read: {error}"
        ) from error
    if correlation_id != _CORRELATION_ID:
        raise _unexpected_error("The active controller's response belongs to another request.")
    return response


def _unexpected_error(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
