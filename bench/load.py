"""One client's load on one broker through librdkafka, in a process of its own.

Run as `python -m tierlog.bench.load produce|consume …`; prints one JSON object. A process of its
own keeps the client's memory and CPU out of the harness, and gives both brokers the same client.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from concurrent.futures import Future

_MESSAGES_A_CALL = 2_000


def create_topic(bootstrap: str, topic: str, config: dict[str, str]) -> None:
    """Create a topic of one partition and wait until the broker says so."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new_topic = NewTopic(topic, num_partitions=1, replication_factor=1, config=config)
    # The client publishes its futures without the type of what they hold.
    created = cast("dict[str, Future[None]]", admin.create_topics([new_topic]))  # pyright: ignore[reportUnknownMemberType]
    created[topic].result(30)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic, so that what was measured does not fill the disk and the page cache."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # See create_topic.
    deleted = cast("dict[str, Future[None]]", admin.delete_topics([topic]))  # pyright: ignore[reportUnknownMemberType]
    deleted[topic].result(30)


def produce(bootstrap: str, topic: str, records: int, record_bytes: int, batch_bytes: int) -> float:
    """Send `records` values with acks=all and return the seconds until the last was acknowledged.

    Raises RuntimeError when a record was not acknowledged: a fast broker that loses is no use.
    """
    failures: list[str] = []
    acknowledged = 0

    def on_delivery(error: object, _message: object) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 20,
            "batch.size": batch_bytes,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 400_000,
        }
    )
    value = bytes(range(256)) * (record_bytes // 256 + 1)
    value = value[:record_bytes]
    producer.list_topics(topic, timeout=30)
    started = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush(120)
    elapsed = time.perf_counter() - started
    if failures or acknowledged != records:
        raise RuntimeError(f"{acknowledged} of {records} acknowledged; first: {failures[:1]}")
    return elapsed


def consume(bootstrap: str, topic: str, records: int) -> float:
    """Read `records` values from the beginning and return the seconds from the first poll."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tierlog-bench",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 200_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    started = time.perf_counter()
    seen = 0
    while seen < records:
        # The call waits for as many as it is asked for.
        messages = consumer.consume(min(_MESSAGES_A_CALL, records - seen), timeout=60)
        if not messages:
            raise RuntimeError(f"nothing came for a minute after {seen} of {records} records")
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
        seen += len(messages)
    elapsed = time.perf_counter() - started
    consumer.close()
    return elapsed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tierlog.bench.load", description=__doc__)
    parser.add_argument("direction", choices=("produce", "consume"))
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of the broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--batch-bytes", type=int, default=16384)
    options = parser.parse_args(arguments)
    if options.direction == "produce":
        seconds = produce(
            options.bootstrap,
            options.topic,
            options.records,
            options.record_bytes,
            options.batch_bytes,
        )
    else:
        seconds = consume(options.bootstrap, options.topic, options.records)
    json.dump({"seconds": seconds, "client_cpu_seconds": time.process_time()}, sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
