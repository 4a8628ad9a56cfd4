"""Variable-length integers as Kafka writes them: seven bits a byte, least significant first.

Signed values are zigzag-encoded first, so that small magnitudes stay short (`ByteUtils` in Kafka,
as in Protocol Buffers). A varint holds 32 bits in at most five bytes, a varlong 64 bits in at most
ten. Reading past the end raises IndexError, which callers convert to their own errors; an encoding
that is too long or too large raises `KafkaError(INVALID_RECORD)`.
"""

from collections.abc import Sequence

from ..errors import ErrorCode, KafkaError

ZIGZAG = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))
"""The signed value of each one-byte encoding: the common case takes one look-up."""


def read_unsigned_varint(data: Sequence[int], position: int) -> tuple[int, int]:
    """The value and the position after it. Raises IndexError or `KafkaError(INVALID_RECORD)`."""
    return _read(data, position, 32)


def read_varint(data: Sequence[int], position: int) -> tuple[int, int]:
    """A zigzag 32-bit value and the position after it; raises like `read_unsigned_varint`."""
    value, position = _read(data, position, 32)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: Sequence[int], position: int) -> tuple[int, int]:
    """A zigzag 64-bit value and the position after it; raises like `read_unsigned_varint`."""
    value, position = _read(data, position, 64)
    return (value >> 1) ^ -(value & 1), position


def _read(data: Sequence[int], position: int, bits: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, bits, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return value, position
    raise KafkaError(ErrorCode.INVALID_RECORD, f"A variable-length integer exceeds {bits} bits.")


def encode_unsigned_varint(value: int) -> bytes:
    """The shortest encoding of a value in [0, 2**64)."""
    assert 0 <= value < 1 << 64, value
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append((value & 0x7F) | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_varint(value: int) -> bytes:
    """The zigzag encoding of a signed value; it is the same for a varint and a varlong."""
    assert -(1 << 63) <= value < 1 << 63, value
    return encode_unsigned_varint((value << 1) ^ (value >> 63))


_ONE_BYTE = tuple(bytes((byte,)) for byte in range(128))
