"""kafka-python's own record code, behind types: an implementation that is not ours to ask."""

import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Protocol, cast

Headers = Sequence[tuple[str, bytes | None]]


class TheirRecord(Protocol):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class TheirBatch(Protocol):
    def validate_crc(self) -> bool: ...
    def __iter__(self) -> Iterator[TheirRecord]: ...


class TheirBuilder(Protocol):
    def append(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> object: ...
    def build(self) -> bytearray: ...


class _TheirModule(Protocol):
    def DefaultRecordBatch(self, buffer: bytes, /) -> TheirBatch: ...
    def DefaultRecordBatchBuilder(
        self, magic: int, compression: int, transactional: int, /, *producer_and_size: int
    ) -> TheirBuilder: ...


def _load() -> _TheirModule:
    with warnings.catch_warnings():
        # Its import reads package data in a way that Python 3.11 has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        return cast("_TheirModule", import_module("kafka.record.default_records"))


_module = _load()


def their_batch(data: bytes) -> TheirBatch:
    return _module.DefaultRecordBatch(data)


def their_builder(
    *, transactional: bool, producer_id: int, epoch: int, sequence: int
) -> TheirBuilder:
    """A builder of uncompressed batches of format 2, of at most a mebibyte."""
    return _module.DefaultRecordBatchBuilder(
        2, 0, transactional, producer_id, epoch, sequence, 1 << 20
    )
