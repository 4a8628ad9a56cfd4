"""aiokafka with its default settings: `await send()` and `flush()`, and `async for` to read.

Run as `python -m tierlog.bench.harness.loads.defaults.aiokafka_client produce|consume …`; prints
one JSON object.
"""

import asyncio
import time

from ..load import VALUES, Order, client_main, values
from ..untyped_clients import Acknowledgement, aiokafka
from .tally import PATIENCE_S, Acknowledged, Tally

_aiokafka = aiokafka()


async def produce(order: Order) -> dict[str, float]:
    """Produce a whole load, to the partitions that the client chooses."""
    acknowledged = Acknowledged(order.load)

    def done(sent: "asyncio.Future[Acknowledgement]") -> None:
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


if __name__ == "__main__":
    client_main(
        __doc__,
        lambda order: asyncio.run(produce(order)),
        lambda order: asyncio.run(consume(order)),
    )
