"""Varints round-trip, match Kafka's published encodings, and refuse to be endless."""

import pytest
from hypothesis import given, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.varint import (
    ZIGZAG,
    encode_unsigned_varint,
    encode_varint,
    read_unsigned_varint,
    read_varint,
    read_varlong,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_signed_values_are_zigzagged_seven_bits_a_byte(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(INT32)
def test_a_varint_round_trips(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varint(encoded, 0) == (value, len(encoded))


@given(INT64)
def test_a_varlong_round_trips(value: int) -> None:
    encoded = b"before" + encode_varint(value)
    assert read_varlong(encoded, 6) == (value, len(encoded))


@given(st.integers(0, 2**32 - 1))
def test_an_unsigned_varint_round_trips(value: int) -> None:
    encoded = encode_unsigned_varint(value)
    assert read_unsigned_varint(encoded, 0) == (value, len(encoded))


def test_the_one_byte_table_agrees_with_the_long_way() -> None:
    assert [read_varint(bytes((byte,)), 0)[0] for byte in range(128)] == list(ZIGZAG)


@pytest.mark.parametrize("encoded", ["8080808080", "ffffffffff01", "ffffffff1f"])
def test_more_than_32_bits_are_refused(encoded: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        read_varint(bytes.fromhex(encoded), 0)
    assert refusal.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("encoded", ["80" * 10 + "01", "ff" * 9 + "03"])
def test_more_than_64_bits_are_refused(encoded: str) -> None:
    with pytest.raises(KafkaError):
        read_varlong(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["", "80", "ffff"])
def test_an_encoding_that_is_cut_off_raises_index_error(encoded: str) -> None:
    with pytest.raises(IndexError):
        read_varint(bytes.fromhex(encoded), 0)
