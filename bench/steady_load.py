"""A producer that keeps its pace whatever the broker does, and what each record had to wait.

Run as `python -m tierlog.bench.steady_load …`; prints one JSON object. Every record has a time at
which it is meant to be sent, fixed before the first one is, and its latency counts from there to
its acknowledgement. So a broker that stalls is charged for all the records that should have been
sent meanwhile, not only for the one that happened to be under way (coordinated omission).

The client's own pauses count as well, but for every broker and topic alike.
"""

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Producer

_TICK_SECONDS = 0.001
_QUANTILES = (0.5, 0.99, 0.999, 1.0)


class SteadyLoad(NamedTuple):
    """So many records a second of such a size, for so long; the first seconds do not count."""

    records_per_second: int
    record_bytes: int
    seconds: float
    warm_up_seconds: float

    @property
    def records(self) -> int:
        return int(self.records_per_second * (self.warm_up_seconds + self.seconds))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    index = -int(-share * len(ordered) // 1) - 1
    return ordered[max(0, min(len(ordered) - 1, index))]


def produce_steadily(bootstrap: str, topic: str, load: SteadyLoad) -> dict[str, float]:
    """Latencies in milliseconds by quantile. Raises RuntimeError when a record was lost."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 2,
            "batch.size": 131_072,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    # One partition: acknowledgements come in the order of sending.
    intended: deque[float] = deque()
    latencies: list[float] = []
    failures: list[str] = []
    clock = time.perf_counter

    def on_delivery(error: object, _message: object) -> None:
        meant_for = intended.popleft()
        if error is not None:
            failures.append(str(error))
        elif meant_for >= counts_from:
            latencies.append(clock() - meant_for)

    value = (bytes(range(256)) * (load.record_bytes // 256 + 1))[: load.record_bytes]
    producer.list_topics(topic, timeout=30)
    started = clock()
    counts_from = started + load.warm_up_seconds
    interval = 1 / load.records_per_second
    sent, total = 0, load.records
    while sent < total:
        due = min(total, int((clock() - started) * load.records_per_second) + 1)
        while sent < due:
            intended.append(started + sent * interval)
            producer.produce(topic, value, partition=0, on_delivery=on_delivery)
            sent += 1
        producer.poll(_TICK_SECONDS)
    producer.flush(120)
    if failures or intended:
        raise RuntimeError(f"{len(intended)} records unanswered; first failure: {failures[:1]}")
    latencies.sort()
    return {f"p{share * 100:g}": quantile(latencies, share) * 1000 for share in _QUANTILES}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tierlog.bench.steady_load", description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of the broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records-per-second", type=int, required=True)
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up-seconds", type=float, default=1)
    options = parser.parse_args(arguments)
    load = SteadyLoad(
        options.records_per_second,
        options.record_bytes,
        options.seconds,
        options.warm_up_seconds,
    )
    json.dump(produce_steadily(options.bootstrap, options.topic, load), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
