"""A table kept in a compacted topic, as a user sees it: written, cleaned, read, restarted.

A broker with small segments cleans at once. Real clients write the same keys again and again, some
are deleted, and a reader from the beginning gets the table and not its whole history.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition as ClientPartition

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.record.batch import batches

from ..conformance.real_records import create
from ..waiting import wait_until

TOPIC = "table"
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
}
PROPERTIES = {"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "500"}
KEYS, ROUNDS, VALUE = 200, 40, "v" * 500


@pytest.fixture
def node(tmp_path: Path) -> Iterator[TierlogNode]:
    with TierlogNode(tmp_path, properties=PROPERTIES) as node:
        yield node


def write_rounds(bootstrap: str, numbers: range) -> None:
    """Every key gets a value in every round; each round one more key is deleted."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": "lz4", "enable.idempotence": True}
    )
    for number in numbers:
        for key in range(KEYS):
            value = None if key < number else f"{number} {VALUE}"
            producer.produce(TOPIC, value, str(key), 0)
        # Batches of their own, or compression would leave too little for a second segment.
        assert producer.flush(30) == 0


def read_all(bootstrap: str) -> list[tuple[int, int, str | None]]:
    """Offset, key and round of every record that a consumer from the beginning is given."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    partition = ClientPartition(TOPIC, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, 30)
    consumer.assign([partition])
    found: list[tuple[int, int, str | None]] = []
    while not found or found[-1][0] < end - 1:
        messages = consumer.consume(500, 20)
        assert messages, f"the topic ends at {found[-1:]}, not at {end}"
        for each in messages:
            assert not each.error()
            offset, key, value = each.offset(), each.key(), each.value()
            assert offset is not None
            assert isinstance(key, bytes)
            assert not isinstance(value, str)
            found.append((offset, int(key), None if value is None else value.decode().split()[0]))
    consumer.close()
    return found


def size_of_closed_segments(node: TierlogNode) -> int:
    logs = sorted((node.directory / "logs" / f"{TOPIC}-0").glob("*.log"))
    # The broker may take a segment away between the listing and the look at it.
    return sum(len(bytes_of(path)) for path in logs[:-1])


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def test_a_reader_from_the_beginning_gets_the_table_and_not_its_history(node: TierlogNode) -> None:
    # Nothing compresses: the values differ in their first bytes only, but each batch is small.
    create(node.bootstrap, TOPIC, {**CONFIG, "compression.type": "uncompressed"})
    write_rounds(node.bootstrap, range(ROUNDS))
    written = KEYS * ROUNDS
    wait_until(lambda: size_of_closed_segments(node) < 300_000, 30, lambda: node.output)
    wait_until(lambda: len(read_all(node.bootstrap)) < written / 2, 30, lambda: node.output)
    left = read_all(node.bootstrap)
    table = {key: (None if value is None else int(value)) for _, key, value in left}
    assert table.items() >= dict.fromkeys(range(ROUNDS - 1, KEYS), ROUNDS - 1).items()
    assert all(table.get(key) is None for key in range(ROUNDS - 1))
    assert left == sorted(left)
    assert left[-1][0] == written - 1


def test_a_cleaned_table_survives_a_kill_and_goes_on(node: TierlogNode) -> None:
    create(node.bootstrap, TOPIC, {**CONFIG, "compression.type": "uncompressed"})
    write_rounds(node.bootstrap, range(ROUNDS))
    wait_until(lambda: size_of_closed_segments(node) < 300_000, 30, lambda: node.output)
    node.kill()
    node.start()
    assert read_all(node.bootstrap)[-1][0] == KEYS * ROUNDS - 1
    write_rounds(node.bootstrap, range(ROUNDS, 2 * ROUNDS))
    wait_until(lambda: size_of_closed_segments(node) < 300_000, 30, lambda: node.output)
    table = {key: value for _, key, value in read_all(node.bootstrap)}
    assert {key: table[key] for key in range(2 * ROUNDS, KEYS)} == {
        key: str(2 * ROUNDS - 1) for key in range(2 * ROUNDS, KEYS)
    }


def test_committed_offsets_outlive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    properties = {
        **PROPERTIES,
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "1048576",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    commits, metadata = 600, "m" * 4000
    with TierlogNode(tmp_path, properties=properties) as node:
        create(node.bootstrap, TOPIC, {})
        partition = node.directory / "logs" / "__consumer_offsets-0"
        group = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
        for number in range(commits + 1):
            group.commit(offsets=[ClientPartition(TOPIC, 0, number, metadata)], asynchronous=False)
        group.close()
        wait_until(lambda: offsets_kept(partition) < commits / 2, 30, lambda: node.output)
    with node:
        group = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
        (committed,) = group.committed([ClientPartition(TOPIC, 0)], 30)
        group.close()
    assert (committed.offset, committed.metadata) == (commits, metadata)


def offsets_kept(partition: Path) -> int:
    """How many records the closed segments hold."""
    return sum(
        batch.record_count
        for path in sorted(partition.glob("*.log"))[:-1]
        for batch in batches(memoryview(bytes_of(path)))
    )
