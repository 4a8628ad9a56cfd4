"""A process that copies one topic to another, exactly once, until it is killed.

    python -m tierlog.tests.compatibility.copier '{"client": "confluent", "bootstrap": ..., ...}'

Each round reads some records, writes them and commits the positions in one transaction. It prints a
line for each commit. What it cannot go on after ends it; whoever runs it starts another.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypedDict, cast

SESSION_MS = 6_000
TRANSACTION_MS = 10_000


class Options(TypedDict):
    """What the test tells the copier."""

    client: str
    bootstrap: str
    source: str
    target: str
    group: str
    batch: int


def confluent(options: Options) -> None:
    """librdkafka's transactional producer."""
    client = import_module("confluent_kafka")
    server = {"bootstrap.servers": options["bootstrap"]}
    name = options["group"]
    consumer = client.Consumer(
        {
            **server,
            "group.id": name,
            # A killed copier's successor takes its place at once.
            "group.instance.id": name,
            "session.timeout.ms": SESSION_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = client.Producer(
        {**server, "transactional.id": name, "transaction.timeout.ms": TRANSACTION_MS}
    )
    producer.init_transactions(60)
    consumer.subscribe([options["source"]])
    while True:
        messages = [
            each for each in consumer.consume(options["batch"], 0.2) if each.error() is None
        ]
        if not messages:
            continue
        producer.begin_transaction()
        for each in messages:
            partition = each.partition()
            producer.produce(options["target"], each.value(), each.key(), partition=partition)
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction(60)
        print(len(messages), flush=True)


async def _aiokafka(options: Options) -> None:
    client = import_module("aiokafka")
    name = options["group"]
    consumer = client.AIOKafkaConsumer(
        options["source"],
        bootstrap_servers=options["bootstrap"],
        group_id=name,
        group_instance_id=name,
        session_timeout_ms=SESSION_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    producer = client.AIOKafkaProducer(
        bootstrap_servers=options["bootstrap"],
        transactional_id=name,
        transaction_timeout_ms=TRANSACTION_MS,
    )
    await producer.start()
    await consumer.start()
    while True:
        found = await consumer.getmany(timeout_ms=200, max_records=options["batch"])
        if not found:
            continue
        async with producer.transaction():
            for partition, messages in found.items():
                for each in messages:
                    await producer.send(
                        options["target"], each.value, each.key, partition=partition.partition
                    )
            offsets = {partition: those[-1].offset + 1 for partition, those in found.items()}
            await producer.send_offsets_to_transaction(offsets, name)
        print(sum(map(len, found.values())), flush=True)


def aiokafka(options: Options) -> None:
    """aiokafka's transactional producer."""
    asyncio.run(_aiokafka(options))


COPIERS: Mapping[str, Callable[[Options], None]] = {"confluent": confluent, "aiokafka": aiokafka}


if __name__ == "__main__":
    stated = cast("Options", json.loads(sys.argv[-1]))
    COPIERS[stated["client"]](stated)
