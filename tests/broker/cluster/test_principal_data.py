"""What an Envelope says of a client, in Kafka's form."""

import pytest

from tierlog.broker.cluster.principal_data import (
    decode_address,
    decode_principal,
    encode_address,
    encode_principal,
)
from tierlog.clients.errors import ErrorCode, KafkaError

_ANONYMOUS = b"\x00\x00" + b"\x05User" + b"\x0aANONYMOUS" + b"\x00" + b"\x00"
"""Version, type, name, no token, no tagged fields, as `DefaultKafkaPrincipalBuilder` writes it."""


def test_a_principal_has_kafkas_form() -> None:
    assert encode_principal("User:ANONYMOUS") == _ANONYMOUS
    assert decode_principal(_ANONYMOUS) == "User:ANONYMOUS"
    assert decode_principal(encode_principal("User:CN=a:b,O=ü")) == "User:CN=a:b,O=ü"


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"\x00",
        _ANONYMOUS[:-1],
        _ANONYMOUS + b"\x00",
        b"\x00\x07" + _ANONYMOUS[2:],
        b"\xff\xff" + _ANONYMOUS[2:],
        b"\x00\x00\xff\xff\xff\xff\x0f",
    ],
)
def test_another_form_is_refused(data: bytes | None) -> None:
    with pytest.raises(KafkaError) as refusal:
        decode_principal(data)
    assert refusal.value.code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


@pytest.mark.parametrize(
    ("host", "data"),
    [
        ("127.0.0.1", b"\x7f\x00\x00\x01"),
        ("::1", bytes(15) + b"\x01"),
        ("::ffff:10.0.0.2", b"\x0a\x00\x00\x02"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\x01"),
        ("client", bytes(4)),
    ],
)
def test_an_address_is_its_bytes(host: str, data: bytes) -> None:
    assert encode_address(host) == data


def test_an_address_of_another_length_is_refused() -> None:
    assert decode_address(b"\x0a\x00\x00\x02") == "10.0.0.2"
    assert decode_address(bytes(15) + b"\x01") == "::1"
    with pytest.raises(KafkaError) as refusal:
        decode_address(b"\x0a\x00")
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
