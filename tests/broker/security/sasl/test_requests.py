"""What is read of a stranger's request, and what is not."""

import pytest

from tierlog.broker.security.sasl.requests import ELEMENTS_MAX, read_request
from tierlog.clients.protocol.primitives import unsigned_varint

from .sasl_frames import authenticate, versions


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
