"""Headers: who asks for what, and what is said to those who ask for what is not there."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import ErrorCode, ProtocolError
from tierlog.clients.protocol.api import APIS, SERVED_ON, ApiKey, ListenerKind
from tierlog.clients.protocol.header import (
    RequestHeader,
    UnsupportedApiError,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_header,
)

VERSIONS = [
    (api.key, version)
    for api in APIS.values()
    for version in range(api.lowest_version, api.highest_version + 1)
]


@given(
    st.sampled_from(VERSIONS),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.none() | st.text(max_size=50),
)
def test_a_request_header_comes_back(
    served: tuple[int, int], correlation_id: int, client_id: str | None
) -> None:
    header = RequestHeader(*served, correlation_id, client_id)
    encoded = encode_request_header(header)
    assert decode_request_header(memoryview(encoded + b"body"), APIS) == (header, len(encoded))


@given(st.sampled_from(VERSIONS), st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_response_header_comes_back(served: tuple[int, int], correlation_id: int) -> None:
    encoded = response_header(*served, correlation_id)
    assert decode_response_header(*served, memoryview(encoded + b"body")) == (
        correlation_id,
        len(encoded),
    )


def test_a_header_is_refused_on_the_listener_of_the_other_kind() -> None:
    for key, kind in (
        (ApiKey.METADATA, ListenerKind.CONTROLLER),
        (ApiKey.VOTE, ListenerKind.BROKER),
    ):
        encoded = encode_request_header(RequestHeader(key, 0, 7, "me"))
        decode_request_header(memoryview(encoded + b"body"), APIS)
        with pytest.raises(UnsupportedApiError):
            decode_request_header(memoryview(encoded + b"body"), SERVED_ON[kind])


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_a_header_unsupported_or_a_protocol_error(noise: bytes) -> None:
    try:
        _, position = decode_request_header(memoryview(noise))
    except (ProtocolError, UnsupportedApiError):
        return
    assert position <= len(noise)


def test_api_versions_is_answered_with_the_old_header_in_every_version() -> None:
    """KIP-511: the client that asks does not yet know what this broker speaks."""
    assert response_header(ApiKey.API_VERSIONS, 4, 7) == b"\0\0\0\7"
    assert response_header(ApiKey.METADATA, 8, 7) == b"\0\0\0\7"
    assert response_header(ApiKey.METADATA, 9, 7) == b"\0\0\0\7\0"


def test_the_client_id_is_never_compact() -> None:
    encoded = encode_request_header(RequestHeader(ApiKey.METADATA, 13, 1, "me"))
    assert encoded == b"\0\3\0\x0d\0\0\0\1\0\2me\0"


def test_tagged_fields_of_a_header_are_skipped() -> None:
    fixed = b"\0\3\0\x0d\0\0\0\1\0\2me"
    header, position = decode_request_header(memoryview(fixed + b"\1\5\3abcbody"))
    assert header == RequestHeader(ApiKey.METADATA, 13, 1, "me")
    assert position == len(fixed) + 6


@pytest.mark.parametrize(
    ("key", "version"),
    [(18, 99), (18, -1), (1, 3), (1, 19), (999, 0), (-1, 0), (ApiKey.SHARE_FETCH, 1)],
)
def test_what_is_not_served_is_reported_with_its_header(key: int, version: int) -> None:
    """C5, C6: the connection ends, or an old ApiVersions answer goes to this correlation id."""
    frame = key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True) + b"\0\0\0\7\0\2me!"
    with pytest.raises(UnsupportedApiError) as raised:
        decode_request_header(memoryview(frame))
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert raised.value.header == RequestHeader(key, version, 7, "me")


@pytest.mark.parametrize(
    "frame",
    [b"", b"\0\3\0\1\0\0\0\1\0", b"\0\3\0\1\0\0\0\1\0\5me", b"\0\3\0\x0d\0\0\0\1\0\2me"],
    ids=["empty", "short", "client id too long", "no tagged fields"],
)
def test_a_header_cut_short_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(memoryview(frame))


@pytest.mark.parametrize("frame", [b"\0\0\0", b"\0\0\0\1"], ids=["short", "no tagged fields"])
def test_a_response_header_cut_short_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_response_header(ApiKey.FETCH, 12, memoryview(frame))
