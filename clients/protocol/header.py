"""The headers of requests and responses: API key, version and correlation id.

Request headers have two versions: 1 ends with a client id; 2 has tagged fields after it, and is
used from an API's first flexible version on. The length of the client id is never compact. Response
headers have version 0 (only the correlation id) or 1 (with tagged fields). An ApiVersions response
always has version 0, since the client cannot yet know the broker's versions (KIP-511).
"""

from collections.abc import Mapping
from struct import Struct as Format, error as StructError
from typing import NamedTuple

from ..errors import ErrorCode, KafkaError, ProtocolError
from .api import APIS, SERVED_ON, Api, ApiKey, ListenerKind
from .primitives import skip_tagged_fields

_FIXED = Format(">hhih")
_FIXED_BYTES = _FIXED.size
_CORRELATION_ID = Format(">i")
_NO_TAGGED_FIELDS = b"\0"
_TAGGED_FIELDS_MAX = 1_000
"""The maximum number of tagged fields in a header; Apache Kafka defines none yet."""


class RequestHeader(NamedTuple):
    """A request's API, version and client; its response carries the same correlation id."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class UnsupportedApiError(KafkaError):
    """A well-formed header whose API key or version is not supported.

    The body after it cannot be decoded. An ApiVersions request gets error 35 in a response of
    version 0; for any other API the connection is closed.
    """

    def __init__(self, header: RequestHeader) -> None:
        message = f"API key {header.api_key} version {header.api_version} is not supported"
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)
        self.header = header


def decode_request_header(
    view: memoryview, served: Mapping[int, Api] = SERVED_ON[ListenerKind.BROKER]
) -> tuple[RequestHeader, int]:
    """The header of the request that fills `view`, and where the body begins.

    Raises ProtocolError if the header is malformed, UnsupportedApiError if its API key or version
    is not in `served`.
    """
    try:
        key, version, correlation_id, size = _FIXED.unpack_from(view)
        position = _FIXED_BYTES
        client_id = None
        if size >= 0:
            position += size
            if position > len(view):
                raise ProtocolError("The client id is longer than the rest of the request")
            client_id = str(view[_FIXED_BYTES:position], "utf-8", "replace")
        header = RequestHeader(key, version, correlation_id, client_id)
        api = served.get(key)
        if api is None or not api.lowest_version <= version <= api.highest_version:
            raise UnsupportedApiError(header)
        if version >= api.first_flexible_version:
            # No client sends tagged fields here yet, so avoid the call.
            if view[position]:
                allowed = _TAGGED_FIELDS_MAX
                position, _ = skip_tagged_fields(view, position, len(view), allowed)
            else:
                position += 1
    except (StructError, IndexError) as error:
        raise ProtocolError("The request ends within its header") from error
    return header, position


def encode_request_header(header: RequestHeader) -> bytes:
    """Encode the header of a request that we send."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    size = -1 if header.client_id is None else len(client_id)
    fixed = _FIXED.pack(header.api_key, header.api_version, header.correlation_id, size)
    flexible = APIS[header.api_key].is_flexible(header.api_version)
    return fixed + client_id + (_NO_TAGGED_FIELDS if flexible else b"")


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Encode the header of a response to this version of this API."""
    encoded = _CORRELATION_ID.pack(correlation_id)
    return encoded + _NO_TAGGED_FIELDS if _is_flexible_response(api_key, version) else encoded


def decode_response_header(api_key: int, version: int, view: memoryview) -> tuple[int, int]:
    """The correlation id of the response that fills `view`, and where its body begins."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view)
        position = _CORRELATION_ID.size
        if _is_flexible_response(api_key, version):
            allowed = _TAGGED_FIELDS_MAX
            position, _ = skip_tagged_fields(view, position, len(view), allowed)
    except (StructError, IndexError) as error:
        raise ProtocolError("The response ends within its header") from error
    return correlation_id, position


def _is_flexible_response(api_key: int, version: int) -> bool:
    return api_key != ApiKey.API_VERSIONS and APIS[api_key].is_flexible(version)
