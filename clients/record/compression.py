"""Compresses and decompresses record batches, in the framing that Kafka's own clients write.

- gzip: an ordinary gzip stream, from the standard library.
- snappy: the framing of xerial's snappy-java (a magic, two versions, then length-prefixed raw
  blocks); when reading, also a single raw block, as librdkafka and others write it.
- lz4: the LZ4 frame format, independent blocks.
- zstd: an ordinary Zstandard frame.

The last three come from `cramjam`, which is imported when first needed. The decompressed size is
bounded: a few kilobytes from the network must not become gigabytes here. Nor may decompression
block the event loop: `decompress_steps` pauses after about a megabyte of gzip or snappy. lz4 and
zstd decode a gigabyte a second or more, so they pause only before a larger buffer is tried.
"""

import zlib
from collections.abc import Generator
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Protocol, cast

from ..errors import ErrorCode, KafkaError
from ..runtime.steps import finished
from .varint import read_unsigned_varint

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""The default bound on one decompressed batch; Kafka's request limit of 100 MiB fits."""

_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
_GZIP_PIECE_BYTES = 8 * 1024
"""Input passed to zlib at once; what follows a member's end is passed again for the next member."""
_STEP_BYTES = 1024 * 1024
"""Decompressed bytes between two pauses."""
_SMALLEST_GUESS = 64 * 1024
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_BLOCK_WORK = 1024
"""What each block costs besides its data, as a number of decompressed bytes."""
_INT32 = Struct(">i")


class CompressionType(IntEnum):
    """Kafka's `CompressionType`; the values are those of the lowest three attribute bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> "CompressionType":
        """The codec of a `compression.type` value. Raises `KafkaError(INVALID_CONFIG)`."""
        try:
            return cls[name.upper()]
        except KeyError:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Unknown compression name: {name}."
            ) from None


class _FrameDecoder(Protocol):
    """The interface that cramjam's lz4 and zstd modules share."""

    def decompress_into(self, data: Buffer, output: bytearray, /) -> int: ...


class _LZ4Compressor(Protocol):
    def compress(self, data: bytes, /) -> int: ...
    def finish(self) -> "ReadableBuffer": ...


class _LZ4(_FrameDecoder, Protocol):
    def Compressor(self, *, content_checksum: bool, block_linked: bool) -> _LZ4Compressor: ...


class _Zstd(_FrameDecoder, Protocol):
    def compress(self, data: Buffer, /) -> "ReadableBuffer": ...


class _Snappy(Protocol):
    """The functions of cramjam's snappy module for raw blocks."""

    def compress_raw(self, data: Buffer, /) -> "ReadableBuffer": ...
    def decompress_raw(self, data: Buffer, /) -> "ReadableBuffer": ...
    def decompress_raw_len(self, data: Buffer, /) -> int: ...


class _Cramjam(Protocol):
    """The part of the cramjam package that is used here."""

    @property
    def lz4(self) -> _LZ4: ...
    @property
    def zstd(self) -> _Zstd: ...
    @property
    def snappy(self) -> _Snappy: ...
    @property
    def DecompressionError(self) -> type[Exception]: ...


def compress(compression: CompressionType, data: Buffer) -> bytes | bytearray | memoryview:
    """Compress one batch's records. Raises `KafkaError(UNSUPPORTED_COMPRESSION_TYPE)`."""
    if compression is CompressionType.NONE:
        return data
    if compression is CompressionType.GZIP:
        encoder = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
        return encoder.compress(data) + encoder.flush()
    library = _cramjam()
    if compression is CompressionType.SNAPPY:
        return _snappy_compress(library, data)
    if compression is CompressionType.LZ4:
        # Kafka refuses blocks that depend on earlier blocks.
        frame = library.lz4.Compressor(content_checksum=False, block_linked=False)
        frame.compress(bytes(data))
        return bytes(frame.finish())
    return bytes(library.zstd.compress(data))


def decompress(
    compression: CompressionType, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes | bytearray | memoryview:
    """Decompress one batch's records; returns `data` itself if it is not compressed.

    Raises `KafkaError`: INVALID_RECORD if the data cannot be decoded or exceeds `max_bytes`,
    UNSUPPORTED_COMPRESSION_TYPE if the codec's library is missing.
    """
    if compression is CompressionType.NONE:
        return data
    return finished(decompress_steps(compression, data, max_bytes))


def decompress_steps(
    compression: CompressionType, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Generator[None, None, Buffer]:
    """Like `decompress`, but with pauses; the generator returns the decompressed data."""
    if compression is CompressionType.NONE:
        return data
    if compression is CompressionType.GZIP:
        return (yield from _gzip_decompress(data, max_bytes))
    library = _cramjam()
    try:
        if compression is CompressionType.SNAPPY:
            return (yield from _snappy_decompress(library, data, max_bytes))
        codec = library.lz4 if compression is CompressionType.LZ4 else library.zstd
        return (yield from _decompress_growing(codec, data, max_bytes))
    except library.DecompressionError as error:
        raise _undecodable(compression, str(error)) from error


def check_outside(compression: CompressionType, data: Buffer, plain_bytes_min: int) -> None:
    """Refuse data that does not begin with this codec's header, or that is too short to decompress
    to `plain_bytes_min` bytes.

    The data is not decoded. Raises `KafkaError(INVALID_RECORD)`.
    """
    begin = bytes(data[:_OUTSIDE_BYTES])
    if compression is CompressionType.SNAPPY:
        is_sound = _begins_as_snappy(begin, len(data), plain_bytes_min)
    else:
        is_sound = begin.startswith(_MAGICS[compression]) and len(begin) == _OUTSIDE_BYTES
    if is_sound and compression is CompressionType.LZ4:
        is_sound = begin[_LZ4_FLAGS_AT] & _LZ4_FLAGS_MASK == _LZ4_FLAGS
    if is_sound and compression is CompressionType.GZIP:
        is_sound = begin[_GZIP_FLAGS_AT] & _GZIP_RESERVED == 0
    if not is_sound:
        raise _undecodable(compression, "the data do not begin with the expected header")
    if plain_bytes_min > _GROWTH_MAX[compression] * len(data):
        raise _undecodable(
            compression, f"{len(data)} bytes cannot become {plain_bytes_min} or more"
        )


def _begins_as_snappy(begin: bytes, size: int, plain_bytes_min: int) -> bool:
    if begin == _XERIAL_MAGIC[:_OUTSIDE_BYTES]:
        return size > len(_XERIAL_HEADER)
    try:
        # A raw block begins with its decompressed size.
        plain_bytes, _ = read_unsigned_varint(begin, 0)
    except (IndexError, KafkaError):
        return False
    return plain_bytes_min <= plain_bytes <= _GROWTH_MAX[CompressionType.SNAPPY] * size


_OUTSIDE_BYTES = 6
_MAGICS = {
    CompressionType.GZIP: b"\x1f\x8b\x08",
    CompressionType.LZ4: b"\x04\x22\x4d\x18",
    CompressionType.ZSTD: b"\x28\xb5\x2f\xfd",
}
_GZIP_FLAGS_AT, _GZIP_RESERVED = 3, 0xE0
_LZ4_FLAGS_AT, _LZ4_FLAGS_MASK, _LZ4_FLAGS = 4, 0xE2, 0x60
"""Version 1 with independent blocks; the reserved bit is 0."""
_GROWTH_MAX = {
    CompressionType.GZIP: 1_032,
    CompressionType.SNAPPY: 64,
    CompressionType.LZ4: 255,
    CompressionType.ZSTD: 131_072,
}
"""The maximum number of bytes that one compressed byte can become in each format."""


def _cramjam() -> _Cramjam:
    try:
        import cramjam
    except ImportError as error:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "snappy, lz4 and zstd need cramjam: pip install cramjam.",
        ) from error
    return cast("_Cramjam", cramjam)


def _gzip_decompress(data: Buffer, max_bytes: int) -> Generator[None, None, bytearray]:
    """Decompress all members of a gzip stream, piece by piece."""
    plain, view, at, work = bytearray(), memoryview(data), 0, 0
    while at < len(view):
        decoder, rest = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS), b""
        while not decoder.eof:
            piece = rest or view[at : at + _GZIP_PIECE_BYTES]
            if not piece:
                raise _undecodable(CompressionType.GZIP, "the stream ends early")
            at += 0 if rest else len(piece)
            try:
                decoded = decoder.decompress(piece, _STEP_BYTES)
            except zlib.error as error:
                raise _undecodable(CompressionType.GZIP, str(error)) from error
            rest = decoder.unconsumed_tail
            plain += decoded
            if len(plain) > max_bytes:
                raise _too_large(max_bytes)
            work += len(decoded) + _GZIP_PIECE_BYTES
            if work > _STEP_BYTES:
                work = 0
                yield
        at -= len(decoder.unused_data)
    return plain


def _decompress_growing(
    codec: _FrameDecoder, data: Buffer, max_bytes: int
) -> Generator[None, None, memoryview]:
    """Decode into a buffer that grows fourfold, as a frame may lack its decompressed size."""
    if not len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, "A compressed batch holds no data.")
    size = min(max(_SMALLEST_GUESS, 4 * len(data)), max_bytes)
    while True:
        output = bytearray(size)
        try:
            return memoryview(output)[: codec.decompress_into(data, output)]
        except _cramjam().DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
        if size == max_bytes:
            raise _too_large(max_bytes)
        size = min(4 * size, max_bytes)
        yield


_NO_ROOM = "failed to write whole buffer"
"""cramjam's message for an output that is too small; any other message means invalid data."""


def _snappy_compress(library: _Cramjam, data: Buffer) -> bytes:
    chunks = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(library.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        chunks.append(_INT32.pack(len(block)))
        chunks.append(block)
    return b"".join(chunks)


def _snappy_decompress(
    library: _Cramjam, data: Buffer, max_bytes: int
) -> Generator[None, None, bytes | bytearray]:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(library, data, max_bytes)
    plain, work = bytearray(), 0
    position = len(_XERIAL_HEADER)
    while position < len(data):
        start = position + _INT32.size
        if start > len(data):
            raise _undecodable(CompressionType.SNAPPY, "a block's length is cut off")
        (size,) = _INT32.unpack_from(data, position)
        position = start + size
        if size < 0 or position > len(data):
            raise _undecodable(CompressionType.SNAPPY, "a block exceeds the data")
        block = _snappy_block(library, data[start:position], max_bytes)
        plain += block
        if len(plain) > max_bytes:
            raise _too_large(max_bytes)
        work += len(block) + _SNAPPY_BLOCK_WORK
        if work > _STEP_BYTES:
            work = 0
            yield
    return plain


def _snappy_block(library: _Cramjam, block: Buffer, max_bytes: int) -> bytes:
    # Check the announced size first, as the decoder would allocate that much.
    if library.snappy.decompress_raw_len(block) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(library.snappy.decompress_raw(block))


def _undecodable(compression: CompressionType, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD, f"Cannot decompress {compression.name.lower()}: {reason}."
    )


def _too_large(max_bytes: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_RECORD, f"A batch decompresses to more than {max_bytes} bytes."
    )
