"""confluent-kafka with its default settings, in the two loops that people usually write.

Run as `python -m tierlog.bench.harness.loads.defaults.confluent poll|consume produce|consume …`;
prints one JSON object. `poll` returns one record per call, `consume` up to 500. Producing is the
same for both: `produce()` and `poll(0)` for each record, with a delivery report, and `flush()` at
the end.
"""

import sys
import time
from typing import TYPE_CHECKING, cast

from confluent_kafka import Consumer, KafkaException, Message, Producer

from ..load import VALUES, Order, client_main, values
from .tally import PATIENCE_S, Acknowledged, Tally

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_RECORDS_A_CALL = 500
_TIMEOUT_S = 1.0


def produce(order: Order) -> dict[str, float]:
    """Produce a whole load, to the partitions that the client chooses."""
    acknowledged = Acknowledged(order.load)

    def on_delivery(error: "KafkaError | None", _message: Message) -> None:
        if error is None:
            acknowledged.records += 1
        else:
            acknowledged.errors.append(str(error))

    producer = Producer({"bootstrap.servers": order.bootstrap})
    row = values(order.load.record_bytes)
    for number in range(order.load.records):
        while True:
            try:
                producer.produce(order.topic, row[number % VALUES], on_delivery=on_delivery)
                break
            except BufferError:
                # The client's queue is full: wait for delivery reports, as documented.
                producer.poll(_TIMEOUT_S)
        producer.poll(0)
        if number == 0:
            producer.flush(PATIENCE_S)
            acknowledged.started()
    producer.flush(PATIENCE_S)
    return acknowledged.figures()


def _consumer(order: Order) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": order.bootstrap,
            "group.id": f"defaults-{time.time_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([order.topic])
    return consumer


def _take(tally: Tally, message: Message) -> None:
    if (error := message.error()) is not None:
        raise KafkaException(error)
    # Both are numbers in every message that came from a broker.
    partition, offset = cast("int", message.partition()), cast("int", message.offset())
    tally.take(partition, offset, len(message))


def poll_loop(order: Order) -> dict[str, float]:
    """Consume a whole load, one record per call."""
    tally = Tally(order.load)
    consumer = _consumer(order)
    while not tally.is_complete:
        message = consumer.poll(_TIMEOUT_S)
        if message is not None:
            _take(tally, message)
        if message is None or tally.records == 1 or tally.is_complete:
            tally.returned(message is not None)
    consumer.close()
    return tally.figures()


def consume_loop(order: Order) -> dict[str, float]:
    """Consume a whole load, one list of records per call."""
    tally = Tally(order.load)
    consumer = _consumer(order)
    while not tally.is_complete:
        messages = consumer.consume(_RECORDS_A_CALL, _TIMEOUT_S)
        for message in messages:
            _take(tally, message)
        tally.returned(bool(messages))
    consumer.close()
    return tally.figures()


_LOOPS = {"poll": poll_loop, "consume": consume_loop}


if __name__ == "__main__":
    client_main(__doc__, produce, _LOOPS[sys.argv[1]], sys.argv[2:])
