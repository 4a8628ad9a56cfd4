"""A consumer at the end of a log that measures the age of each record on arrival.

Run as `python -m tierlog.bench.harness.loads.tail_consumer …` with the same load as its
`steady_load`; reports the latency of each record, from its planned send time until it is read, and
prints one JSON object. Start it before the producer; records of the producer's warm-up do not
count. A missing or duplicate record ends it with an error. See `steady.py`.
"""

import json
import sys
import time
from array import array

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from .client_process import leave_latencies
from .load import LoadError
from .steady import NANOSECONDS, STAMP, SteadyOrder, parse_order

_RECORDS_A_CALL = 500
_PATIENCE_S = 60.0


class _Tail:
    """The next expected records, and the latencies so far."""

    def __init__(self, order: SteadyOrder) -> None:
        self._next = [0] * order.load.partitions
        self._warm_up_ns = order.load.warm_up_ns
        self._counts_from_ns = -1
        self.pairs = array("d")

    def take(self, message: Message, now: int) -> None:
        """Check and count one record that was read at `now`."""
        if (error := message.error()) is not None:
            raise KafkaException(error)
        partition, value = message.partition(), message.value()
        assert partition is not None, "It came from a partition."
        assert value is not None, "Every record has a value."
        meant_ns, sequence = STAMP.unpack_from(value)
        if sequence != self._next[partition]:
            raise LoadError(
                f"record {sequence} of partition {partition} came, not {self._next[partition]}"
            )
        self._next[partition] += 1
        if self._counts_from_ns < 0:
            # Partitions are served in turn, so the load's first record may not arrive first: an
            # error of some milliseconds in a warm-up of seconds.
            self._counts_from_ns = meant_ns + self._warm_up_ns
        if meant_ns >= self._counts_from_ns:
            self.pairs.append((meant_ns - self._counts_from_ns) / NANOSECONDS)
            self.pairs.append((now - meant_ns) / 1e6)


def read_tail(order: SteadyOrder) -> "array[float]":
    """(at_s, ms) of each record that counts."""
    consumer = Consumer(
        {
            "bootstrap.servers": order.bootstrap,
            "group.id": "tierlog-bench-tail",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "fetch.min.bytes": 1,
            "fetch.queue.backoff.ms": 1,
            "queued.min.messages": 1_000_000,
        }
    )
    offsets = enumerate(order.offsets)
    consumer.assign([TopicPartition(order.topic, each, offset) for each, offset in offsets])
    tail = _Tail(order)
    seen, heard = 0, time.monotonic()
    while seen < order.load.records:
        # One record wakes the call; the rest is then read without waiting.
        messages = consumer.consume(1, timeout=1)
        now = time.monotonic_ns()
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _PATIENCE_S:
            raise LoadError(f"no more records came after {seen} of {order.load.records} records")
        while messages:
            for message in messages:
                tail.take(message, now)
            seen += len(messages)
            messages = consumer.consume(_RECORDS_A_CALL, timeout=0)
            now = time.monotonic_ns()
    consumer.close()
    return tail.pairs


if __name__ == "__main__":
    order = parse_order(__doc__)
    leave_latencies(read_tail(order))
    json.dump({"records": order.load.records}, sys.stdout)
