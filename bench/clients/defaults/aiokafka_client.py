"""aiokafka with its default settings: `await send()` and `flush()`, and `async for` to read.

Run as `python -m tierlog.bench.clients.defaults.aiokafka_client produce|consume …`; prints one JSON
object. The package has no type hints; the parts that are used are declared here.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

from ..load import VALUES, Order, parse_order, values
from .tally import PATIENCE_S, Acknowledged, Tally


class _Producer(Protocol):
    """`aiokafka.AIOKafkaProducer`."""

    async def start(self) -> None: ...
    async def send(self, topic: str, value: bytes) -> "asyncio.Future[object]": ...
    async def flush(self) -> None: ...
    async def stop(self) -> None: ...


class _Record(Protocol):
    """One record that was read."""

    partition: int
    offset: int
    value: bytes


class _Consumer(Protocol):
    """`aiokafka.AIOKafkaConsumer`."""

    async def start(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[_Record]: ...
    async def stop(self) -> None: ...


class _Module(Protocol):
    """`aiokafka`."""

    AIOKafkaProducer: Callable[..., _Producer]
    AIOKafkaConsumer: Callable[..., _Consumer]


_aiokafka = cast("_Module", import_module("aiokafka"))


async def produce(order: Order) -> dict[str, float]:
    """Produce a whole load, to the partitions that the client chooses."""
    acknowledged = Acknowledged(order.load)

    def done(sent: "asyncio.Future[object]") -> None:
        error = sent.exception()
        if error is None:
            acknowledged.records += 1
        else:
            acknowledged.errors.append(str(error))

    producer = _aiokafka.AIOKafkaProducer(bootstrap_servers=order.bootstrap)
    await producer.start()
    row = values(order.load.record_bytes)
    for number in range(order.load.records):
        sent = await producer.send(order.topic, row[number % VALUES])
        sent.add_done_callback(done)
        if number == 0:
            await sent
            await asyncio.sleep(0)
            acknowledged.started()
    await producer.flush()
    # The callbacks of the last records are scheduled; let them run now.
    await asyncio.sleep(0)
    figures = acknowledged.figures()
    await producer.stop()
    return figures


async def consume(order: Order) -> dict[str, float]:
    """Consume a whole load. Raises TimeoutError if the next record does not come."""
    tally = Tally(order.load)
    consumer = _aiokafka.AIOKafkaConsumer(
        order.topic,
        bootstrap_servers=order.bootstrap,
        group_id=f"defaults-{time.time_ns()}",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    async with asyncio.timeout(None) as patience:
        async for record in consumer:
            tally.take(record.partition, record.offset, len(record.value))
            if tally.records % 1_000 == 1:
                patience.reschedule(asyncio.get_running_loop().time() + PATIENCE_S)
            if tally.records == 1 or tally.is_complete:
                tally.returned(True)
            if tally.is_complete:
                break
    await consumer.stop()
    return tally.figures()


def main(arguments: Sequence[str] | None = None) -> int:
    order = parse_order("tierlog.bench.clients.defaults.aiokafka_client", __doc__, arguments)
    work = produce(order) if order.direction == "produce" else consume(order)
    json.dump(asyncio.run(work), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
