"""Whatever a connection has asked before, each request is answered by its own header."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.protocol import connection
from tierlog.clients.protocol.api import ApiKey, response_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from tierlog.clients.protocol.messages.api_versions import ApiVersionsRequest
from tierlog.clients.protocol.messages.metadata import MetadataRequest, MetadataResponse

from ..broker_process import BrokerThread, RawClient

MEBIBYTE = 1 << 20


def ask(client: RawClient, header: RequestHeader, tags: bytes = b"") -> object:
    """Send Metadata for no topic, or ApiVersions; the decoded answer."""
    head = encode_request_header(header)
    if tags:
        assert head.endswith(b"\0")
        head = head[:-1] + tags
    asked = (
        MetadataRequest(topics=[]) if header.api_key == ApiKey.METADATA else ApiVersionsRequest()
    )
    client.send_frame(head + encode_bytes(asked, header.api_version))
    frame = memoryview(client.receive_frame())
    key, version = header.api_key, header.api_version
    correlation_id, position = decode_response_header(key, version, frame)
    assert correlation_id == header.correlation_id
    answer, end = decode(response_class(key), version, frame, position)
    assert end == len(frame)
    return answer


HEADERS = st.builds(
    RequestHeader,
    api_key=st.just(ApiKey.METADATA) | st.just(ApiKey.API_VERSIONS),
    api_version=st.sampled_from((1, 3)),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.sampled_from(("", "a", "b", "ab", "x" * 1_000, "x" * 2_000)),
)


def test_headers_in_any_order_are_answered_each_by_itself(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:

        @settings(deadline=None, max_examples=50)
        @given(st.lists(HEADERS, min_size=2, max_size=20))
        def story(headers: list[RequestHeader]) -> None:
            with RawClient(broker.port) as client:
                for header in headers:
                    ask(client, header)

        story()


def test_tagged_fields_of_a_header_are_skipped_again_and_again(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        for number in range(4):
            header = RequestHeader(ApiKey.METADATA, 9, number, "me")
            for tags in (b"\0", b"\1\5\3abc", b"\1\5\3abc", b"\1\5\3abd", b"\0"):
                answer = ask(client, header, tags)
                assert isinstance(answer, MetadataResponse)
                assert not answer.topics
                assert len(answer.brokers) == 1


def test_a_huge_header_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What buffers of arrived pieces are kept for reuse depends on how the bytes arrive.
    monkeypatch.setattr(connection, "_SPARE_BYTES_MAX", 0)
    huge = 20 * MEBIBYTE
    size = bytes(
        (huge & 0x7F | 0x80, huge >> 7 & 0x7F | 0x80, huge >> 14 & 0x7F | 0x80, huge >> 21)
    )
    tags = b"\1\5" + size + bytes(huge)
    with BrokerThread(tmp_path) as broker, RawClient(broker.port) as client:
        header = RequestHeader(ApiKey.API_VERSIONS, 3, 1, "me")
        tracemalloc.start()
        try:
            ask(client, header, tags)
            ask(client, header)
            before, _ = tracemalloc.get_traced_memory()
            for number in range(3):
                with RawClient(broker.port) as other:
                    ask(other, header._replace(correlation_id=number), tags)
                    # Once this is answered, the broker has done with the one before.
                    ask(client, header)
                    assert tracemalloc.get_traced_memory()[0] - before < 5 * MEBIBYTE
        finally:
            tracemalloc.stop()
