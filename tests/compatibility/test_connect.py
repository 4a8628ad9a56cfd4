"""Kafka Connect moves 100,000 lines of a file through us into another, through kills and restarts.

The workers are Apache Kafka's, unmodified. They promise at least once: after a kill they go back to
what they had committed last, so that a stretch may come twice. Nothing may be missing, and a
partition is in order but for those stretches.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition as ClientPartition

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.record.batch import batches

from ..waiting import wait_until
from .connect_worker import SESSION_MS, ConnectWorker, Status, write_properties

pytestmark = pytest.mark.requires("java", "mvn")

LINES = 100_000
TOPIC = "lines"
TIMEOUT_S = 120


def lines(first: int, end: int) -> list[str]:
    """Lines of many lengths, each its own.

    In ASCII: Kafka's file source counts characters and skips bytes when it comes back.
    """
    return [
        f"{number:06} {'.' * (number % 97)} {number * 7919 % 9973}" for number in range(first, end)
    ]


class Files:
    """The file that is read, which grows, and the one that is written."""

    def __init__(self, directory: Path) -> None:
        self.source, self.sink = directory / "source.txt", directory / "sink.txt"
        self.source.touch()
        self.written = 0

    def append(self, count: int) -> None:
        added = lines(self.written, self.written + count)
        with self.source.open("a") as file:
            file.writelines(line + "\n" for line in added)
        self.written += count

    @property
    def arrived(self) -> list[str]:
        return self.sink.read_text().splitlines() if self.sink.exists() else []

    def wait_for(self, count: int, *workers: ConnectWorker) -> None:
        """Until so many lines have arrived, counting those that came again."""

        wait_until(lambda: len(self.arrived) >= count, TIMEOUT_S, lambda: self.describe(*workers))

    def wait_for_all(self, *workers: ConnectWorker) -> None:
        """Until every line of the source is somewhere in the sink, as it is or placed."""

        def are_there() -> bool:
            found = ((PLACED_LINE.fullmatch(line), line) for line in self.arrived)
            arrived = {placed[1] if placed else line for placed, line in found}
            return arrived.issuperset(lines(0, self.written))

        wait_until(are_there, TIMEOUT_S, lambda: self.describe(*workers))

    def describe(self, *workers: ConnectWorker) -> str:
        logs = "\n".join(worker.describe() for worker in workers)
        return f"{len(self.arrived)} lines arrived, {self.written} written\n{logs}"

    def append_in_flight(self, count: int, *workers: ConnectWorker) -> None:
        """Return as soon as the first of the new lines arrive: most are still under way."""
        before = len(self.arrived)
        self.append(count)
        self.wait_for(before + 1, *workers)

    def settle(self, node: TierlogNode, worker: ConnectWorker) -> dict[int, int]:
        """Until all is there and committed: from now on, nothing of it may come again.

        The end of each partition.
        """
        self.wait_for_all(worker)
        read, ends = {-1: self.source.stat().st_size}, dict[int, int]()

        def is_committed() -> bool:
            nonlocal ends
            # Until the source has committed, it may be sending again what it had sent.
            if worker.positions("from") != read:
                return False
            ends = ends_of_topic(node.bootstrap)
            return worker.positions("to") == ends

        wait_until(is_committed, TIMEOUT_S, lambda: f"{ends} {self.describe(worker)}")
        return ends


def ends_of_topic(bootstrap: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    try:
        partitions = consumer.list_topics(TOPIC, 30).topics[TOPIC].partitions
        places = [ClientPartition(TOPIC, partition) for partition in partitions]
        return {place.partition: consumer.get_watermark_offsets(place, 30)[1] for place in places}
    finally:
        consumer.close()


SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": TOPIC}
SINK = {"connector.class": "FileStreamSink", "topics": TOPIC}


def test_standalone(tmp_path: Path) -> None:
    files = Files(tmp_path)
    offsets = tmp_path / "offsets"
    connectors = [tmp_path / "from.properties", tmp_path / "to.properties"]
    write_properties(connectors[0], {"name": "from", "file": str(files.source), **SOURCE})
    write_properties(connectors[1], {"name": "to", "file": str(files.sink), **SINK})
    with TierlogNode(tmp_path / "broker") as node, ExitStack() as workers:

        def worker(name: str) -> ConnectWorker:
            kept_in = {"offset.storage.file.filename": str(offsets)}
            properties = {"bootstrap.servers": node.bootstrap, **kept_in}
            started = ConnectWorker("connect-standalone", name, tmp_path, properties)
            workers.enter_context(started).start(connectors)
            return started

        first = worker("first")
        files.append_in_flight(30_000, first)
        is_orderly = first.stop()
        node.stop()
        # Whoever stops in an orderly way repeats nothing.
        assert not is_orderly or files.arrived == lines(0, len(files.arrived))
        files.append(20_000)
        node.start()
        second = worker("second")
        files.settle(node, second)
        assert not is_orderly or files.sink.read_bytes() == files.source.read_bytes()

        files.append_in_flight(20_000, second)
        second.kill()
        # A worker empties its file before it fills it. Killed in between, it begins anew.
        settled = [50_000, 70_000] if offsets.stat().st_size else [70_000]
        third = worker("third")
        files.settle(node, third)
        files.append_in_flight(20_000, third)
        node.kill()
        node.start()
        files.append(10_000)
        files.settle(node, third)
        assert files.written == LINES
        assert set(files.arrived) == set(lines(0, LINES))
        # Each of the two kills may have sent back the source and the sink.
        numbers = (int(line[:6]) for line in files.arrived)
        check_stretches(numbers, settled, 4 if is_orderly else 6)
        check_said_nothing_bad(node)


def check_stretches(found: Iterable[int], settled: list[int], stretches_max: int) -> None:
    """Numbers come in order from 0 on, all of them, but that a stretch may come again.

    No stretch reaches back beyond what was settled by then: below those numbers.
    """
    expected, before, stretches = 0, -1, 0
    for number in found:
        if number != before + 1:
            assert (
                max((each for each in settled if each <= expected), default=0) <= number < expected
            )
            stretches += 1
        before, expected = number, max(expected, number + 1)
    assert stretches <= stretches_max


def check_said_nothing_bad(node: TierlogNode) -> None:
    assert "Traceback" not in node.output
    assert " ERROR " not in node.output


DISTRIBUTED = {
    "group.id": "workers",
    "session.timeout.ms": str(SESSION_MS),
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    "config.storage.topic": "connect-configs",
    "config.storage.replication.factor": "1",
    "offset.storage.topic": "connect-offsets",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.topic": "connect-status",
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
    # So that there is something to compact within seconds.
    "offset.storage.segment.ms": "500",
    "offset.storage.min.cleanable.dirty.ratio": "0.01",
}
NEW_TOPIC = {
    "topic.creation.default.partitions": "3",
    "topic.creation.default.replication.factor": "1",
}
PLACED = {
    "tasks.max": "3",
    "transforms": "line,place",
    "transforms.line.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.line.field": "line",
    "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.place.partition.field": "partition",
    "transforms.place.offset.field": "offset",
}
"""The sink writes where each line was in the topic."""
PLACED_LINE = re.compile(r"Struct\{line=(.*),partition=(\d+),offset=(\d+)\}")
BROKER = {"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "500"}


def test_two_distributed_workers(tmp_path: Path) -> None:
    files = Files(tmp_path)
    with TierlogNode(tmp_path / "broker", properties=BROKER) as node, ExitStack() as stack:
        properties = {"bootstrap.servers": node.bootstrap, **DISTRIBUTED}
        workers = [
            stack.enter_context(ConnectWorker("connect-distributed", name, tmp_path, properties))
            for name in ("anna", "lena")
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.wait_until_ready()
        # The source makes the topic, which a sink would have made with one partition.
        files.append(10_000)
        workers[0].create("from", {"file": str(files.source), **SOURCE, **NEW_TOPIC})
        wait_until(lambda: workers[1].topics("from") == [TOPIC], TIMEOUT_S, workers[0].describe)
        workers[1].create("to", {"file": str(files.sink), **SINK, **PLACED})
        wait_for_tasks(workers, {worker.id for worker in workers})
        settled = [files.settle(node, workers[0])]
        files.append_in_flight(20_000, *workers)

        # The one that reads the source dies; everything moves to the other.
        source_at = workers[0].status("from")["tasks"][0]["worker_id"]
        workers.sort(key=lambda worker: worker.id != source_at)
        dying, living = workers
        dying.kill()
        files.append(20_000)
        wait_for_tasks([living], {living.id})
        settled.append(files.settle(node, living))

        files.append_in_flight(20_000, living)
        node.kill()
        node.start()
        files.append(20_000)
        settled.append(files.settle(node, living))
        offsets = tmp_path / "broker" / "logs" / "connect-offsets-0"
        wait_until(lambda: is_compacted(offsets), TIMEOUT_S, lambda: node.output)

        # What a newcomer is told comes from compacted topics.
        dying.start()
        dying.wait_until_ready()
        wait_for_tasks(workers, {worker.id for worker in workers})
        files.append_in_flight(10_000, *workers)
        living.stop()
        files.settle(node, dying)
        assert files.written == LINES
        check_placed_lines(files, settled, [10_000, 50_000, 90_000])
        check_said_nothing_bad(node)


def wait_for_tasks(workers: list[ConnectWorker], owners: set[str]) -> None:
    """Until all that should run does run, and on just these workers."""

    def status() -> list[Status]:
        return [workers[0].status(connector) for connector in ("from", "to")]

    def are_there() -> bool:
        placed = [each for found in status() for each in (found["connector"], *found["tasks"])]
        states = {each["state"] for each in placed}
        # Two connectors, one task that reads the source and three that write.
        tasks_at = {each["worker_id"] for each in placed}
        return len(placed) == 6 and states == {"RUNNING"} and tasks_at == owners

    wait_until(are_there, TIMEOUT_S, lambda: f"{status()} {[each.describe() for each in workers]}")


def is_compacted(partition: Path) -> bool:
    """Whether records are missing from the closed segments, and no key is there twice."""
    closed = sorted(partition.glob("*.log"))[:-1]
    records = [
        record
        for path in closed
        for batch in batches(memoryview(bytes_of(path)))
        for record in batch.records()
    ]
    keys = [bytes(record.key or b"") for record in records]
    return bool(records) and len(records) <= records[-1].offset and len(set(keys)) == len(keys)


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        # The cleaner put another segment into its place.
        return b""


def check_placed_lines(
    files: Files, settled_offsets: list[dict[int, int]], settled_lines: list[int]
) -> None:
    """Every offset of the topic is in the sink, with one line; each partition is in order.

    Each of a worker's death, the broker's, and the moves of tasks may have sent back the source
    once, and each partition of the sink once.
    """
    topic: dict[int, dict[int, str]] = defaultdict(dict)
    written: dict[int, list[int]] = defaultdict(list)
    for placed in files.arrived:
        found = PLACED_LINE.fullmatch(placed)
        assert found is not None, placed
        line, partition, offset = found[1], int(found[2]), int(found[3])
        written[partition].append(offset)
        assert topic[partition].setdefault(offset, line) == line
    assert sorted(topic) == [0, 1, 2]
    for partition, offsets in written.items():
        check_stretches(offsets, [ends[partition] for ends in settled_offsets], 4)
        numbers = [int(line[:6]) for _, line in sorted(topic[partition].items())]
        went_back = [(before, after) for before, after in pairwise(numbers) if after <= before]
        assert len(went_back) <= 4
        for before, after in went_back:
            assert after >= max((each for each in settled_lines if each <= before), default=0)
    lines_found = {line for found in topic.values() for line in found.values()}
    assert lines_found == set(lines(0, LINES))
