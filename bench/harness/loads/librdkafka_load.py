"""One client's load through librdkafka, at full speed, with every record checked.

Run as `python -m tierlog.bench.harness.loads.librdkafka_load produce|consume …`; prints one JSON
object. Python does little, so that the client is not the bottleneck: records are passed in lists,
only failed deliveries are reported, and the records read are compared in lists as well.
`began_at_s` is on the machine's monotonic clock, so that the loads of several clients can be put
side by side.
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from ..requests.admin import end_offsets, ends_at
from .load import VALUES, Load, LoadError, Order, client_main, values

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_RECORDS_A_CALL = 1_000
_ROW_REPEATS = _RECORDS_A_CALL // VALUES + 2
"""Enough repeats for the records of one call to be one slice of the repeated values."""

_QUEUED_MAX_BYTES = 64 << 20
_QUEUED_MAX_RECORDS = 200_000
_PATIENCE_S = 60.0
_STATISTICS_MS = 100


def _connection(order: Order) -> dict[str, str | int | float | bool | None]:
    """The settings that say where the records go, and how."""
    settings: dict[str, str | int | float | bool | None]
    settings = {"bootstrap.servers": order.data_bootstrap}
    if order.authority is not None:
        settings |= {"security.protocol": "ssl", "ssl.ca.location": order.authority}
    return settings


class _Requests:
    """Adds up the requests that a client has sent, from its own statistics."""

    def __init__(self, order: Order) -> None:
        self._is_wanted = order.count_requests
        self._reported: list[int] = []

    def settings(self) -> dict[str, object]:
        """The client's settings with which it reports them."""
        if not self._is_wanted:
            return {}
        return {"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._take}

    def _take(self, text: str) -> None:
        brokers = cast("dict[str, dict[str, int]]", json.loads(text)["brokers"])
        self._reported.append(sum(broker["tx"] for broker in brokers.values()))

    def figures(self, poll: Callable[[], object]) -> dict[str, float]:
        """Those sent by now; empty unless they are wanted. `poll` serves the client's callbacks."""
        if not self._is_wanted:
            return {}
        self._reported.clear()
        deadline = time.perf_counter() + _PATIENCE_S
        while not self._reported:
            if time.perf_counter() > deadline:
                raise LoadError("the client did not report its statistics")
            poll()
        return {"requests": self._reported[-1]}


def _chunks(load: Load) -> Iterator[tuple[int, int, int]]:
    """The order of sending: (partition, first record, count), with the partitions in turn."""
    size = max(1, _RECORDS_A_CALL // load.partitions)
    for first in range(0, load.records_in(0), size):
        for partition in range(load.partitions):
            yield partition, first, max(0, min(size, load.records_in(partition) - first))


def produce(order: Order) -> dict[str, float]:
    """Produce a whole load; returns the seconds until the last acknowledgement."""
    load = order.load
    failures: list[str] = []

    def on_delivery(error: "KafkaError | None", _message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    requests = _Requests(order)
    producer = Producer(
        {
            **_connection(order),
            **requests.settings(),
            "acks": load.acks,
            "enable.idempotence": load.idempotent,
            "compression.type": load.codec,
            "linger.ms": load.linger_ms,
            "batch.size": load.batch_bytes,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.messages": 2 * _QUEUED_MAX_RECORDS,
            "queue.buffering.max.kbytes": 2 * _QUEUED_MAX_BYTES >> 10,
            "delivery.report.only.error": True,
        }
    )
    queued_max = min(_QUEUED_MAX_RECORDS, _QUEUED_MAX_BYTES // load.record_bytes)
    entries: list[dict[str, object]] = [
        {"value": value} for value in values(load.record_bytes, varied=load.varied) * _ROW_REPEATS
    ]
    producer.list_topics(order.topic, timeout=_PATIENCE_S)
    started = time.perf_counter()
    for partition, first, count in _chunks(load):
        while len(producer) > queued_max:
            producer.poll(0.001)
        begin = (first + partition) % VALUES
        chunk = entries[begin : begin + count]
        queued_count = producer.produce_batch(
            order.topic, chunk, partition, on_delivery=on_delivery
        )
        if queued_count != count:
            raise LoadError("the client did not accept a record")
        producer.poll(0)
    left = producer.flush(_PATIENCE_S)
    seconds = time.perf_counter() - started
    if failures or left:
        raise LoadError(f"{left} records unanswered, {len(failures)} failed: {failures[:1]}")
    figures = {"seconds": seconds, "began_at_s": started}
    figures |= requests.figures(lambda: producer.poll(_STATISTICS_MS / 1000))
    if load.acks == "0":
        return figures
    expected = [load.records_in(partition) for partition in range(load.partitions)]
    if not ends_at(order.bootstrap, order.topic, expected):
        written = sum(end_offsets(order.bootstrap, order.topic, load.partitions))
        raise LoadError(f"the broker has {written} of {load.records} acknowledged records")
    return figures


class _Reader:
    """Compares the records read with those sent, by partition."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._row = values(load.record_bytes, varied=load.varied)
        self._rows = self._row * _ROW_REPEATS
        self._next = [0] * load.partitions

    def take(self, messages: list[Message]) -> None:
        """Check messages. Raises LoadError unless each is the next record of its partition."""
        got = [*map(Message.value, messages)]
        # Every message from a broker has an offset and a partition.
        offsets = cast("list[int]", [*map(Message.offset, messages)])
        partitions = cast("list[int]", [*map(Message.partition, messages)])
        if self._load.partitions == 1:
            first = self._next[0]
            begin = first % VALUES
            is_right = got == self._rows[begin : begin + len(got)]
            if not is_right or offsets != [*range(first, first + len(got))]:
                self._raise(messages)
            self._next[0] = first + len(got)
            return
        following, row = self._next, self._row
        for partition, offset, value in zip(partitions, offsets, got, strict=True):
            if offset != following[partition] or value != row[(offset + partition) % VALUES]:
                self._raise(messages)
            following[partition] = offset + 1

    def _raise(self, messages: list[Message]) -> None:
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
        places = [(message.partition(), message.offset()) for message in messages[:3]]
        raise LoadError(f"read wrong after {self._next}: the records that begin at {places}")


def consume(order: Order) -> dict[str, float]:
    """Consume a whole load; returns the seconds until the last and the first record are read."""
    load = order.load
    # Created before the consumer, which may sleep for a second if it is idle before its assignment.
    reader = _Reader(load)
    requests = _Requests(order)
    consumer = Consumer(
        {
            **_connection(order),
            **requests.settings(),
            "group.id": "tierlog-bench",
            "enable.auto.commit": False,
            # By default, librdkafka pauses for a second whenever small records fill its queue.
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 200_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
    started = time.perf_counter()
    consumer.assign([TopicPartition(order.topic, each, 0) for each in range(load.partitions)])
    first_s = 0.0
    seen = 0
    while seen < load.records:
        # The call waits for the full count, so the first record is read alone.
        count = min(_RECORDS_A_CALL, load.records - seen) if seen else 1
        messages = consumer.consume(count, timeout=_PATIENCE_S)
        if len(messages) < count:
            raise LoadError(f"no more records came after {seen + len(messages)} of {load.records}")
        reader.take(messages)
        if not seen:
            first_s = time.perf_counter() - started
        seen += len(messages)
    seconds = time.perf_counter() - started
    figures = {"seconds": seconds, "first_record_s": first_s, "began_at_s": started}
    figures |= requests.figures(lambda: consumer.poll(_STATISTICS_MS / 1000))
    consumer.close()
    return figures


if __name__ == "__main__":
    client_main(__doc__, produce, consume)
