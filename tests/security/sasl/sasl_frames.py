"""Frames of a SASL client, with and without faults."""

from tierlog.clients.protocol.api import ApiKey
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from tierlog.clients.protocol.schema import Chunk, Message
from tierlog.clients.sasl.secret import Secret
from tierlog.security.sasl.authenticator import Now, OfferedMechanism, SaslAuthenticator
from tierlog.security.sasl.exchange import Mechanism
from tierlog.security.sasl.plain import PlainMechanism
from tierlog.security.session import Session
from tierlog.tests import wire

CORRELATION_ID = 7
GOOD = b"\0alice\0open sesame"
BAD = b"\0alice\0open barley"


def request(message: Message, version: int, wire_version: int | None = None) -> bytes:
    """A frame without its size; `wire_version` is what the header says instead."""
    header = RequestHeader(message.api_key, version, CORRELATION_ID, "test")
    encoded = bytearray(encode_request_header(header))
    if wire_version is not None:
        encoded[2:4] = wire_version.to_bytes(2, "big")
    return bytes(encoded) + encode_bytes(message, version)


def versions(name: str = "test", version: int = 4, wire_version: int | None = None) -> bytes:
    asked = wire.ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return request(asked, version, wire_version)


def handshake(mechanism: str = "PLAIN", version: int = 1, wire_version: int | None = None) -> bytes:
    return request(wire.SaslHandshakeRequest(mechanism=mechanism), version, wire_version)


def authenticate(token: bytes = GOOD, version: int = 2, wire_version: int | None = None) -> bytes:
    return request(wire.SaslAuthenticateRequest(auth_bytes=token), version, wire_version)


def metadata() -> bytes:
    return request(wire.MetadataRequest(topics=None), 13)


def joined(chunks: list[Chunk] | tuple[Chunk, ...]) -> bytes:
    pieces: list[bytes] = []
    for chunk in chunks:
        assert isinstance(chunk, bytes)
        pieces.append(chunk)
    return b"".join(pieces)


def read_handshake(answer: bytes, version: int = 1) -> wire.SaslHandshakeResponse:
    view = memoryview(answer)[4:]
    _, position = decode_response_header(ApiKey.SASL_HANDSHAKE, version, view)
    return decode(wire.SaslHandshakeResponse, version, view, position)[0]


def read_token(answer: bytes, version: int = 2) -> wire.SaslAuthenticateResponse:
    view = memoryview(answer)[4:]
    correlation_id, position = decode_response_header(ApiKey.SASL_AUTHENTICATE, version, view)
    assert correlation_id == CORRELATION_ID
    return decode(wire.SaslAuthenticateResponse, version, view, position)[0]


class Clock:
    """The time of frames, which passes when a test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    @property
    def now(self) -> Now:
        return Now(self.seconds, 1_000_000.0 + self.seconds * 1_000)


def plain(users: dict[str, str] | None = None) -> PlainMechanism:
    given = users or {"alice": "open sesame", "bob": "swordfish"}
    return PlainMechanism({name: Secret(password) for name, password in given.items()})


def authenticator(*mechanisms: Mechanism, max_reauth_ms: int = 0) -> SaslAuthenticator:
    offered = mechanisms or (plain(),)
    return SaslAuthenticator(
        Session(protocol="SASL_PLAINTEXT"),
        {each.name: OfferedMechanism(each, max_reauth_ms) for each in offered},
    )
