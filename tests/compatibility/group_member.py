"""One member of a consumer group, as a process that a test can watch, steer and kill.

    python -m tierlog.tests.compatibility.group_member '{"client": "confluent", ...}'

Prints one JSON line for each thing that happens to it, with the time it happened: partitions
assigned and revoked, records read, positions committed. Every batch that was read is committed
before the next is asked for. It does what it is told on its standard input, a line each: `seek 7`
(in every partition it owns), `pause`, `resume`. SIGTERM makes it leave the group in an orderly way.
"""

import asyncio
import json
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from io import FileIO
from types import ModuleType
from typing import NamedTuple, Protocol

import confluent_kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from .group_of_processes import Options

HEARTBEAT_MS = 500
POLL_MS = 200
BATCH = 100

# What Kafka answers to a JoinGroup that waits while the group is upgraded: librdkafka tells the
# application, and joins again by itself.
_JOINS_AGAIN = confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS

_KAFKA_PYTHON_ASSIGNORS = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}

stopped = False


def stop(_number: int, _frame: object) -> None:
    global stopped
    stopped = True


class Partition(Protocol):
    """How each of the clients describes a partition."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...


class KafkaRecord(Partition, Protocol):
    """How the clients in Python describe a record."""

    @property
    def offset(self) -> int: ...


class Read(NamedTuple):
    """A record's place."""

    partition: str
    offset: int


def say(event: str, partitions: Iterable[str] = (), offset: int = -1) -> None:
    line = {
        "at": time.time_ns(),
        "event": event,
        "partitions": sorted(partitions),
        "offset": offset,
    }
    print(json.dumps(line), flush=True)


def named(partition: Partition) -> str:
    return f"{partition.topic}-{partition.partition}"


def say_moved(event: str, partitions: Iterable[Partition]) -> None:
    say(event, map(named, partitions))


class Member(Protocol):
    """What the clients have in common."""

    def poll(self) -> list[Read]: ...

    def commit(self) -> str:
        """Commit the positions; what went wrong, or nothing."""
        ...

    def seek(self, offset: int) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def leave(self) -> None: ...


class Confluent:
    """A member of confluent-kafka, which is librdkafka."""

    def __init__(self, options: Options) -> None:
        settings: dict[str, str | int | float | bool | None] = {
            "bootstrap.servers": options["bootstrap"],
            "group.id": options["group"],
            "group.protocol": options["protocol"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        if options["protocol"] == "consumer":
            settings["group.remote.assignor"] = options["strategy"]
        else:
            settings["session.timeout.ms"] = options["session_ms"]
            settings["heartbeat.interval.ms"] = HEARTBEAT_MS
            settings["partition.assignment.strategy"] = options["strategy"]
        if options["instance"]:
            settings["group.instance.id"] = options["instance"]
        self._consumer = confluent_kafka.Consumer(settings)

        def moved(event: str, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
            say_moved(event, partitions)

        revoked = partial(moved, "revoked")
        self._consumer.subscribe(
            [options["topic"]],
            on_assign=partial(moved, "assigned"),
            on_revoke=revoked,
            on_lost=revoked,
        )

    def poll(self) -> list[Read]:
        read: list[Read] = []
        for message in self._consumer.consume(BATCH, timeout=POLL_MS / 1000):
            error = message.error()
            if error is not None and error.code() == _JOINS_AGAIN:
                continue
            assert error is None, error
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            read.append(Read(f"{topic}-{partition}", offset))
        return read

    def commit(self) -> str:
        try:
            self._consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            # Another member has the partitions that it read from: nothing is left to commit.
            gone = error.args[0].code() == confluent_kafka.KafkaError._NO_OFFSET
            return "" if gone else str(error)
        return ""

    def seek(self, offset: int) -> None:
        for each in self._consumer.assignment():
            self._consumer.seek(confluent_kafka.TopicPartition(each.topic, each.partition, offset))

    def pause(self) -> None:
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(self._consumer.assignment())

    def leave(self) -> None:
        self._consumer.close()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # published without types
    """Says what kafka-python's consumer is told."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say_moved("assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        say_moved("revoked", revoked)


class KafkaPython:
    """A member of kafka-python."""

    def __init__(self, options: Options) -> None:
        module, assignor = _KAFKA_PYTHON_ASSIGNORS[options["strategy"]]
        assignors = import_module(f"kafka.coordinator.assignors.{module}")
        self._consumer = KafkaConsumer(
            bootstrap_servers=options["bootstrap"],
            group_id=options["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=options["session_ms"],
            heartbeat_interval_ms=HEARTBEAT_MS,
            group_instance_id=options["instance"],
            partition_assignment_strategy=(getattr(assignors, assignor),),
        )
        self._consumer.subscribe([options["topic"]], listener=Listener())
        # kafka-python 3.0.12 that joins before it has heard of the topic joins again as soon as it
        # has; and if that outlasts the time of a poll(), it never takes its share or tells anyone.
        self._consumer.topics()

    def poll(self) -> list[Read]:
        try:
            batches = self._consumer.poll(timeout_ms=POLL_MS, max_records=BATCH)
        except KafkaError as error:
            # kafka-python 3.0.12 tells its caller of a connection that was refused.
            say(f"not polled: {error}")
            return []
        return [Read(named(record), record.offset) for each in batches.values() for record in each]

    def commit(self) -> str:
        try:
            self._consumer.commit()
        except KafkaError as error:
            return str(error)
        return ""

    def seek(self, offset: int) -> None:
        for each in self._consumer.assignment():
            self._consumer.seek(each, offset)

    def pause(self) -> None:
        self._consumer.pause(*self._consumer.assignment())

    def resume(self) -> None:
        self._consumer.resume(*self._consumer.paused())

    def leave(self) -> None:
        self._consumer.close()


def aiokafka_listener() -> object:
    """Says what aiokafka's consumer is told."""
    # Imported here, so that the other clients' members need not wait for it.
    from aiokafka.abc import ConsumerRebalanceListener

    class AsyncListener(ConsumerRebalanceListener):  # type: ignore[misc]  # published without types
        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            say_moved("assigned", assigned)

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            say_moved("revoked", revoked)

    return AsyncListener()


class AioKafkaConsumer(Protocol):
    """`aiokafka.AIOKafkaConsumer`, which is published without types."""

    def subscribe(self, topics: list[str], *, listener: object) -> None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def getmany(
        self, *, timeout_ms: int, max_records: int
    ) -> Mapping[TopicPartition, list[KafkaRecord]]: ...
    async def commit(self) -> None: ...
    def assignment(self) -> set[TopicPartition]: ...
    def paused(self) -> set[TopicPartition]: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def pause(self, *partitions: TopicPartition) -> None: ...
    def resume(self, *partitions: TopicPartition) -> None: ...


class AioKafka:
    """A member of aiokafka, whose event loop runs while it is asked for something."""

    _ASSIGNORS: Mapping[str, tuple[str, str]] = {
        "range": ("range", "RangePartitionAssignor"),
        "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
        "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
    }

    def __init__(self, options: Options) -> None:
        # Imported by name: its types are incomplete, and nothing here depends on them.
        client = import_module("aiokafka")
        module, assignor = self._ASSIGNORS[options["strategy"]]
        assignors = import_module(f"aiokafka.coordinator.assignors.{module}")
        self._error: type[Exception] = client.errors.KafkaError
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._consumer = self._loop.run_until_complete(
            self._start(client, options, getattr(assignors, assignor))
        )

    async def _start(
        self, client: ModuleType, options: Options, assignor: object
    ) -> AioKafkaConsumer:
        consumer: AioKafkaConsumer = client.AIOKafkaConsumer(
            bootstrap_servers=options["bootstrap"],
            group_id=options["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=options["session_ms"],
            heartbeat_interval_ms=HEARTBEAT_MS,
            group_instance_id=options["instance"],
            partition_assignment_strategy=(assignor,),
        )
        consumer.subscribe([options["topic"]], listener=aiokafka_listener())
        await consumer.start()
        return consumer

    def poll(self) -> list[Read]:
        polling = self._consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH)
        batches = self._loop.run_until_complete(polling)
        return [Read(named(record), record.offset) for each in batches.values() for record in each]

    def commit(self) -> str:
        try:
            self._loop.run_until_complete(self._consumer.commit())
        except self._error as error:
            return str(error)
        return ""

    def seek(self, offset: int) -> None:
        for each in self._consumer.assignment():
            self._inside(self._consumer.seek, each, offset)

    def pause(self) -> None:
        self._inside(self._consumer.pause, *self._consumer.assignment())

    def resume(self) -> None:
        self._inside(self._consumer.resume, *self._consumer.paused())

    def _inside(self, action: Callable[..., None], *arguments: object) -> None:
        """Call what wants to be called in the event loop."""

        async def act() -> None:
            action(*arguments)

        self._loop.run_until_complete(act())

    def leave(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


MEMBERS: Mapping[str, Callable[[Options], Member]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}


def read_orders(lines: FileIO) -> Iterator[list[str]]:
    """The words of each line that has come; without a buffer, where select() would not see any."""
    while select.select([lines], [], [], 0)[0]:
        line = lines.readline().decode()
        if not line:
            return
        yield line.split()


def do(member: Member, words: list[str]) -> None:
    match words:
        case ["seek", offset]:
            member.seek(int(offset))
        case ["pause"]:
            member.pause()
        case ["resume"]:
            member.resume()
        case _:
            raise ValueError(words)
    say(words[0])


def run(member: Member, lines: FileIO) -> None:
    wrong = ""
    # The coordinator may be away: what was read is committed before the member leaves.
    while wrong or not stopped:
        read = member.poll()
        for each in read:
            say("read", [each.partition], each.offset)
        if read or wrong:
            wrong = member.commit()
            say(f"not committed: {wrong}" if wrong else "committed")
        for words in read_orders(lines):
            do(member, words)
    member.leave()


def main() -> None:
    options: Options = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, stop)
    with FileIO(sys.stdin.fileno(), closefd=False) as lines:
        run(MEMBERS[options["client"]](options), lines)
    say("left")


if __name__ == "__main__":
    main()
