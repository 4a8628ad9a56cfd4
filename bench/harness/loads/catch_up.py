"""Lagging consumers: several read one topic's old data at the same time.

Run as `python -m tierlog.bench.harness.loads.catch_up …`; prints one JSON object. Each starts at a
different offset, like unrelated consumers, and reads its share, so that together they read
everything once. With `--seconds` each keeps reading for that time, and wraps around at the end.

With a rate (`--mb-per-second`, for all together) a consumer that is ahead of its share waits, like
the out-of-sync consumers of KIP-405's test; without one they read at full speed.

They share one process: librdkafka fetches in its own threads, and Python only counts. Each list of
received records is checked to contain every offset once and in order.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from .load import LoadError

_RECORDS_A_CALL = 1_000
_PATIENCE_S = 60.0
_PACED_QUEUE_KBYTES = 2_048
_FREE_QUEUE_KBYTES = 65_536
"""Divided among all consumers, because records fetched beyond a consumer's share are not read."""


class Old(NamedTuple):
    """The old data: the number of records in partition 0, and the size of each."""

    bootstrap: str
    topic: str
    records: int
    record_bytes: int


class CatchUp(NamedTuple):
    """How to read; `seconds` = 0 means once, `bytes_per_second` = 0 means at full speed."""

    consumers: int
    seconds: float = 0.0
    bytes_per_second: float = 0.0


class _Reader:
    """One consumer that reads the old data from its own start offset."""

    def __init__(self, old: Old, begin: int, queue_kbytes: int) -> None:
        self._old = old
        self._next = begin
        self._consumer = Consumer(
            {
                "bootstrap.servers": old.bootstrap,
                "group.id": "tierlog-bench",
                "enable.auto.commit": False,
                # By default, librdkafka pauses for a second whenever its queue is full.
                "queued.min.messages": 10_000_000,
                "queued.max.messages.kbytes": queue_kbytes,
                "fetch.queue.backoff.ms": 5,
                "log_level": 3,
            }
        )
        self._consumer.assign([TopicPartition(old.topic, 0, begin)])
        self.records = 0

    def read(self) -> None:
        """Read and check the next list of records. Raises LoadError, KafkaException."""
        count = min(_RECORDS_A_CALL, self._old.records - self._next)
        messages = self._consumer.consume(count, timeout=_PATIENCE_S)
        if len(messages) < count:
            self._raise(messages)
        if [*map(Message.offset, messages)] != [*range(self._next, self._next + count)]:
            self._raise(messages)
        self.records += count
        self._next += count
        if self._next == self._old.records:
            self._next = 0
            self._consumer.assign([TopicPartition(self._old.topic, 0, 0)])

    def _raise(self, messages: list[Message]) -> None:
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
        raise LoadError(f"{len(messages)} records came where offset {self._next} was expected")

    def close(self) -> None:
        self._consumer.close()


def catch_up(old: Old, way: CatchUp) -> dict[str, float]:
    """Read; returns the megabytes, the seconds and the rate."""
    free_kbytes = max(_PACED_QUEUE_KBYTES, _FREE_QUEUE_KBYTES // way.consumers)
    queue_kbytes = _PACED_QUEUE_KBYTES if way.bytes_per_second else free_kbytes
    readers = [
        _Reader(old, number * old.records // way.consumers, queue_kbytes)
        for number in range(way.consumers)
    ]
    clock = time.perf_counter
    started = clock()
    each = old.records // way.consumers
    share = way.bytes_per_second / way.consumers / old.record_bytes

    def go(reader: _Reader) -> None:
        while clock() - started < way.seconds if way.seconds else reader.records < each:
            ahead_s = reader.records / share - (clock() - started) if share else 0.0
            if ahead_s > 0:
                left_s = way.seconds - (clock() - started) if way.seconds else ahead_s
                time.sleep(max(0.0, min(ahead_s, left_s)))
            else:
                reader.read()

    with ThreadPoolExecutor(way.consumers) as pool:
        for ended in [pool.submit(go, reader) for reader in readers]:
            ended.result()
    seconds = clock() - started
    for reader in readers:
        reader.close()
    megabytes = sum(reader.records for reader in readers) * old.record_bytes / 1e6
    return {"seconds": seconds, "megabytes": megabytes, "mb_per_s": megabytes / seconds}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tierlog.bench.harness.loads.catch_up", description=__doc__
    )
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of the broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True, help="number of records in the topic")
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.0, help="0: everything is read once")
    parser.add_argument("--mb-per-second", type=float, default=0.0, help="0: no limit")
    stated = parser.parse_args(arguments)
    old = Old(stated.bootstrap, stated.topic, stated.records, stated.record_bytes)
    way = CatchUp(stated.consumers, stated.seconds, stated.mb_per_second * 1e6)
    json.dump(catch_up(old, way), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
