"""Every codec round-trips, reads what Kafka's clients write, and is bounded in what it yields."""

import gzip
import sys
import zlib

import cramjam
import pytest
from hypothesis import given, settings, strategies as st

from tierlog.clients.errors import ErrorCode, KafkaError
from tierlog.clients.record.compression import CompressionType, compress, decompress

CODECS = [codec for codec in CompressionType if codec is not CompressionType.NONE]


def refusal_of(codec: CompressionType, data: bytes) -> ErrorCode | None:
    """The code with which the codec refuses these bytes; anything but a KafkaError escapes."""
    try:
        decompress(codec, data, max_bytes=1 << 20)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize("codec", CompressionType)
@given(data=st.binary(max_size=2000), repeat=st.integers(1, 200))
@settings(max_examples=25)
def test_what_was_compressed_comes_back(codec: CompressionType, data: bytes, repeat: int) -> None:
    plain = data * repeat
    if not plain:
        return
    assert bytes(decompress(codec, memoryview(compress(codec, plain)))) == plain


def test_plain_data_are_not_copied() -> None:
    data = bytearray(b"records")
    assert compress(CompressionType.NONE, data) is data
    assert decompress(CompressionType.NONE, data) is data


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_may_grow_to_the_bound_and_no_further(codec: CompressionType) -> None:
    compressed = compress(codec, bytes(300_000))
    assert len(decompress(codec, compressed, max_bytes=300_000)) == 300_000
    with pytest.raises(KafkaError, match="more than 299999 bytes") as refusal:
        decompress(codec, compressed, max_bytes=299_999)
    assert refusal.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("spoil", ["cut", "junk", "empty"])
def test_data_that_cannot_be_decoded_are_an_invalid_record(
    codec: CompressionType, spoil: str
) -> None:
    compressed = bytes(compress(codec, b"some records " * 1000))
    spoilt = {"cut": compressed[:-7], "junk": b"\xff" * 64, "empty": b""}[spoil]
    if codec is CompressionType.GZIP and spoil == "empty":
        assert decompress(codec, spoilt) == b""  # no member at all is a stream of nothing
        return
    with pytest.raises(KafkaError) as refusal:
        decompress(codec, spoilt)
    assert refusal.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=300))
@settings(max_examples=40)
def test_arbitrary_bytes_raise_nothing_but_an_invalid_record(
    codec: CompressionType, data: bytes
) -> None:
    assert refusal_of(codec, data) in (None, ErrorCode.INVALID_RECORD)


def test_snappy_is_written_in_the_framing_of_snappy_java() -> None:
    compressed = bytes(compress(CompressionType.SNAPPY, bytes(40_000)))
    assert compressed[:16].hex() == "82534e41505059000000000100000001"
    first = int.from_bytes(compressed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(compressed[20 : 20 + first])) == bytes(32 * 1024)


def test_lz4_blocks_are_independent_as_kafka_demands() -> None:
    compressed = bytes(compress(CompressionType.LZ4, bytes(200_000)))
    assert compressed[:4].hex() == "04224d18"
    version, is_independent = compressed[4] >> 6, compressed[4] >> 5 & 1
    assert (version, is_independent) == (1, 1)


def test_snappy_without_framing_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"as librdkafka writes it"))
    assert decompress(CompressionType.SNAPPY, raw) == b"as librdkafka writes it"


def test_a_snappy_block_that_announces_gigabytes_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(KafkaError, match="more than 1000 bytes"):
        decompress(CompressionType.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"junk", max_bytes=1000)


def test_gzip_members_after_the_first_belong_to_the_stream() -> None:
    stream = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(CompressionType.GZIP, stream) == b"one two"


def test_gzip_is_readable_by_anyone() -> None:
    assert zlib.decompress(compress(CompressionType.GZIP, b"plain"), wbits=31) == b"plain"


def test_where_cramjam_was_removed_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    for codec in (CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD):
        with pytest.raises(KafkaError, match="pip install cramjam") as refusal:
            compress(codec, b"x")
        assert refusal.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert decompress(CompressionType.GZIP, compress(CompressionType.GZIP, b"x")) == b"x"


def test_names_are_those_of_the_compression_type_config() -> None:
    assert CompressionType.from_name("zstd") is CompressionType.ZSTD
    with pytest.raises(KafkaError) as refusal:
        CompressionType.from_name("lzma")
    assert refusal.value.code is ErrorCode.INVALID_CONFIG
