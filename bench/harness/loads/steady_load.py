"""A producer that keeps its pace whatever the broker does, and measures each record's latency.

Run as `python -m tierlog.bench.harness.loads.steady_load …`; reports the latency of each record,
from its planned send time to its acknowledgement, and prints one JSON object. The client's own
pauses count too, but equally for every broker and topic. SIGTERM ends the load early and
successfully: it waits for the records sent so far, and they count. See `steady.py`.
"""

import json
import signal
import sys
import time
from array import array
from collections import deque
from typing import TYPE_CHECKING

from confluent_kafka import Message, Producer

from .client_process import leave_latencies
from .load import LoadError
from .steady import NANOSECONDS, STAMP, SteadyLoad, SteadyOrder, parse_order

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_PATIENCE_S = 60.0
_POLL_NS = 1_000_000
"""The client waits for acknowledgements for a millisecond at a time, or not at all."""


class _Acknowledgements:
    """The unacknowledged records, and the latencies of the acknowledged ones."""

    def __init__(self, load: SteadyLoad, counts_from_ns: int) -> None:
        # In each partition the acknowledgements arrive in send order.
        self._sent: list[deque[int]] = [deque() for _ in range(load.partitions)]
        self.counts_from_ns = counts_from_ns
        self.pairs = array("d")
        self.failures: list[str] = []

    def expect(self, partition: int, meant_ns: int) -> None:
        self._sent[partition].append(meant_ns)

    def on_delivery(self, error: "KafkaError | None", message: Message) -> None:
        now = time.monotonic_ns()
        partition = message.partition()
        assert partition is not None, "It was sent to a partition."
        meant_ns = self._sent[partition].popleft()
        if error is not None:
            self.failures.append(str(error))
        elif meant_ns >= self.counts_from_ns:
            self.pairs.append((meant_ns - self.counts_from_ns) / NANOSECONDS)
            self.pairs.append((now - meant_ns) / 1e6)

    @property
    def unanswered(self) -> int:
        return sum(map(len, self._sent))


def _producer(order: SteadyOrder) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": order.bootstrap,
            "acks": order.load.acks,
            "linger.ms": order.load.linger_ms,
            "batch.size": order.load.batch_bytes,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    producer.list_topics(order.topic, timeout=_PATIENCE_S)
    return producer


def produce_steadily(order: SteadyOrder) -> tuple[dict[str, float], "array[float]"]:
    """Run the load; returns figures and (at_s, ms) pairs. Raises LoadError."""
    load, producer = order.load, _producer(order)
    filler = bytes(range(256)) * (load.record_bytes // 256 + 1)
    filler = filler[: load.record_bytes - STAMP.size]
    started = time.monotonic_ns()
    answers = _Acknowledgements(load, started + load.warm_up_ns)
    is_over: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: is_over.append(number))
    on_delivery, pack, topic = answers.on_delivery, STAMP.pack, order.topic
    behind_ns, sent = 0, 0
    for number in range(load.records):
        if is_over:
            break
        meant_ns = started + number * NANOSECONDS // load.records_per_second
        while (early_ns := meant_ns - time.monotonic_ns()) > 0:
            if early_ns > _POLL_NS:
                producer.poll(0.001)
            else:
                producer.poll(0)
                time.sleep(max(0, meant_ns - time.monotonic_ns()) / NANOSECONDS)
        behind_ns = max(behind_ns, -early_ns)
        sequence, partition = divmod(number, load.partitions)
        answers.expect(partition, meant_ns)
        value = pack(meant_ns, sequence) + filler
        producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
        sent += 1
        if not number & 15:
            producer.poll(0)
    producer.flush(_PATIENCE_S)
    if answers.failures or answers.unanswered:
        raise LoadError(
            f"{answers.unanswered} records unanswered, {len(answers.failures)} failed: "
            f"{answers.failures[:1]}"
        )
    figures = {
        "records": sent,
        "sender_behind_ms": behind_ns / 1e6,
        # Of the machine's monotonic clock: the latencies count from here.
        "counts_from_s": answers.counts_from_ns / NANOSECONDS,
    }
    return figures, answers.pairs


if __name__ == "__main__":
    figures, pairs = produce_steadily(parse_order(__doc__))
    leave_latencies(pairs)
    json.dump(figures, sys.stdout)
