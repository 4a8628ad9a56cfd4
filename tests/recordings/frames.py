"""Frames of Kafka's protocol as lines of a recording, and back.

What does not decode, or would not encode to the same bytes again, is kept in hexadecimal.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from tierlog.clients.errors import KafkaError
from tierlog.clients.protocol.api import APIS, request_class, response_class
from tierlog.clients.protocol.codec import decode, encode_bytes
from tierlog.clients.protocol.header import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_header,
)
from tierlog.clients.protocol.messages.produce import ProduceRequest
from tierlog.clients.protocol.schema import Message

from .message_text import answer_to_text, from_text, request_to_text

_HEX = "hex:"
_INT = struct.Struct(">i")
_SIZE_BYTES = _INT.size
_LONGEST_FRAME = 100 << 20


class Request(NamedTuple):
    """A request that was read."""

    text: str
    key: int
    version: int
    correlation_id: int
    has_answer: bool
    """False for a produce with acks=0."""


def read_request(frame: bytes, names: Mapping[object, str]) -> Request:
    """A frame as the text of a request; `names` as in `answer_to_text`."""
    padded = frame.ljust(8, b"\0")
    key, version, correlation_id = struct.unpack_from(">hhi", padded)
    bare = Request(_HEX + frame.hex(), key, version, correlation_id, True)
    try:
        view = memoryview(bytearray(frame))
        header, position = decode_request_header(view, APIS)
        message, end = decode(request_class(key), version, view, position)
    except KafkaError:
        return bare
    if end != len(frame) or encode_request_header(header) + encode_bytes(message, version) != frame:
        return bare
    version_text = f"v{version} "
    text = version_text + request_to_text(message, names, len(version_text) + 4)
    has_answer = not (isinstance(message, ProduceRequest) and message.acks == 0)
    return Request(text, key, version, correlation_id, has_answer)


def answer_text(frame: bytes, request: Request, names: Mapping[object, str]) -> str:
    """A frame as the text of the answer to a request."""
    try:
        view = memoryview(bytearray(frame))
        _, position = decode_response_header(request.key, request.version, view)
        message, _ = decode(response_class(request.key), request.version, view, position)
        again = _encoded(request, message)
    except (KafkaError, KeyError):
        return _HEX + frame[4:].hex()
    return answer_to_text(message, names, 4) if again == frame else _HEX + frame[4:].hex()


def _encoded(request: Request, message: Message) -> bytes:
    head = response_header(request.key, request.version, request.correlation_id)
    return head + encode_bytes(message, request.version)


def answer_frame(text: str, request: Request, names: Mapping[str, int | str]) -> bytes:
    """The frame that a text stands for, with the correlation id of the request."""
    if text.startswith(_HEX):
        body = bytes.fromhex(text.removeprefix(_HEX))
        return _INT.pack(request.correlation_id) + body
    message = from_text(text, response_class(request.key), names)
    return _encoded(request, message)


def frames_of(connection: socket.socket) -> Iterator[bytes]:
    """The frames that arrive until the other side closes the connection."""
    with suppress(OSError), connection.makefile("rb") as stream:
        while len(head := stream.read(_SIZE_BYTES)) == _SIZE_BYTES:
            (size,) = _INT.unpack(head)
            if not 0 <= size <= _LONGEST_FRAME:
                return
            frame = stream.read(size)
            if len(frame) < size:
                return
            yield frame


def framed(frame: bytes) -> bytes:
    """A frame with its length before it."""
    return _INT.pack(len(frame)) + frame
