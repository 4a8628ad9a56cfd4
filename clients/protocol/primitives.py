"""Encodings that the struct module lacks, and shared compiled formats of that module.

Compact lengths and tags are unsigned variable-length integers (KIP-482): at most five bytes of
seven bits each, the lowest bits first, as in `org.apache.kafka.common.utils.ByteUtils`.
"""

from functools import cache
from struct import Struct as Format

from ..errors import ProtocolError
from .schema import Chunk

STRING_SIZE_MAX = 0x7FFF
"""Kafka refuses longer strings in every version, though compact lengths allow more."""


UNLIMITED = 1 << 62
"""No limit on elements except the size of the message: for messages from a trusted peer."""


class TooManyElementsError(ProtocolError):
    """The arrays and tagged fields of a message hold more elements than its reader allows."""

    def __init__(self, message: str = "its arrays hold more elements than allowed") -> None:
        super().__init__(message)


@cache
def big_endian(letters: str) -> Format:
    """The compiled format of these struct format characters, without padding; shared by all
    codecs."""
    return Format(">" + letters)


def read_unsigned_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it.

    The loop is unrolled, because the sizes of records take several bytes.
    """
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    byte = buffer[position + 1]
    if byte < 0x80:
        return value | byte << 7, position + 2
    value |= (byte & 0x7F) << 7
    byte = buffer[position + 2]
    if byte < 0x80:
        return value | byte << 14, position + 3
    value |= (byte & 0x7F) << 14
    byte = buffer[position + 3]
    if byte < 0x80:
        return value | byte << 21, position + 4
    value |= (byte & 0x7F) << 21
    byte = buffer[position + 4]
    if byte < 0x80:
        return value | byte << 28, position + 5
    raise ProtocolError("A variable-length integer has more than five bytes")


def unsigned_varint(value: int) -> bytes:
    """The encoding of a non-negative number."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def size_of(chunk: Chunk) -> int:
    """The number of bytes that a chunk puts on the wire."""
    return len(chunk) if isinstance(chunk, (bytes, bytearray)) else chunk.nbytes


def read_tag_header(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int, int]:
    """The tag at `position`, where its value begins, and where it ends."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    if size > end - position:
        raise ProtocolError("A tagged field is longer than the rest of the message")
    return tag, position, position + size


def skip_tagged_fields(
    buffer: bytes | memoryview, position: int, end: int, allowed: int
) -> tuple[int, int]:
    """Skip the tagged fields of a struct or header that has no known tags.

    Returns the position after them, and how many of the `allowed` elements are left.
    """
    count, position = read_unsigned_varint(buffer, position)
    allowed -= count
    if allowed < 0:
        raise TooManyElementsError
    for _ in range(count):
        _, _, position = read_tag_header(buffer, position, end)
    return position, allowed
