"""MirrorMaker 2, unmodified, copies a cluster: topics, their settings, records, groups' positions.

It is how people move from one Kafka to another. Both clusters are ours here.
"""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.processes.kafka_peer import TOOLS, java_command, run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode

from ..conformance.real_records import (
    Sending,
    as_consumed,
    committed_offset,
    consume,
    consume_and_commit,
    create,
    produce,
)
from ..waiting import wait_until
from .connect_worker import FLAGS, write_properties

pytestmark = pytest.mark.requires("java", "mvn")

TOPIC, MIRRORED = "orders", "old.orders"
GROUP = "readers"
TIMEOUT_S = 120
PROPERTIES = {
    "clusters": "old,new",
    "old->new.enabled": "true",
    "old->new.topics": TOPIC,
    "old->new.groups": GROUP,
    "new->old.enabled": "false",
    "new->old.emit.heartbeats.enabled": "false",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    # What a worker is told stands under the name of the cluster that it writes to.
    "new.plugin.discovery": "service_load",
    "new.offset.flush.interval.ms": "500",
    # Whoever stops in an orderly way repeats nothing, if it is given the time.
    "new.offset.flush.timeout.ms": "30000",
    "new.task.shutdown.graceful.timeout.ms": "30000",
    # Every second, where the defaults are minutes; positions to the record.
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "offset.lag.max": "0",
}


@contextmanager
def mirror_maker(directory: Path, old: TierlogNode, new: TierlogNode) -> Generator[Path]:
    """Runs for as long; the file of what it says."""
    properties, log = directory / "mirror.properties", directory / "mirror.log"
    servers = {"old.bootstrap.servers": old.bootstrap, "new.bootstrap.servers": new.bootstrap}
    write_properties(properties, {**PROPERTIES, **servers})
    command = java_command(TOOLS["connect-mirror-maker"], str(properties), flags=FLAGS)
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def test_a_cluster_is_copied_and_followed(tmp_path: Path) -> None:
    with TierlogNode(tmp_path / "old") as old, TierlogNode(tmp_path / "new") as new:
        create(old.bootstrap, TOPIC, {"retention.ms": "86400000", "compression.type": "producer"})
        sent = produce(old.bootstrap, TOPIC, Sending("before", "lz4"), 1_000)
        consume_and_commit(old.bootstrap, TOPIC, GROUP, 1_000)
        with mirror_maker(tmp_path, old, new) as log:
            wait_until(lambda: partitions_of(new) == 1, TIMEOUT_S, log.read_text)
            assert consume(new.bootstrap, MIRRORED, 1_000) == as_consumed(sent)
            assert "retention.ms=86400000" in configs_of(new)
            wait_for_position(new, 1_000, log)

            # What happens from now on follows, through a crash of the new cluster.
            new.kill()
            sent |= produce(old.bootstrap, TOPIC, Sending("after", "zstd", is_idempotent=True), 500)
            consume_and_commit(old.bootstrap, TOPIC, GROUP, 500)
            more = ("--alter", "--topic", TOPIC, "--partitions", "3")
            run_tool("kafka-topics", "--bootstrap-server", old.bootstrap, *more)
            new.start()
            wait_until(lambda: partitions_of(new) == 3, TIMEOUT_S, log.read_text)
            assert consume(new.bootstrap, MIRRORED, 1_500) == as_consumed(sent)
            wait_for_position(new, 1_500, log)
        assert "Traceback" not in old.output + new.output


def partitions_of(node: TierlogNode) -> int:
    """How many the mirrored topic has; none before it is there."""
    topics = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=30).topics
    return len(topics[MIRRORED].partitions) if MIRRORED in topics else 0


def wait_for_position(node: TierlogNode, offset: int, log: Path) -> None:
    """Until the group has that position in the mirrored topic, in which it never was."""
    wait_until(
        lambda: committed_offset(node.bootstrap, MIRRORED, GROUP) == offset,
        TIMEOUT_S,
        lambda: f"{committed_offset(node.bootstrap, MIRRORED, GROUP)} {log.read_text()}",
    )


def configs_of(node: TierlogNode) -> str:
    arguments = ("--entity-type", "topics", "--entity-name", MIRRORED, "--describe")
    return run_tool("kafka-configs", "--bootstrap-server", node.bootstrap, *arguments).stdout
