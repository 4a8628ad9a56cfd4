"""Fills a topic through librdkafka with its default batching, as fast as Python can pass records.

Run as `python -m tierlog.bench.harness.loads.defaults.librdkafka_fill produce …`; prints one JSON
object. This is not a case of the scenario: it writes the records that all cases read. Lists of
records go to the partitions in turn, so that each partition gets its share.
"""

import time

from confluent_kafka import Producer

from ..load import VALUES, LoadError, Order, client_main, values
from .tally import PATIENCE_S

_RECORDS_A_CALL = 1_000
_QUEUED_MAX = 50_000
"""Half of the default limit of the client's queue."""


def fill(order: Order) -> dict[str, float]:
    """Produce a whole load. Raises LoadError if a record is not accepted or acknowledged."""
    load = order.load
    started = time.perf_counter()
    producer = Producer({"bootstrap.servers": order.bootstrap})
    row: list[dict[str, object]] = [{"value": value} for value in values(load.record_bytes)]
    rows = row * (_RECORDS_A_CALL // VALUES + 2)
    size = max(1, _RECORDS_A_CALL // load.partitions)
    for first in range(0, load.records_in(0), size):
        for partition in range(load.partitions):
            while len(producer) > _QUEUED_MAX:
                producer.poll(0.001)
            chunk = rows[: max(0, min(size, load.records_in(partition) - first))]
            if producer.produce_batch(order.topic, chunk, partition) != len(chunk):
                raise LoadError("the client did not accept a record")
            producer.poll(0)
    if left := producer.flush(PATIENCE_S):
        raise LoadError(f"{left} records were not acknowledged")
    return {"seconds": time.perf_counter() - started}


if __name__ == "__main__":
    client_main(__doc__, fill, fill)
