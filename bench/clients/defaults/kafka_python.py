"""kafka-python with its default settings: `send()` and `flush()`, and the consumer as an iterator.

Run as `python -m tierlog.bench.clients.defaults.kafka_python produce|consume …`; prints one JSON
object. The package has no type hints; the parts that are used are declared here.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Protocol, cast

from ..load import VALUES, Order, parse_order, values
from .tally import PATIENCE_S, Acknowledged, Tally


class _Sent(Protocol):
    """The future of one record."""

    def add_callback(self, call: Callable[[object], object]) -> object: ...
    def add_errback(self, call: Callable[[BaseException], object]) -> object: ...


class _Producer(Protocol):
    """`kafka.KafkaProducer`."""

    def send(self, topic: str, value: bytes) -> _Sent: ...
    def flush(self, timeout: float) -> None: ...
    def close(self) -> None: ...


class _Record(Protocol):
    """One record that was read."""

    partition: int
    offset: int
    value: bytes


class _Consumer(Protocol):
    """`kafka.KafkaConsumer`."""

    def __iter__(self) -> Iterator[_Record]: ...
    def close(self) -> None: ...


class _Module(Protocol):
    """`kafka`."""

    KafkaProducer: Callable[..., _Producer]
    KafkaConsumer: Callable[..., _Consumer]


with warnings.catch_warnings():
    # The package reads its schemas in a way that is deprecated in Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    _kafka = cast("_Module", import_module("kafka"))


def produce(order: Order) -> dict[str, float]:
    """Produce a whole load, to the partitions that the client chooses."""
    acknowledged = Acknowledged(order.load)

    def succeeded(_metadata: object) -> None:
        acknowledged.records += 1

    def failed(error: BaseException) -> None:
        acknowledged.errors.append(str(error))

    producer = _kafka.KafkaProducer(bootstrap_servers=order.bootstrap)
    row = values(order.load.record_bytes)
    for number in range(order.load.records):
        sent = producer.send(order.topic, row[number % VALUES])
        sent.add_callback(succeeded)
        sent.add_errback(failed)
        if number == 0:
            producer.flush(PATIENCE_S)
            acknowledged.started()
    producer.flush(PATIENCE_S)
    figures = acknowledged.figures()
    producer.close()
    return figures


def consume(order: Order) -> dict[str, float]:
    """Consume a whole load. If records stop coming, the parent process ends this one."""
    tally = Tally(order.load)
    consumer = _kafka.KafkaConsumer(
        order.topic,
        bootstrap_servers=order.bootstrap,
        group_id=f"defaults-{time.time_ns()}",
        auto_offset_reset="earliest",
    )
    for record in consumer:
        tally.take(record.partition, record.offset, len(record.value))
        if tally.records == 1 or tally.is_complete:
            tally.returned(True)
        if tally.is_complete:
            break
    consumer.close()
    return tally.figures()


def main(arguments: Sequence[str] | None = None) -> int:
    order = parse_order("tierlog.bench.clients.defaults.kafka_python", __doc__, arguments)
    figures = produce(order) if order.direction == "produce" else consume(order)
    json.dump(figures, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
