"""What is read of a stranger's request, and what is not."""

import pytest

from tierlog.clients.errors import ErrorCode
from tierlog.clients.protocol.api import APIS, ApiKey
from tierlog.clients.protocol.codec import decode
from tierlog.clients.protocol.header import decode_request_header, decode_response_header
from tierlog.clients.protocol.primitives import unsigned_varint
from tierlog.security.sasl.requests import ELEMENTS_MAX, illegal_state_answer, read_request
from tierlog.tests import wire

from .sasl_frames import authenticate, joined, request, versions


def with_tagged_fields(body: bytes, count: int) -> memoryview:
    """The request with that many empty tagged fields, instead of none at its end."""
    assert body.endswith(b"\0")
    fields = b"".join(unsigned_varint(tag) + b"\0" for tag in range(count))
    return memoryview(body[:-1] + unsigned_varint(count) + fields)


@pytest.mark.parametrize("body", [versions(), authenticate()])
def test_a_strangers_request_has_few_tagged_fields(body: bytes) -> None:
    """A frame of the largest size has room for 130,000, which take half a second to decode."""
    read = read_request(with_tagged_fields(body, ELEMENTS_MAX))
    assert read is not None
    assert read.is_served
    assert read_request(with_tagged_fields(body, ELEMENTS_MAX + 1)) is None


def stranger_asks(topics: list[str], version: int) -> wire.MetadataResponse | None:
    """The answer to a Metadata that comes instead of a token."""
    message = wire.MetadataRequest(topics=[wire.MetadataRequestTopic(name=name) for name in topics])
    body = memoryview(request(message, version))
    answer = joined(illegal_state_answer(decode_request_header(body, APIS)[0], body))
    if not answer:
        return None
    view = memoryview(answer)[4:]
    _, position = decode_response_header(ApiKey.METADATA, version, view)
    return decode(wire.MetadataResponse, version, view, position)[0]


@pytest.mark.parametrize("version", range(14))
def test_metadata_instead_of_a_token_gets_an_error_for_each_topic(version: int) -> None:
    answer = stranger_asks(["orders", "bills"], version)
    assert answer is not None
    assert [(each.name, each.error_code, each.partitions) for each in answer.topics] == [
        ("orders", ErrorCode.ILLEGAL_SASL_STATE, []),
        ("bills", ErrorCode.ILLEGAL_SASL_STATE, []),
    ]
    assert not answer.brokers


def test_a_stranger_may_not_name_many_topics() -> None:
    """What is read of a request before the proof is bounded."""
    assert stranger_asks(["t"] * (ELEMENTS_MAX + 1), 12) is None
