"""The same log, compacted by Apache Kafka and by us, comes to the same.

Kafka, its cleaner turned off, takes keys that come again and again: every codec, idempotent and
transactional producers, half of the transactions aborted, tombstones. A copy of its directory is
cleaned by us. Then Kafka starts again with its cleaner on. Both must keep the same segments, and in
them the same batches with the same records. At last Kafka is given our cleaned log, and serves it.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import RecordBatch, batches
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.checkpoint import CLEANER_OFFSET_FILE, read_offset_checkpoint
from tierlog.storage.cleaner.cleanable_log import measure
from tierlog.storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from tierlog.storage.cleaner.cleaner_config import CleanerConfig
from tierlog.storage.cleaner.log_cleaner import LogCleaning
from tierlog.storage.config import LogConfig
from tierlog.storage.files import OsFiles
from tierlog.storage.manager.log_manager import LogManager

from ..waiting import wait_until
from .dump_log import files_in
from .real_records import CODECS, Consumed, Sending, client, consume, create

pytestmark = pytest.mark.requires("java", "mvn")

TOPIC = "compacted"
PARTITION = TopicPartition(TOPIC, 0)
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "index.interval.bytes": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "3600000",
}
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "100000",
}
ROUNDS = 300


class Compacted(NamedTuple):
    """Three states of one log directory, and what Kafka served of the second."""

    by_us: Path
    by_kafka: Path
    cleaned_up_to: int
    served_of_ours: list[Consumed]


def write(bootstrap: str) -> None:
    for codec in CODECS:
        fill(client(Sending(codec, codec), bootstrap), codec)
        producer = client(Sending(codec, codec, transactional_id=codec), bootstrap)
        producer.init_transactions(60)
        for name, end in (
            ("aborted", producer.abort_transaction),
            ("committed", producer.commit_transaction),
        ):
            producer.begin_transaction()
            fill(producer, f"{name} {codec}")
            end(60)
        fill(client(Sending(codec, codec, is_idempotent=True), bootstrap), f"idempotent {codec}")


def fill(producer: Producer, name: str) -> None:
    """Keys of this writer's own and keys of all; one value in eleven is a tombstone."""
    for number in range(ROUNDS):
        key = f"{name} {number % 40}" if number % 2 else f"everybody's {number % 70}"
        noise = b"".join(b"%08x" % (number * 2654435761 * i % (1 << 32)) for i in range(1, 90))
        value = None if number % 11 == 0 else f"{name} {number} ".encode() + noise
        producer.produce(TOPIC, value, key.encode(), 0)
        producer.poll(0)
    assert producer.flush(60) == 0


def clean_by_us(path: Path) -> int:
    """Clean the topic in a broker's directory once; where it was cleaned to."""
    manager = LogManager(OsFiles(), [str(path)], LogConfig())
    cluster_id = manager.directories.stored_cluster_id()
    assert cluster_id is not None
    manager.directories.open(cluster_id, 1, no_new_directory)
    now_ms = SystemEnvironment().wall_clock_ms()
    manager.start(now_ms, {TOPIC: LogConfig.from_properties(CONFIG, LogConfig())})
    log = manager.get_log(PARTITION)
    assert log is not None
    log.update_high_watermark(log.log_end_offset)
    cleaning = LogCleaning(measure(log, 0, now_ms), CleanerConfig(), now_ms)
    for _ in cleaning.read_keys():
        pass
    for group in cleaning.groups():
        for _ in cleaning.clean(group):
            pass
        assert cleaning.swap(group, now_ms)
    checkpoint = CleanerCheckpoint(log.log_dir)
    checkpoint.cleaned_up_to(log, cleaning.cleaned_up_to)
    checkpoint.write()
    manager.shutdown(now_ms)
    return cleaning.cleaned_up_to


def no_new_directory() -> Uuid:
    raise AssertionError("the directory has its id from Kafka")


def cleaned_by_kafka(logs: Path) -> int:
    return read_offset_checkpoint(OsFiles(), str(logs / CLEANER_OFFSET_FILE)).get(PARTITION, 0)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Compacted:
    directory = tmp_path_factory.mktemp("kafka")
    logs = directory / "logs"
    off = {**PROPERTIES, "log.cleaner.enable": "false"}
    with KafkaNode(directory, heap="512m", properties=off) as kafka:
        create(kafka.bootstrap, TOPIC, CONFIG)
        write(kafka.bootstrap)
    by_us = tmp_path_factory.mktemp("ours") / "logs"
    shutil.copytree(logs, by_us)
    cleaned_up_to = clean_by_us(by_us)
    with KafkaNode(directory, heap="512m", properties=PROPERTIES):
        wait_until(lambda: cleaned_by_kafka(logs) >= cleaned_up_to, 60, "Kafka did not clean")
    by_kafka = tmp_path_factory.mktemp("theirs") / "logs"
    shutil.copytree(logs, by_kafka)
    shutil.rmtree(logs)
    shutil.copytree(by_us, logs)
    records = sum(batch.record_count for batch in all_batches(by_us) if not batch.is_control)
    with KafkaNode(directory, heap="512m", properties=off) as kafka:
        served = consume(kafka.bootstrap, TOPIC, records)
    return Compacted(by_us, by_kafka, cleaned_up_to, served)


def all_batches(logs: Path) -> list[RecordBatch]:
    found = [
        batch
        for path in files_in(logs / f"{TOPIC}-0", ".log")
        for batch in batches(path.read_bytes())
    ]
    for batch in found:
        batch.ensure_valid()
    return found


def header(batch: RecordBatch) -> tuple[object, ...]:
    """All of a header but the bytes of the records, their CRC, and when a horizon was set."""
    has_horizon = batch.delete_horizon_ms is not None
    return (
        (batch.base_offset, batch.last_offset, batch.record_count, batch.attributes),
        None if has_horizon else batch.base_timestamp,
        (batch.max_timestamp, batch.partition_leader_epoch),
        (batch.producer_id, batch.producer_epoch, batch.base_sequence),
    )


def test_both_clean_as_far_and_write_it_down(compacted: Compacted) -> None:
    assert cleaned_by_kafka(compacted.by_kafka) == compacted.cleaned_up_to
    assert cleaned_by_kafka(compacted.by_us) == compacted.cleaned_up_to


def test_the_same_segments_are_left(compacted: Compacted) -> None:
    def names(logs: Path) -> list[str]:
        return [path.name for path in files_in(logs / f"{TOPIC}-0", ".log")]

    assert names(compacted.by_us) == names(compacted.by_kafka)


def test_the_same_batches_are_left_with_the_same_records(compacted: Compacted) -> None:
    ours, theirs = all_batches(compacted.by_us), all_batches(compacted.by_kafka)
    assert [header(batch) for batch in ours] == [header(batch) for batch in theirs]
    assert [list(batch.records()) for batch in ours] == [list(batch.records()) for batch in theirs]
    kinds = {
        (batch.is_control, batch.record_count == 0, batch.delete_horizon_ms is not None)
        for batch in ours
    }
    assert {(False, False, False), (False, False, True), (True, False, False)} <= kinds


def test_the_same_aborted_transactions_are_left(compacted: Compacted) -> None:
    def aborted(logs: Path) -> dict[str, bytes]:
        paths = files_in(logs / f"{TOPIC}-0", ".txnindex")
        return {path.name: content for path in paths if (content := path.read_bytes())}

    assert aborted(compacted.by_us) == aborted(compacted.by_kafka)


def test_kafkas_tool_reads_our_cleaned_segments_and_indexes(compacted: Compacted) -> None:
    directory = compacted.by_us / f"{TOPIC}-0"
    logs = files_in(directory, ".log")
    output = run_tool("kafka-dump-log", "--files", ",".join(map(str, logs)))
    assert output.stderr == ""
    assert output.stdout.count(" isvalid: true") == len(all_batches(compacted.by_us))
    assert "isvalid: false" not in output.stdout
    indexes = [*files_in(directory, ".index"), *files_in(directory, ".timeindex")]
    checked = run_tool(
        "kafka-dump-log", "--verify-index-only", "--files", ",".join(map(str, indexes))
    )
    assert "ismatch" not in checked.stdout + checked.stderr, checked.stdout
    assert checked.stderr == ""


def test_kafka_serves_the_log_that_we_cleaned(compacted: Compacted) -> None:
    expected = [
        Consumed(each.offset, each.key, each.value, each.headers)
        for batch in all_batches(compacted.by_us)
        if not batch.is_control
        for each in batch.records()
    ]
    assert compacted.served_of_ours == expected
