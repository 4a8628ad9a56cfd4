"""Our log directories and Kafka's are the same: each reads, checks and continues the other's."""

import re
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.clients.kafka_uuid import ZERO_UUID
from tierlog.clients.record.batch import Record
from tierlog.clients.record.builder import build_batch
from tierlog.clients.record.control import ControlRecordType
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.config import LogConfig
from tierlog.storage.files import OsFiles
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager
from tierlog.tests.storage.log_home import (
    NOW_MS,
    LogHome,
    append,
    end_transaction,
    everything,
    idempotent,
)

pytestmark = pytest.mark.requires("java", "mvn")

COMPLAINTS = re.compile(
    r"error|mismatch|corrupt|exception|out of order|inconsisten|not found", re.IGNORECASE
)
# Several segments out of few records.
SMALL_SEGMENTS = LogConfig(segment_bytes=20_000, index_interval_bytes=500)


def dump(paths: list[Path], *options: str) -> str:
    answer = run_tool("kafka-dump-log", *options, "--files", ",".join(map(str, paths)))
    output = answer.stdout + answer.stderr
    assert COMPLAINTS.search(output) is None, output
    return output


def segment_files(directory: Path, *suffixes: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in suffixes)


@pytest.mark.parametrize("ending", ["closed", "killed and recovered"])
def test_kafka_s_dump_tool_reads_our_files_without_complaint(tmp_path: Path, ending: str) -> None:
    home = LogHome(tmp_path, SMALL_SEGMENTS)
    log = home.open()
    for step in range(60):
        append(log, idempotent(20 * step, 20), step // 20)
        append(log, idempotent(5 * step, 5, producer=8, txn=True), step // 20)
        if step % 4 == 3:
            kind = ControlRecordType.ABORT if step % 8 == 3 else ControlRecordType.COMMIT
            end_transaction(log, kind, producer=8)
    bases = log.local.segments.base_offsets
    assert len(bases) > 2
    if ending == "closed":
        log.close(NOW_MS)
    else:
        log.release()
        home.open(clean=False).close(NOW_MS)
    output = dump(segment_files(home.path, ".index"), "--index-sanity-check")
    assert output.count("passed sanity check") == len(bases)
    dump(segment_files(home.path, ".index", ".timeindex", ".txnindex"), "--verify-index-only")
    assert "producerId: 8" in dump(segment_files(home.path, ".snapshot"))
    records = dump(segment_files(home.path, ".log"), "--print-data-log", "--deep-iteration")
    offsets = [int(offset) for offset in re.findall(r"\| offset: (\d+)", records)]
    assert offsets == list(range(log.log_end_offset))
    assert "endTxnMarker: ABORT" in records
    assert "isvalid: false" not in records


def open_as_kafka_left_it(directory: Path) -> LogManager:
    manager = LogManager(OsFiles(), [str(directory)], SMALL_SEGMENTS)
    cluster_id = manager.directories.stored_cluster_id()
    assert cluster_id is not None
    manager.directories.open(cluster_id, 1, lambda: ZERO_UUID)
    manager.start(NOW_MS)
    return manager


def log_of(manager: LogManager, topic: str) -> UnifiedLog:
    log = manager.get_log(TopicPartition(topic, 0))
    assert log is not None
    log.update_high_watermark(log.log_end_offset)
    return log


def produce(kafka: KafkaNode, topic: str, count: int) -> None:
    run_tool(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", str(count), "--record-size", "100"),
        *("--throughput", "-1", "--bootstrap-server", kafka.bootstrap),
        *("--command-property", "batch.size=2000", "--command-property", "linger.ms=0"),
    )


def consumed(kafka: KafkaNode, topic: str, count: int) -> list[str]:
    answer = run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--partition", "0"),
        *("--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "20000"),
    )
    return answer.stdout.splitlines()


def test_each_goes_on_where_the_other_stopped(tmp_path: Path) -> None:
    kafka = KafkaNode(tmp_path, heap="512m")
    with kafka:
        server = ("--bootstrap-server", kafka.bootstrap)
        create = ("--create", "--topic", "shared", "--partitions", "1")
        small = ("--config", "segment.bytes=1048576", "--config", "index.interval.bytes=500")
        run_tool("kafka-topics", *server, *create, *small)
        produce(kafka, "shared", 20_000)
    directory = tmp_path / "logs"
    stored = {
        path.name: path.read_bytes()
        for path in segment_files(directory / "shared-0", ".index", ".timeindex", ".snapshot")
    }
    content = b"".join(path.read_bytes() for path in segment_files(directory / "shared-0", ".log"))

    # Opened and closed again, no byte has changed.
    manager = open_as_kafka_left_it(directory)
    log = log_of(manager, "shared")
    assert (log.log_start_offset, log.log_end_offset) == (0, 20_000)
    assert everything(log) == content
    manager.shutdown(NOW_MS)
    for name, expected in stored.items():
        assert (directory / "shared-0" / name).read_bytes() == expected

    # Indexes that we build are those that Kafka had built, byte for byte.
    for path in segment_files(directory / "shared-0", ".index", ".timeindex"):
        path.unlink()
    manager = open_as_kafka_left_it(directory)
    manager.shutdown(NOW_MS)
    for name, expected in stored.items():
        assert (directory / "shared-0" / name).read_bytes() == expected, name

    manager = open_as_kafka_left_it(directory)
    log = log_of(manager, "shared")
    ours = [Record(0, NOW_MS, b"k", b"ours %d" % i) for i in range(100)]
    append(log, memoryview(build_batch(ours)), log.leader_epochs.latest_epoch)
    manager.shutdown(NOW_MS)
    with kafka:
        assert consumed(kafka, "shared", 20_100)[-100:] == [f"ours {i}" for i in range(100)]
        produce(kafka, "shared", 100)
    manager = open_as_kafka_left_it(directory)
    assert log_of(manager, "shared").log_end_offset == 20_200
    manager.shutdown(NOW_MS)


def test_a_kafka_that_was_killed_is_recovered(tmp_path: Path) -> None:
    with KafkaNode(tmp_path, heap="512m") as kafka:
        create = ("--create", "--topic", "killed", "--partitions", "1")
        run_tool("kafka-topics", "--bootstrap-server", kafka.bootstrap, *create)
        produce(kafka, "killed", 2000)
        kafka.kill()
    manager = open_as_kafka_left_it(tmp_path / "logs")
    log = log_of(manager, "killed")
    assert log.log_end_offset == 2000
    assert sum(entry.last_offset == 1999 for entry in log.producers.entries.values()) == 1
    manager.shutdown(NOW_MS)
    dump(segment_files(tmp_path / "logs" / "killed-0", ".index"), "--index-sanity-check")
