"""Byte for byte beside an independent codec, `kio`, which needs no toolchain.

kio was generated from the same JSON definitions by other people. It reads random messages of ours
and writes them again: the same bytes must come back. It knows every version that we serve.
"""

import io
from importlib import import_module
from typing import Protocol, cast

import pytest
from kio.serial import entity_reader, entity_writer

from tierlog.clients.protocol.codec import encode_bytes
from tierlog.clients.protocol.schema import Message

from .definitions import snake_case
from .served_messages import identify, message_versions, random_message

MESSAGES_PER_VERSION = 10


class Reader(Protocol):
    """What kio's readers are called like."""

    def __call__(self, buffer: bytes, offset: int, /) -> tuple[object, int]: ...


class Writer(Protocol):
    """What kio's writers are called like."""

    def __call__(self, buffer: io.BytesIO, entity: object, /) -> None: ...


def module_of(name: str, version: int) -> str:
    for suffix, kind in (("Request", "request"), ("Response", "response")):
        if name.endswith(suffix):
            return f"kio.schema.{snake_case(name.removesuffix(suffix))}.v{version}.{kind}"
    # kio's module of KRaftVersionRecord begins with k_raft.
    return f"kio.schema.{snake_case(name).replace('kraft', 'k_raft')}.v{version}.data"


@pytest.mark.parametrize(("cls", "version"), message_versions(), ids=identify)
def test_kio_reads_our_bytes_and_writes_the_same(cls: type[Message], version: int) -> None:
    entity = getattr(import_module(module_of(cls.__name__, version)), cls.__name__)
    read = cast(Reader, entity_reader(entity))
    write = cast(Writer, entity_writer(entity))
    for seed in range(MESSAGES_PER_VERSION):
        encoded = encode_bytes(random_message(cls, version, seed), version)
        value, size = read(encoded, 0)
        assert size == len(encoded)
        written = io.BytesIO()
        write(written, value)
        assert written.getvalue() == encoded
