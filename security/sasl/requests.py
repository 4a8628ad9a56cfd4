"""The requests that are read before a client is authenticated, and the answers to them.

The header decides: of any other request nothing behind it is parsed, so the more complex messages
cannot be reached without a password. Only the names in a Metadata are read, for its error answer.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from ...clients.errors import ErrorCode, KafkaError, ProtocolError
from ...clients.protocol.api import APIS, Api, ApiKey, response_class
from ...clients.protocol.codec import decoder_of, encode_bytes
from ...clients.protocol.connection import frame
from ...clients.protocol.header import (
    RequestHeader,
    UnsupportedApiError,
    decode_request_header,
    response_header,
)
from ...clients.protocol.messages.api_versions import ApiVersionsRequest
from ...clients.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from ...clients.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ...clients.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ...clients.protocol.schema import Chunk, Message
from ...clients.protocol.software_name import is_software_name_valid

_READ: Mapping[int, Api] = {
    key: APIS[key] for key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
}

_METADATA: Mapping[int, Api] = {ApiKey.METADATA: APIS[ApiKey.METADATA]}

METADATA_ERROR_VERSION = 13
"""From which version on Metadata has an error for the whole request."""

_BODIES: Mapping[int, type[Message]] = {
    ApiKey.API_VERSIONS: ApiVersionsRequest,
    ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest,
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest,
}

ELEMENTS_MAX = 1_000
"""The most tagged fields of a request before authentication; clients send none. A frame of
`sasl.server.max.receive.size` has room for as many as take half a second to decode."""


class SaslRequest(NamedTuple):
    """A request by its header. Only the APIs that belong to authentication have a body."""

    header: RequestHeader
    is_served: bool
    """Whether its version is supported."""
    body: ApiVersionsRequest | SaslHandshakeRequest | SaslAuthenticateRequest | None


def read_request(view: memoryview) -> SaslRequest | None:
    """The request in a frame; None if it cannot be read."""
    try:
        header, position = decode_request_header(view, _READ)
    except UnsupportedApiError as error:
        return SaslRequest(error.header, False, None)
    except ProtocolError:
        return None
    try:
        return SaslRequest(header, True, _body(header, view, position))
    except ProtocolError:
        return None


def _body(
    header: RequestHeader, view: memoryview, position: int
) -> ApiVersionsRequest | SaslHandshakeRequest | SaslAuthenticateRequest:
    decode = decoder_of(_BODIES[header.api_key], header.api_version)
    body, _ = decode(view, position, ELEMENTS_MAX)
    return cast("ApiVersionsRequest | SaslHandshakeRequest | SaslAuthenticateRequest", body)


def is_readable(header: RequestHeader) -> bool:
    """Whether the request's version is one that this broker knows."""
    api = APIS.get(header.api_key)
    return api is not None and api.serves(header.api_version)


def is_named_well(request: SaslRequest) -> bool:
    """Whether an ApiVersions request names its client's software as KIP-511 demands."""
    assert isinstance(request.body, ApiVersionsRequest), "Only ApiVersions names the software."
    return is_software_name_valid(request.body, request.header.api_version)


def handshake_answer(header: RequestHeader, error: ErrorCode, mechanisms: list[str]) -> list[Chunk]:
    """The response to a SaslHandshake."""
    return _answer(header, SaslHandshakeResponse(error_code=error, mechanisms=mechanisms))


def token_answer(header: RequestHeader, token: bytes, lifetime_ms: int) -> list[Chunk]:
    """The response to a token that was accepted."""
    response = SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
    return _answer(header, response)


def failed_answer(header: RequestHeader, text: str) -> list[Chunk]:
    """The response to a token that failed."""
    error = ErrorCode.SASL_AUTHENTICATION_FAILED
    return _answer(header, SaslAuthenticateResponse(error_code=error, error_message=text))


def bare_answer(token: bytes) -> list[Chunk]:
    """A token without a header; an empty one is a size of zero."""
    return frame([token])


def illegal_state_answer(header: RequestHeader, view: memoryview) -> list[Chunk]:
    """What a request gets that comes instead of a token: an error in its own form.

    An API without an error for the whole request has no such form, and gets no answer. Metadata has
    one for each topic: kafkajs sends it when a token of OAUTHBEARER is refused, and shows it.
    """
    error = ErrorCode.ILLEGAL_SASL_STATE
    try:
        if header.api_key == ApiKey.METADATA:
            return _answer(header, _metadata_answer(view, error))
        response_of_api = response_class(header.api_key)
        if "error_code" not in response_of_api.__declared__:
            return []
        make = cast("Callable[..., Message]", response_of_api)
        return _answer(header, make(error_code=error))
    except KafkaError:
        # Its error is not in this version, or it cannot be read.
        return []


def _metadata_answer(view: memoryview, error: ErrorCode) -> MetadataResponse:
    header, position = decode_request_header(view, _METADATA)
    decode = decoder_of(MetadataRequest, header.api_version)
    body, _ = decode(view, position, ELEMENTS_MAX)
    named = cast("MetadataRequest", body).topics or []
    topics = [
        MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
        for topic in named
    ]
    code = error if header.api_version >= METADATA_ERROR_VERSION else ErrorCode.NONE
    return MetadataResponse(topics=topics, error_code=code)


def _answer(header: RequestHeader, response: Message) -> list[Chunk]:
    version = header.api_version
    head = response_header(header.api_key, version, header.correlation_id)
    return frame([head, encode_bytes(response, version)])
