"""XXH3, 64 bits, seed 0: the hash that Kafka's group coordinator uses to detect changes of topics
(KIP-1101).

Implemented in Python from the public specification (https://github.com/Cyan4973/xxHash,
doc/xxhash_spec.md). It hashes a few hundred bytes whenever a group's topics change, which does not
justify another compiled dependency.
"""

import struct

_MASK_32 = (1 << 32) - 1
_MASK_64 = (1 << 64) - 1

_PRIME32_1 = 0x9E3779B1
_PRIME32_2 = 0x85EBCA77
_PRIME32_3 = 0xC2B2AE3D
_PRIME64_1 = 0x9E3779B185EBCA87
_PRIME64_2 = 0xC2B2AE3D27D4EB4F
_PRIME64_3 = 0x165667B19E3779F9
_PRIME64_4 = 0x85EBCA77C2B2AE63
_PRIME64_5 = 0x27D4EB2F165667C5
_PRIME_MX1 = 0x165667919E3779F9
_PRIME_MX2 = 0x9FB21C651E98DF25

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)

_STRIPE = 64
_SECRET_STEP = 8
_STRIPES_PER_BLOCK = (192 - _STRIPE) // _SECRET_STEP
_BLOCK = _STRIPE * _STRIPES_PER_BLOCK

_u32 = struct.Struct("<I")
_u64 = struct.Struct("<Q")
_lanes = struct.Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """The hash, from 0 to 2^64 - 1."""
    length = len(data)
    if length <= 16:
        return _short(data, length)
    if length <= 128:
        return _medium(data, length)
    if length <= 240:
        return _midsize(data, length)
    return _long(data, length)


def _read32(data: bytes, at: int) -> int:
    value: int = _u32.unpack_from(data, at)[0]
    return value


def _read64(data: bytes, at: int) -> int:
    value: int = _u64.unpack_from(data, at)[0]
    return value


def _secret64(at: int) -> int:
    return _read64(_SECRET, at)


def _folded(one: int, other: int) -> int:
    product = one * other
    return (product & _MASK_64) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _PRIME_MX1 & _MASK_64
    return value ^ value >> 32


def _avalanche_xxh64(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK_64
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK_64
    return value ^ value >> 32


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK_64


def _short(data: bytes, length: int) -> int:
    if length > 8:
        low = _read64(data, 0) ^ _secret64(24) ^ _secret64(32)
        high = _read64(data, length - 8) ^ _secret64(40) ^ _secret64(48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((length + swapped + high + _folded(low, high)) & _MASK_64)
    if length >= 4:
        first, last = _read32(data, 0), _read32(data, length - 4)
        value = (last + (first << 32)) ^ _secret64(8) ^ _secret64(16)
        value ^= _rotated(value, 49) ^ _rotated(value, 24)
        value = value * _PRIME_MX2 & _MASK_64
        value ^= (value >> 35) + length
        value = value * _PRIME_MX2 & _MASK_64
        return value ^ value >> 28
    if length:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
        flip = _read32(_SECRET, 0) ^ _read32(_SECRET, 4)
        return _avalanche_xxh64(combined ^ flip)
    return _avalanche_xxh64(_secret64(56) ^ _secret64(64))


def _mixed16(data: bytes, at: int, secret_at: int) -> int:
    return _folded(
        _read64(data, at) ^ _secret64(secret_at), _read64(data, at + 8) ^ _secret64(secret_at + 8)
    )


def _medium(data: bytes, length: int) -> int:
    value = length * _PRIME64_1 & _MASK_64
    for pair in range((length - 1) // 32, -1, -1):
        value += _mixed16(data, 16 * pair, 32 * pair)
        value += _mixed16(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(value & _MASK_64)


def _midsize(data: bytes, length: int) -> int:
    value = length * _PRIME64_1
    for part in range(8):
        value += _mixed16(data, 16 * part, 16 * part)
    value = _avalanche(value & _MASK_64)
    for part in range(8, length // 16):
        value += _mixed16(data, 16 * part, 16 * (part - 8) + 3)
    value += _mixed16(data, length - 16, 136 - 17)
    return _avalanche(value & _MASK_64)


def _long(data: bytes, length: int) -> int:
    lanes = [
        _PRIME32_3,
        _PRIME64_1,
        _PRIME64_2,
        _PRIME64_3,
        _PRIME64_4,
        _PRIME32_2,
        _PRIME64_5,
        _PRIME32_1,
    ]
    whole_blocks = (length - 1) // _BLOCK
    for block in range(whole_blocks):
        for stripe in range(_STRIPES_PER_BLOCK):
            at = block * _BLOCK + stripe * _STRIPE
            _accumulate(lanes, data, at, stripe * _SECRET_STEP)
        _scramble(lanes)
    start = whole_blocks * _BLOCK
    for stripe in range((length - 1 - start) // _STRIPE):
        _accumulate(lanes, data, start + stripe * _STRIPE, stripe * _SECRET_STEP)
    _accumulate(lanes, data, length - _STRIPE, 192 - _STRIPE - 7)
    value = length * _PRIME64_1
    for pair in range(4):
        one = lanes[2 * pair] ^ _secret64(11 + 16 * pair)
        other = lanes[2 * pair + 1] ^ _secret64(11 + 16 * pair + 8)
        value += _folded(one, other)
    return _avalanche(value & _MASK_64)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    read = _lanes.unpack_from(data, at)
    keys = _lanes.unpack_from(_SECRET, secret_at)
    for lane, (word, key) in enumerate(zip(read, keys, strict=True)):
        mixed = word ^ key
        lanes[lane ^ 1] = (lanes[lane ^ 1] + word) & _MASK_64
        lanes[lane] = (lanes[lane] + (mixed & _MASK_32) * (mixed >> 32)) & _MASK_64


def _scramble(lanes: list[int]) -> None:
    keys = _lanes.unpack_from(_SECRET, 192 - _STRIPE)
    for lane, key in enumerate(keys):
        value = lanes[lane]
        lanes[lane] = (value ^ value >> 47 ^ key) * _PRIME32_1 & _MASK_64
