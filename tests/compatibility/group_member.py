"""One member of a consumer group, as a process that a test can watch and kill.

    python -m tierlog.tests.compatibility.group_member '{"client": "confluent", ...}'

Prints one JSON line for each thing that happens to it, with the time it happened: partitions
assigned and revoked, records read, positions committed. Every batch that was read is committed
before the next is asked for. SIGTERM makes it leave the group in an orderly way.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterable
from importlib import import_module

import confluent_kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from .group_of_processes import Options

SESSION_MS = 6_000
HEARTBEAT_MS = 500
POLL_MS = 200

AIOKAFKA_ASSIGNORS = {
    "range": ("aiokafka.coordinator.assignors.range", "RangePartitionAssignor"),
    "sticky": (
        "aiokafka.coordinator.assignors.sticky.sticky_assignor",
        "StickyPartitionAssignor",
    ),
}

stopped = False


def stop(_number: int, _frame: object) -> None:
    global stopped
    stopped = True


def say(event: str, partitions: Iterable[int] = (), offset: int = -1) -> None:
    line = {
        "at": time.time_ns(),
        "event": event,
        "partitions": sorted(partitions),
        "offset": offset,
    }
    print(json.dumps(line), flush=True)


def run_confluent(options: Options) -> None:
    settings: dict[str, str | int | float | bool | None] = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": options["strategy"],
    }
    if options["instance"]:
        settings["group.instance.id"] = options["instance"]
    consumer = confluent_kafka.Consumer(settings)

    def assigned(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        say("assigned", [each.partition for each in partitions])

    def revoked(_: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        say("revoked", [each.partition for each in partitions])

    consumer.subscribe([options["topic"]], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not stopped:
        messages = consumer.consume(100, timeout=POLL_MS / 1000)
        for message in messages:
            partition, offset = message.partition(), message.offset()
            assert message.error() is None, message.error()
            assert partition is not None
            assert offset is not None
            say("read", [partition], offset)
        if messages:
            try:
                consumer.commit(asynchronous=False)
                say("committed")
            except confluent_kafka.KafkaException as error:
                say(f"not committed: {error}")
    consumer.close()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # published without types
    """Says what kafka-python's consumer is told."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say("assigned", [each.partition for each in assigned])

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say("revoked", [each.partition for each in revoked])


def run_kafka_python(options: Options) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        group_instance_id=options["instance"],
    )
    # kafka-python 3.0.12 that joins before it knows the topic is assigned nothing, rejoins at once,
    # and may then take its share from SyncGroup without ever telling its listener or fetching.
    consumer.partitions_for_topic(options["topic"])
    consumer.subscribe([options["topic"]], listener=Listener())
    while not stopped:
        batches = consumer.poll(timeout_ms=POLL_MS, max_records=100)
        for partition, records in batches.items():
            for record in records:
                say("read", [partition.partition], record.offset)
        if batches:
            try:
                consumer.commit()
                say("committed")
            except KafkaError as error:
                # The coordinator may be away; what was read is committed with what comes next.
                say(f"not committed: {error}")
    consumer.close()


def aiokafka_listener() -> object:
    """Says what aiokafka's consumer is told."""
    # Imported here, so that the other clients' members need not wait for it.
    from aiokafka.abc import ConsumerRebalanceListener

    class AsyncListener(ConsumerRebalanceListener):  # type: ignore[misc]  # published without types
        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            say("assigned", [each.partition for each in assigned])

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            say("revoked", [each.partition for each in revoked])

    return AsyncListener()


def run_aiokafka(options: Options) -> None:
    asyncio.run(run_aiokafka_in_loop(options))


async def run_aiokafka_in_loop(options: Options) -> None:
    # Imported by name: its types are incomplete, and nothing here depends on them.
    client = import_module("aiokafka")
    module, assignor = AIOKAFKA_ASSIGNORS[options["strategy"]]
    consumer = client.AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        group_instance_id=options["instance"],
        partition_assignment_strategy=(getattr(import_module(module), assignor),),
    )
    consumer.subscribe([options["topic"]], listener=aiokafka_listener())
    await consumer.start()
    while not stopped:
        batches = await consumer.getmany(timeout_ms=POLL_MS, max_records=100)
        for partition, records in batches.items():
            for record in records:
                say("read", [partition.partition], record.offset)
        if batches:
            try:
                await consumer.commit()
                say("committed")
            except client.errors.CommitFailedError as error:
                say(f"not committed: {error}")
    await consumer.stop()


def main() -> None:
    options: Options = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, stop)
    runners = {
        "confluent": run_confluent,
        "kafka-python": run_kafka_python,
        "aiokafka": run_aiokafka,
    }
    runners[options["client"]](options)
    say("left")


if __name__ == "__main__":
    main()
