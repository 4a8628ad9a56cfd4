"""kafka-python with its default settings: `send()` and `flush()`, and the consumer as an iterator.

Run as `python -m tierlog.bench.harness.loads.defaults.kafka_python produce|consume …`; prints one
JSON object.
"""

import time

from ..load import VALUES, Order, client_main, values
from ..untyped_clients import kafka_python
from .tally import PATIENCE_S, Acknowledged, Tally

_kafka = kafka_python()


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


if __name__ == "__main__":
    client_main(__doc__, produce, consume)
