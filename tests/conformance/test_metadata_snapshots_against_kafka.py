"""Snapshots of the metadata log go both ways: Kafka and its tools read ours, and we read Kafka's.

Both brokers are set to take a snapshot after a few thousand bytes, and to keep as little as they
can: so the beginning of the log is gone, and whoever comes next needs the snapshot.
"""

from collections import Counter
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.kafka_uuid import uuid_to_string
from tierlog.clients.record.batch import batches
from tierlog.replication.metadata.cluster_image import ClusterDelta, ClusterImage
from tierlog.replication.metadata.image_records import image_records
from tierlog.replication.metadata.metadata_records import encode_record
from tierlog.replication.metadata.snapshot_format import SnapshotContent, snapshot_id_of

from ..waiting import wait_until
from .dump_log import dump
from .real_records import create

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

SHELL = "org.apache.kafka.shell.MetadataShell"
SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "metadata.max.retention.bytes": "1",
}
OURS = {"node.id": "1", "remote.log.storage.system.enable": "false", **SMALL}
KAFKAS = {
    "internal.metadata.log.segment.bytes": "12288",
    "internal.metadata.delete.delay.millis": "100",
    **SMALL,
}
TOPICS = 80


def fill(node: BrokerNode) -> None:
    """Topics with configurations, one of them deleted and made again; a quota."""
    for number in range(TOPICS):
        create(node.bootstrap, f"t{number}", {"retention.ms": str(1_000_000 + number)})
    server = ("--bootstrap-server", node.bootstrap)
    run_tool("kafka-topics", *server, "--delete", "--topic", "t7")
    create(node.bootstrap, "t7", {})
    quota = ("--add-config", "consumer_byte_rate=4096", "--entity-type", "users")
    run_tool("kafka-configs", *server, "--alter", *quota, "--entity-name", "ann")
    create(node.bootstrap, "last", {})


def metadata_directory(directory: Path) -> Path:
    return directory / "logs" / "__cluster_metadata-0"


def snapshots_in(directory: Path) -> list[Path]:
    paths = sorted(metadata_directory(directory).glob("*.checkpoint"))
    return [each for each in paths if not each.name.startswith("0" * 20)]


def wait_for_a_short_log(directory: Path) -> None:
    """Wait until the first segment is gone, which is up to a minute after its snapshot."""
    log = metadata_directory(directory)
    wait_until(
        lambda: not (log / f"{0:020d}.log").exists(), 150, lambda: str(sorted(log.iterdir()))
    )


def describe(node: BrokerNode) -> str:
    answer = run_tool("kafka-topics", "--bootstrap-server", node.bootstrap, "--describe").stdout
    return "\n".join(sorted(line for line in answer.splitlines() if "PartitionCount" in line))


def content_of(path: Path) -> SnapshotContent:
    snapshot_id = snapshot_id_of(path.name)
    assert snapshot_id is not None
    return SnapshotContent(snapshot_id, path.read_bytes())


def image_of(content: SnapshotContent) -> ClusterImage:
    delta = ClusterDelta(ClusterImage("cluster"))
    for records in content.records():
        delta.replay_all(records)
    return delta.apply(content.snapshot_id.offset - 1, content.snapshot_id.epoch)


def listed(path: Path, node: str) -> set[str]:
    """What Kafka's shell lists in a snapshot.

    On a busy machine it may look before it has loaded anything, and then lists nothing.
    """
    names: set[str] = set()
    for _ in range(5):
        names = set(run_tool(SHELL, "--snapshot", str(path), "ls", node).stdout.split())
        if names:
            break
    return names


def test_kafkas_tools_read_our_snapshot(tmp_path: Path) -> None:
    with TierlogNode(tmp_path, properties=OURS) as ours:
        fill(ours)
        wait_for_a_short_log(tmp_path)
    path = snapshots_in(tmp_path)[-1]
    image = image_of(content_of(path))
    (dumped,) = dump([path], "--cluster-metadata-decoder").values()
    assert dumped.snapshot_end == image.offset + 1
    assert dumped.records[0].control.startswith("SnapshotHeader")
    assert dumped.records[-1].control.startswith("SnapshotFooter")
    assert len(dumped.records) == 2 + len(list(image_records(image)))
    assert listed(path, "/image/topics/byName") == set(image.topics_by_name)
    assert listed(path, "/image/topics/byId") == set(map(uuid_to_string, image.topics_by_id))


def check_that_we_would_write_the_same(path: Path) -> None:
    """The records of Kafka's snapshot, folded into an image, give the same records."""
    theirs = Counter(
        record.value
        for batch in batches(path.read_bytes())
        if not batch.is_control
        for record in batch.records()
    )
    assert len(theirs) > TOPICS
    assert Counter(map(encode_record, image_records(image_of(content_of(path))))) == theirs


def test_a_directory_without_the_beginning_of_its_log_goes_from_us_to_kafka_and_back(
    tmp_path: Path,
) -> None:
    ours = TierlogNode(tmp_path, properties=OURS)
    with ours:
        fill(ours)
        wait_for_a_short_log(tmp_path)
        before = describe(ours)
    with KafkaNode(tmp_path, heap="512m", properties=KAFKAS) as kafka:
        assert describe(kafka) == before
        fill_more(kafka, "theirs")
        before = describe(kafka)
    with ours:
        assert describe(ours) == before


def test_a_directory_without_the_beginning_of_its_log_goes_from_kafka_to_us_and_back(
    tmp_path: Path,
) -> None:
    kafka = KafkaNode(tmp_path, heap="512m", properties=KAFKAS)
    with kafka:
        fill(kafka)
        wait_for_a_short_log(tmp_path)
        before = describe(kafka)
    check_that_we_would_write_the_same(snapshots_in(tmp_path)[-1])
    with TierlogNode(tmp_path, properties=OURS) as ours:
        assert describe(ours) == before
        fill_more(ours, "ours")
        before = describe(ours)
    with kafka:
        assert describe(kafka) == before


def fill_more(node: BrokerNode, prefix: str) -> None:
    """Enough for another snapshot."""
    for number in range(TOPICS // 2):
        create(node.bootstrap, f"{prefix}{number}", {})
