"""One client's load through our own `Producer` and `Consumer`, with every record checked.

Run as `python -m tierlog.bench.harness.loads.own_load produce|consume …`; prints one JSON object.
These clients are pure Python: their throughput shows more about them than about the broker, but the
broker's CPU per gigabyte can be compared with other clients.
"""

import asyncio
import time

from ....clients.consumer.consumer import Consumer
from ....clients.producer.producer import Producer
from ....clients.record.compression import CompressionType
from ....clients.topic_partition import TopicPartition
from .load import VALUES, LoadError, Order, client_main, values

_IN_FLIGHT_RECORDS = 2_000
_PATIENCE_MS = 60_000
_ACKS = {"0": 0, "1": 1, "all": -1}


async def produce(order: Order) -> dict[str, float]:
    """Produce a whole load; returns the seconds until the last acknowledgement."""
    load = order.load
    row = values(load.record_bytes, varied=load.varied)
    producer = Producer(
        order.bootstrap,
        acks=_ACKS[load.acks],
        linger_ms=load.linger_ms,
        batch_size=load.batch_bytes,
        compression=CompressionType[load.codec.upper()],
    )
    acknowledged = 0
    async with producer:
        started = time.perf_counter()
        for first in range(0, load.records, _IN_FLIGHT_RECORDS):
            numbers = range(first, min(first + _IN_FLIGHT_RECORDS, load.records))
            sent = [
                producer.send_nowait(
                    order.topic,
                    row[(number // load.partitions + number % load.partitions) % VALUES],
                    partition=number % load.partitions,
                )
                for number in numbers
            ]
            acknowledged += len(await asyncio.gather(*sent))
        seconds = time.perf_counter() - started
    if acknowledged != load.records:
        raise LoadError(f"{acknowledged} of {load.records} records were acknowledged")
    return {"seconds": seconds}


async def consume(order: Order) -> dict[str, float]:
    """Consume a whole load; returns the seconds since the assignment."""
    load = order.load
    row = values(load.record_bytes, varied=load.varied)
    following = [0] * load.partitions
    seen = 0
    async with Consumer(
        order.bootstrap, auto_offset_reset="earliest", max_poll_records=2_000
    ) as consumer:
        partitions = [TopicPartition(order.topic, index) for index in range(load.partitions)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        started = time.perf_counter()
        while seen < load.records:
            records = await consumer.poll(_PATIENCE_MS)
            if not records:
                raise LoadError(f"no more records came after {seen} of {load.records} records")
            for record in records:
                at = record.partition, record.offset
                if record.offset != following[record.partition]:
                    raise LoadError(f"{at} came instead of {following}")
                if record.value != row[(record.offset + record.partition) % VALUES]:
                    raise LoadError(f"the value of {at} is another")
                following[record.partition] += 1
            seen += len(records)
        seconds = time.perf_counter() - started
    return {"seconds": seconds}


if __name__ == "__main__":
    client_main(
        __doc__,
        lambda order: asyncio.run(produce(order)),
        lambda order: asyncio.run(consume(order)),
    )
