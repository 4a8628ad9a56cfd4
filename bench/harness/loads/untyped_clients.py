"""The parts of aiokafka and kafka-python that are used: the packages have no type hints."""

import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import asyncio


class Record(Protocol):
    """One record that was read."""

    partition: int
    offset: int
    value: bytes


class Acknowledgement(Protocol):
    """What aiokafka gives for an acknowledged record."""

    offset: int


class AsyncProducer(Protocol):
    """`aiokafka.AIOKafkaProducer`."""

    async def start(self) -> None: ...
    async def send(
        self, topic: str, value: bytes, *, partition: int | None = None
    ) -> "asyncio.Future[Acknowledgement]": ...
    async def flush(self) -> None: ...
    async def stop(self) -> None: ...


class AsyncConsumer(Protocol):
    """`aiokafka.AIOKafkaConsumer`."""

    async def start(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[Record]: ...
    async def stop(self) -> None: ...


class Aiokafka(Protocol):
    """`aiokafka`."""

    AIOKafkaProducer: Callable[..., AsyncProducer]
    AIOKafkaConsumer: Callable[..., AsyncConsumer]


class Sent(Protocol):
    """The future of one record of kafka-python."""

    def add_callback(self, call: Callable[[object], object]) -> object: ...
    def add_errback(self, call: Callable[[BaseException], object]) -> object: ...


class SyncProducer(Protocol):
    """`kafka.KafkaProducer`."""

    def send(self, topic: str, value: bytes) -> Sent: ...
    def flush(self, timeout: float) -> None: ...
    def close(self) -> None: ...


class SyncConsumer(Protocol):
    """`kafka.KafkaConsumer`."""

    def __iter__(self) -> Iterator[Record]: ...
    def close(self) -> None: ...


class KafkaPython(Protocol):
    """`kafka`."""

    KafkaProducer: Callable[..., SyncProducer]
    KafkaConsumer: Callable[..., SyncConsumer]


def aiokafka() -> Aiokafka:
    return cast("Aiokafka", import_module("aiokafka"))


def kafka_python() -> KafkaPython:
    with warnings.catch_warnings():
        # The package reads its schemas in a way that is deprecated in Python 3.11.
        warnings.simplefilter("ignore", DeprecationWarning)
        return cast("KafkaPython", import_module("kafka"))
