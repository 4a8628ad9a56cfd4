"""A whole data directory goes from tierlog to Apache Kafka and back, and the other way round.

Nothing is converted: each finds the cluster's id, the topics with their ids and configurations, the
records, the committed offsets and the producers' state where the other left them, and goes on.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.clients.record.batch import batches

from .dump_log import check_segments
from .real_records import (
    Sending,
    Sent,
    as_consumed,
    check_against,
    committed_offset,
    consume,
    consume_and_commit,
    create,
    produce,
)

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

TOPIC = "orders"
CONFIG = {"segment.bytes": "1048576", "index.interval.bytes": "100"}
GROUP = "readers"
COMMITTED = 200
RECORDS_EACH = 300
PROPERTIES = {"offsets.topic.num.partitions": "1"}
OUR_PROPERTIES = {"node.id": "1", "remote.log.storage.system.enable": "false", **PROPERTIES}


def fill(node: BrokerNode) -> dict[int, Sent]:
    """What the first owner does: a topic, records, a group."""
    create(node.bootstrap, TOPIC, CONFIG)
    sent = produce(
        node.bootstrap, TOPIC, Sending("first", "zstd", is_idempotent=True), RECORDS_EACH
    )
    consume_and_commit(node.bootstrap, TOPIC, GROUP, COMMITTED)
    return sent


def find_and_go_on(node: BrokerNode, sent: dict[int, Sent], name: str) -> None:
    """What every other owner does: everything is there, and more is added."""
    described = run_tool(
        "kafka-topics", "--bootstrap-server", node.bootstrap, "--describe", "--topic", TOPIC
    ).stdout
    assert "segment.bytes=1048576" in described
    assert "index.interval.bytes=100" in described
    assert "Leader: 1" in described
    assert committed_offset(node.bootstrap, TOPIC, GROUP) == COMMITTED
    assert consume(node.bootstrap, TOPIC, len(sent)) == as_consumed(sent)
    more = produce(node.bootstrap, TOPIC, Sending(name, "lz4", is_idempotent=True), RECORDS_EACH)
    assert sorted(more) == list(range(len(sent), len(sent) + RECORDS_EACH))
    sent.update(more)


def check_directory(logs: Path, sent: Mapping[int, Sent]) -> None:
    check_against(check_segments(logs / f"{TOPIC}-0"), sent)
    check_segments(logs / "__cluster_metadata-0", "--cluster-metadata-decoder")
    check_segments(logs / "__consumer_offsets-0", "--offsets-decoder")


def test_from_us_to_kafka_and_back(tmp_path: Path) -> None:
    ours = TierlogNode(tmp_path, properties=OUR_PROPERTIES)
    kafka = KafkaNode(tmp_path, heap="512m", properties=PROPERTIES)
    with ours:
        sent = fill(ours)
    with kafka:
        find_and_go_on(kafka, sent, "second")
    with ours:
        find_and_go_on(ours, sent, "third")
    check_directory(tmp_path / "logs", sent)


@pytest.mark.parametrize("ending", ["killed", "stopped"])
def test_from_kafka_to_us_and_back(tmp_path: Path, ending: str) -> None:
    """A Kafka that is stopped takes its partitions' last leader out of the in-sync replicas."""
    ours = TierlogNode(tmp_path, properties=OUR_PROPERTIES)
    kafka = KafkaNode(tmp_path, heap="512m", properties=PROPERTIES)
    kafka.start()
    try:
        sent = fill(kafka)
    finally:
        if ending == "killed":
            kafka.kill()
        else:
            kafka.stop()
    with ours:
        find_and_go_on(ours, sent, "second")
    with kafka:
        find_and_go_on(kafka, sent, "third")
    check_directory(tmp_path / "logs", sent)


def test_what_kafka_cut_off_the_metadata_log_is_kafkas_to_decide(tmp_path: Path) -> None:
    """Our `durable-end` protects what we flushed: not from a leader that came after us."""
    ours = TierlogNode(tmp_path, properties=OUR_PROPERTIES)
    with ours:
        create(ours.bootstrap, "kept", CONFIG)
        # More records than Kafka will write: its log ends below where ours did.
        many = ("--partitions", "400", "--replication-factor", "1")
        server = ("--bootstrap-server", ours.bootstrap)
        run_tool("kafka-topics", *server, "--create", "--topic", "lost", *many)
        ours.kill()
    (log,) = (tmp_path / "logs" / "__cluster_metadata-0").glob("*.log")
    content = bytearray(log.read_bytes())
    sizes = [(each.record_count, each.size_in_bytes) for each in batches(content)]
    largest = sizes.index(max(sizes))
    content[sum(size for _, size in sizes[: largest + 1]) - 1] ^= 1
    log.write_bytes(content)
    with KafkaNode(tmp_path, heap="512m", properties=PROPERTIES) as kafka:
        create(kafka.bootstrap, "after", CONFIG)
        kafka.kill()
    with ours:
        assert "has since led it" in ours.output
        listed = run_tool("kafka-topics", "--bootstrap-server", ours.bootstrap, "--list").stdout
        assert set(listed.split()) >= {"kept", "after"}
        assert "lost" not in listed.split()
