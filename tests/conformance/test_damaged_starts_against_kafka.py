"""Starts on damaged files beside Apache Kafka: where Kafka starts we do, and serve no less.

Our broker leaves a directory, stopped or killed. In a copy one file of each log is damaged, by a
seed; Kafka starts on one such copy and our broker on another. Every batch that Kafka then serves
whole, we serve. `make test-long` runs more seeds.
"""

import random
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.broker.broker import StartError
from tierlog.clients.errors import KafkaError
from tierlog.clients.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tierlog.clients.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tierlog.clients.record.batch import RecordBatch, batches
from tierlog.tests.fuzz.damages import KINDS, changed

from ..broker_process import BrokerThread, RawClient
from ..waiting import wait_until
from .kafka_again import KafkaAgain
from .real_records import Sending, consume_and_commit, create, produce

pytestmark = pytest.mark.requires("java", "mvn")

TOPICS = ("plain", "keyed", "__consumer_offsets", "__transaction_state")
SMALL = {"internal.segment.bytes": "20000", "index.interval.bytes": "300"}
KEYED = {"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"}
PROPERTIES = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.retention.ms": "-1",
    "log.flush.offset.checkpoint.interval.ms": "200",
    # Kafka waits until the session of the life before is over.
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
OUR_PROPERTIES = PROPERTIES | {"remote.log.storage.system.enable": "false"}
ENDINGS = ("stopped", "killed")
RECORDS = 60
SUFFIXES = (".log", ".log", ".index", ".timeindex", ".txnindex", ".snapshot")
"""Files that Kafka can do without, or with less of; logs more often than the others."""

Served = dict[str, dict[int, int]]
"""For each topic the batches that are served whole: from which offset up to which."""


@contextmanager
def keyed_producer(bootstrap: str) -> Generator[Producer, None, None]:
    settings = {"bootstrap.servers": bootstrap, "batch.size": 1_500, "log_level": 0}
    producer = Producer(settings)
    yield producer
    assert producer.flush(60) == 0


def fill(node: TierlogNode, name: str) -> None:
    produce(node.bootstrap, "plain", Sending(name, transactional_id=name), RECORDS)
    produce(node.bootstrap, "plain", Sending(name, "zstd", is_idempotent=True), RECORDS)
    with keyed_producer(node.bootstrap) as keyed:
        for number in range(RECORDS):
            keyed.produce("keyed", name.encode() * 40, b"%d" % (number % 7), 0)


def has_checkpoint(logs: Path) -> bool:
    path = logs / "recovery-point-offset-checkpoint"
    return path.exists() and "plain 0 " in path.read_text()


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a stop and what a kill has left behind, in a folder of that name."""
    directory = tmp_path_factory.mktemp("left")
    node = TierlogNode(directory / "node", properties=OUR_PROPERTIES)
    logs = node.directory / "logs"
    with node:
        create(node.bootstrap, "plain", SMALL)
        create(node.bootstrap, "keyed", SMALL | KEYED)
        fill(node, "first")
        consume_and_commit(node.bootstrap, "plain", "readers", RECORDS)
        wait_until(lambda: has_checkpoint(logs), 20, "no checkpoint was written")
        fill(node, "second")
    shutil.copytree(logs, directory / "stopped")
    node.start()
    fill(node, "third")
    node.kill()
    shutil.copytree(logs, directory / "killed")
    return directory


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Generator[KafkaAgain, None, None]:
    with KafkaAgain(tmp_path_factory.mktemp("kafka") / "server.log") as again:
        yield again


# -- What a broker serves ------------------------------------------------------------------------


def offset_at(client: RawClient, topic: str, timestamp: int) -> int:
    """The earliest (-2) or latest (-1) offset, as soon as the partition is led; -1 if it is not."""
    asked = [ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=timestamp)])]
    found: list[int] = []

    def is_led() -> bool:
        request = ListOffsetsRequest(replica_id=-1, topics=asked)
        answer = client.ask(request, 5, ListOffsetsResponse).topics[0].partitions[0]
        if not answer.error_code:
            found.append(answer.offset)
        return bool(found)

    try:
        wait_until(is_led, 15, f"nobody leads {topic}")
    except AssertionError:
        return -1
    return found[0]


def fetched(client: RawClient, topic: str, offset: int) -> list[RecordBatch]:
    """Batches from an offset on, up to what is none."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 22)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 22, topics=topics)
    records = client.ask(request, 11, FetchResponse).responses[0].partitions[0].records
    assert records is None or isinstance(records, bytes | bytearray | memoryview)
    found: list[RecordBatch] = []
    try:
        found.extend(batches(records or b""))
    except KafkaError:
        return found
    return found


def served(port: int) -> Served:
    facts: Served = {}
    with RawClient(port) as client:
        for topic in TOPICS:
            offset, end = offset_at(client, topic, -2), offset_at(client, topic, -1)
            whole: dict[int, int] = {}
            while 0 <= offset < end:
                found = [
                    each for each in fetched(client, topic, offset) if each.last_offset >= offset
                ]
                whole |= {
                    each.base_offset: each.next_offset for each in found if each.crc_is_valid()
                }
                if not found:
                    break
                offset = max(each.next_offset for each in found)
            facts[topic] = whole
    return facts


# -- The two of them -----------------------------------------------------------------------------


def kafka_serves(kafka: KafkaAgain, directory: Path) -> Served | None:
    port = kafka.start(directory, PROPERTIES)
    if port is None:
        return None
    try:
        return served(port)
    except OSError:
        # It has met what ends it.
        return None
    finally:
        kafka.stop()


def we_serve(directory: Path) -> Served | None:
    """None where the start is refused in a sentence; whatever else is raised fails the test."""
    try:
        with BrokerThread(directory / "logs", OUR_PROPERTIES) as broker:
            return served(broker.port)
    except StartError:
        return None


class Change(NamedTuple):
    """A damage to one file, which lies at a path below the log directory."""

    path: str
    kind: str

    def make(self, logs: Path, seed: int) -> None:
        file = logs / self.path
        if self.kind == "removed":
            file.unlink(missing_ok=True)
        elif file.exists():
            file.write_bytes(changed(file.read_bytes(), self.kind, random.Random(seed)))


def copies(left: Path, ending: str, changes: list[Change], directory: Path) -> Mapping[str, Path]:
    """The directory with these damages, for each of the two."""
    for name in ("kafka", "ours"):
        shutil.copytree(left / ending, directory / name / "logs")
        for seed, change in enumerate(changes):
            change.make(directory / name / "logs", seed)
    return {name: directory / name for name in ("kafka", "ours")}


def lacking(theirs: Served, ours: Served) -> list[str]:
    return [
        f"{topic} from {base} to {end}"
        for topic, whole in theirs.items()
        for base, end in whole.items()
        if ours[topic].get(base) != end
    ]


def chosen(left: Path, ending: str, chance: random.Random) -> list[Change]:
    changes: list[Change] = []
    for topic in TOPICS:
        folder = left / ending / f"{topic}-0"
        suffixes = [each for each in SUFFIXES if any(folder.glob(f"*{each}"))]
        path = chance.choice(sorted(folder.glob(f"*{chance.choice(suffixes)}")))
        changes.append(Change(f"{folder.name}/{path.name}", chance.choice((*KINDS, "removed"))))
    return changes


@pytest.mark.seeds("0-7", long="8-99")
def test_where_kafka_starts_we_start_and_serve_no_less(
    left: Path, kafka: KafkaAgain, tmp_path: Path, simulation_seed: int
) -> None:
    chance = random.Random(simulation_seed)
    ending = ENDINGS[simulation_seed % 2]
    changes = chosen(left, ending, chance)
    where = copies(left, ending, changes, tmp_path)
    theirs, ours = kafka_serves(kafka, where["kafka"]), we_serve(where["ours"])
    if theirs is not None:
        assert ours is not None, changes
        assert not lacking(theirs, ours), changes


DISPENSABLE = [
    Change("meta.properties", "extension with nonsense"),
    Change("__cluster_metadata-0/quorum-state", "extension with zeros"),
    Change("__cluster_metadata-0/leader-epoch-checkpoint", "emptied"),
    Change("recovery-point-offset-checkpoint", "emptied"),
    Change("replication-offset-checkpoint", "removed"),
    Change("log-start-offset-checkpoint", "removed"),
    Change("cleaner-offset-checkpoint", "emptied"),
    Change("plain-0/leader-epoch-checkpoint", "removed"),
    Change("keyed-0/leader-epoch-checkpoint", "emptied"),
    Change(".kafka_cleanshutdown", "emptied"),
]
"""What Kafka starts without."""


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_kafka_can_do_without_we_can(
    left: Path, kafka: KafkaAgain, tmp_path: Path, ending: str
) -> None:
    where = copies(left, ending, DISPENSABLE, tmp_path)
    theirs, ours = kafka_serves(kafka, where["kafka"]), we_serve(where["ours"])
    assert theirs is not None
    assert all(theirs.values())
    assert ours == theirs
