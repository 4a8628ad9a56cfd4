"""Encodes and decodes messages. The codec of a class and version is compiled at its first use.

Most brokers receive only some of the messages, in three or four versions each: compiling all codecs
at startup would take longer than the startup itself.
"""

from collections.abc import Callable, Generator
from typing import TypeVar, cast

from ..errors import ErrorCode, KafkaError
from .decoder import decoder_source
from .encoder import encoder_source
from .primitives import UNLIMITED
from .schema import Chunk, Message, version_range
from .source import SourceWriter

M = TypeVar("M", bound=Message)

Decoder = Callable[[memoryview, int, int], tuple[Message, int]]
"""`decode` for one class and version; the last argument limits the total number of elements in all
arrays of the message."""
DecodingSteps = Generator[None, None, tuple[Message, int]]
StepDecoder = Callable[[memoryview, int, int], DecodingSteps]
Encoder = Callable[[Message], list[Chunk]]
EncodingSteps = Generator[None, None, list[Chunk]]
StepEncoder = Callable[[Message, int], EncodingSteps]
_Source = Callable[..., SourceWriter]


def decode(
    cls: type[M], version: int, buffer: bytes | bytearray | memoryview, position: int = 0
) -> tuple[M, int]:
    """Decode the message at `position`; also returns the position after it.

    Its records are views of `buffer`. Raises ProtocolError for malformed bytes, and
    KafkaError(UNSUPPORTED_VERSION) for a version that the class does not have.
    """
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    message, end = decoder_of(cls, version)(view, position, UNLIMITED)
    return cast("M", message), end


def decoder_of(cls: type[Message], version: int) -> Decoder:
    """The decoder of one version, for decoding many messages of that version.

    Raises KafkaError(UNSUPPORTED_VERSION) for a version that the class does not have.
    """
    return cls.__decoders__.get(version) or _compile_decoder(cls, version)


def decode_in_steps(
    cls: type[Message], version: int, view: memoryview, position: int, allowed: int
) -> DecodingSteps:
    """Decode like a `Decoder`, with a pause after each element of an array."""
    decoder = cls.__step_decoders__.get(version) or _compile_step_decoder(cls, version)
    return decoder(view, position, allowed)


def encode(message: Message, version: int) -> list[Chunk]:
    """The message as chunks to be sent one after the other; records are passed by reference.

    Raises KafkaError(UNSUPPORTED_VERSION) for a version that the class does not have, or that lacks
    a field that is set, and ValueError for values that do not fit their fields.
    """
    cls = type(message)
    encoder = cls.__encoders__.get(version) or _compile_encoder(cls, version)
    return encoder(message)


def encode_in_steps(message: Message, version: int, max_bytes: int) -> EncodingSteps:
    """Like `encode`, with a pause after each element of an array, so that other tasks can run.

    The elements of an array may be created one by one as they are encoded. Raises ProtocolError if
    the message, not counting its records, is larger than `max_bytes`.
    """
    cls = type(message)
    encoder = cls.__step_encoders__.get(version) or _compile_step_encoder(cls, version)
    return encoder(message, max_bytes)


def encode_bytes(message: Message, version: int) -> bytes:
    """The message as one bytes object. Its records must be in memory, not file regions."""
    return b"".join(cast("list[bytes]", encode(message, version)))


def _require_version(cls: type[Message], version: int) -> None:
    if not version_range(cls.versions).includes(version):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{cls.__name__} has no version {version}")


def _compile_decoder(cls: type[Message], version: int) -> Decoder:
    decoder = cast("Decoder", _compile(decoder_source, "decode", cls, version))
    cls.__decoders__[version] = decoder
    return decoder


def _compile_step_decoder(cls: type[Message], version: int) -> StepDecoder:
    decoder = cast("StepDecoder", _compile(decoder_source, "decode", cls, version, in_steps=True))
    cls.__step_decoders__[version] = decoder
    return decoder


def _compile_encoder(cls: type[Message], version: int) -> Encoder:
    encoder = cast("Encoder", _compile(encoder_source, "encode", cls, version))
    cls.__encoders__[version] = encoder
    return encoder


def _compile_step_encoder(cls: type[Message], version: int) -> StepEncoder:
    encoder = cast("StepEncoder", _compile(encoder_source, "encode", cls, version, in_steps=True))
    cls.__step_encoders__[version] = encoder
    return encoder


def _compile(
    source: _Source, verb: str, cls: type[Message], version: int, *, in_steps: bool = False
) -> object:
    """Compile the function `verb` from its source. Raises KafkaError(UNSUPPORTED_VERSION)."""
    _require_version(cls, version)
    writer = source(cls, version, in_steps=in_steps)
    steps = " in steps" if in_steps else ""
    writer.compile(f"{verb}r{steps} of {cls.__name__} version {version}")
    return writer.namespace[verb]
