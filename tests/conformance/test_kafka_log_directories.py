"""Log directories change hands: ours are opened by Apache Kafka, Kafka's are opened by us.

Kafka writes a topic in transactions, half of them aborted, and is killed. From there two go on: a
copy of its directory is recovered and closed by us, the original is recovered and stopped by Kafka
itself. Both must come to the same files. Beside it Kafka finds the log of another topic replaced
with one that our broker wrote, has to recover that one too, and serves it.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.record.batch import batches
from tierlog.clients.runtime.environment import SystemEnvironment
from tierlog.clients.topic_partition import TopicPartition
from tierlog.storage.config import LogConfig
from tierlog.storage.files import OsFiles
from tierlog.storage.log.fetch_data import FetchIsolation
from tierlog.storage.log.unified_log import UnifiedLog
from tierlog.storage.manager.log_manager import LogManager

from ..storage.log_home import content, everything, fetch
from .dump_log import Dump, check_segments, dump, files_in
from .real_records import (
    CODECS,
    Consumed,
    Sending,
    Sent,
    as_consumed,
    check_against,
    consume,
    create,
    produce,
)

pytestmark = pytest.mark.requires("java", "mvn")

CONFIG = {"segment.bytes": "1048576", "index.interval.bytes": "100"}
RECORDS_EACH = 400
THEIRS = TopicPartition("theirs", 0)
OURS = TopicPartition("ours", 0)
KAFKA_PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.initial.task.delay.ms": "100000",
}
FILES_OF_A_LOG = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


class Exchange(NamedTuple):
    """The directories, and what the brokers had acknowledged."""

    killed: Path
    stopped: Path
    theirs: Mapping[int, Sent]
    ours: Mapping[int, Sent]
    served_of_ours: list[Consumed]
    appended_to_ours: Mapping[int, Sent]


def write_ours(directory: Path) -> dict[int, Sent]:
    sent: dict[int, Sent] = {}
    with TierlogNode(directory) as node:
        create(node.bootstrap, OURS.topic, CONFIG)
        for codec in CODECS:
            sending = Sending(codec, codec, is_idempotent=True)
            sent.update(produce(node.bootstrap, OURS.topic, sending, RECORDS_EACH))
    return sent


def replace_log(old: Path, new: Path) -> None:
    """Put another log in a log's place; whose topic it is stays."""
    for path in old.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in new.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, old)


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Exchange:
    our_directory = tmp_path_factory.mktemp("ours")
    ours = write_ours(our_directory)
    directory = tmp_path_factory.mktemp("kafka")
    killed = directory / "killed"
    theirs: dict[int, Sent] = {}
    kafka = KafkaNode(directory, heap="512m", properties=KAFKA_PROPERTIES)
    kafka.start()
    try:
        create(kafka.bootstrap, OURS.topic, CONFIG)
        create(kafka.bootstrap, THEIRS.topic, CONFIG)
        for codec in CODECS:
            sending = Sending(codec, codec, transactional_id=codec)
            theirs.update(produce(kafka.bootstrap, THEIRS.topic, sending, RECORDS_EACH))
        # Only what is committed is read: to get it all means that the last marker is in the log.
        consume(kafka.bootstrap, THEIRS.topic, len(theirs) // 2)
    finally:
        kafka.kill()
    shutil.copytree(directory / "logs", killed)
    replace_log(directory / "logs" / "ours-0", our_directory / "logs" / "ours-0")
    with kafka:
        served = consume(kafka.bootstrap, OURS.topic, len(ours))
        appended = produce(kafka.bootstrap, OURS.topic, Sending("Kafka"), 10)
    return Exchange(killed, directory / "logs", theirs, ours, served, appended)


@pytest.fixture(params=["killed", "stopped"])
def kafka_logs(
    request: pytest.FixtureRequest, exchange: Exchange, tmp_path: Path
) -> tuple[LogManager, Path]:
    """Kafka's directory after it was killed or stopped, opened by us."""
    path = tmp_path / "logs"
    shutil.copytree(exchange.killed if request.param == "killed" else exchange.stopped, path)
    return open_logs(path), path


def open_logs(path: Path) -> LogManager:
    manager = LogManager(OsFiles(), [str(path)], LogConfig())
    cluster_id = manager.directories.stored_cluster_id()
    assert cluster_id is not None
    manager.directories.open(cluster_id, 1, no_new_directory)
    config = LogConfig.from_properties(CONFIG, LogConfig())
    configs = {THEIRS.topic: config, OURS.topic: config}
    manager.start(SystemEnvironment().wall_clock_ms(), configs)
    return manager


def no_new_directory() -> Uuid:
    raise AssertionError("the directory has its id from Kafka")


def log_of(manager: LogManager, partition: TopicPartition) -> UnifiedLog:
    log = manager.get_log(partition)
    assert log is not None
    log.update_high_watermark(log.log_end_offset)
    return log


def log_bytes(partition: Path) -> bytes:
    return b"".join(path.read_bytes() for path in files_in(partition, ".log"))


def dumped(partition: Path, suffix: str) -> dict[str, Dump]:
    return {path.name: each for path, each in dump(files_in(partition, suffix)).items()}


def test_the_tool_complains_about_the_first_offset_of_kafkas_own_files(exchange: Exchange) -> None:
    last = files_in(exchange.stopped / "theirs-0", ".log")[-1]
    answer = run_tool("kafka-dump-log", "--files", str(last), "--deep-iteration")
    assert answer.stderr == (
        f"Non-consecutive offsets in {last}\n  -1 is followed by {int(last.stem)}\n"
    )


def test_what_kafka_wrote_passes_the_checks_that_ours_must_pass(exchange: Exchange) -> None:
    logs = check_segments(exchange.stopped / "theirs-0")
    assert len(logs) >= 2
    check_against(logs, exchange.theirs)


def test_kafka_recovers_and_serves_what_our_broker_wrote(exchange: Exchange) -> None:
    assert exchange.served_of_ours == as_consumed(exchange.ours)
    assert sorted(exchange.appended_to_ours) == [len(exchange.ours) + n for n in range(10)]
    logs = check_segments(exchange.stopped / "ours-0")
    check_against(logs, {**exchange.ours, **exchange.appended_to_ours})


def test_we_read_the_same_bytes_at_the_same_offsets(
    kafka_logs: tuple[LogManager, Path], exchange: Exchange
) -> None:
    manager, path = kafka_logs
    log = log_of(manager, THEIRS)
    written = log_bytes(exchange.stopped / "theirs-0")
    assert log.log_end_offset == log.last_stable_offset
    assert everything(log) == written
    for batch in batches(written):
        found = content(fetch(log, batch.last_offset, FetchIsolation.TXN_COMMITTED, max_bytes=1))
        assert found == batch.view
    assert log_bytes(path / "theirs-0") == written
    manager.shutdown(0)


def test_what_kafka_aborted_is_aborted_for_us(
    kafka_logs: tuple[LogManager, Path], exchange: Exchange
) -> None:
    manager, _ = kafka_logs
    log = log_of(manager, THEIRS)
    expected = [
        entry
        for index in dumped(exchange.stopped / "theirs-0", ".txnindex").values()
        for entry in index.aborted
    ]
    found = log.aborted_transactions(0, log.log_end_offset)
    assert len(found) == len(CODECS)
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in found] == [
        entry[:3] for entry in expected
    ]
    manager.shutdown(0)


def test_our_recovery_comes_to_the_files_that_kafkas_recovery_comes_to(
    kafka_logs: tuple[LogManager, Path], exchange: Exchange
) -> None:
    manager, path = kafka_logs
    manager.shutdown(SystemEnvironment().wall_clock_ms())
    ours, theirs = path / "theirs-0", exchange.stopped / "theirs-0"
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        expected = {each.name: each.read_bytes() for each in files_in(theirs, suffix)}
        assert {each.name: each.read_bytes() for each in files_in(ours, suffix)} == expected
    assert dumped(ours, ".snapshot") == dumped(theirs, ".snapshot")
    epochs = "leader-epoch-checkpoint"
    assert (ours / epochs).read_text().splitlines()[2] == "0 0"
    assert (ours / "partition.metadata").read_bytes() == (
        theirs / "partition.metadata"
    ).read_bytes()
