"""A tiered replica moves between log directories: only its local part does, as in Kafka."""

from functools import partial
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.processes.tierlog_node import TierlogNode

from ..waiting import wait_until
from .log_directory_plans import TOPIC, Plan, described, home, other, properties, tool
from .real_records import Sending, as_consumed, consume, create, produce

pytestmark = pytest.mark.requires("java", "mvn")

CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}
OFTEN = {
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "remote.log.manager.task.interval.ms": "500",
}
RECORDS = 2_500


def node_at(directory: Path, kind: str) -> BrokerNode:
    (directory / "second").mkdir(parents=True)
    stated = {**properties(directory), **OFTEN}
    if kind == "kafka":
        return KafkaNode(directory, tiered=True, heap="512m", properties=stated)
    return TierlogNode(directory, properties=stated)


def offsets(node: BrokerNode) -> dict[str, int]:
    """Where the log begins and ends, in both tiers."""
    asked = ("earliest", "earliest-local", "latest-tiered", "latest")
    outputs = {
        when: tool(node, "kafka-get-offsets", "--topic", TOPIC, "--time", when) for when in asked
    }
    return {when: int(answer.rpartition(":")[2]) for when, answer in outputs.items()}


def is_local_part_small(node: BrokerNode) -> bool:
    (log,) = (node.directory / home(node.directory)).glob(f"{TOPIC}-0")
    return len(list(log.glob("*.log"))) == 1


def files(node: BrokerNode) -> list[str]:
    """What the log's directory holds, snapshots left out: a clean close leaves one more."""
    log = node.directory / home(node.directory) / f"{TOPIC}-0"
    return sorted(path.name for path in log.iterdir() if path.suffix != ".snapshot")


def story(node: BrokerNode) -> list[object]:
    with node:
        create(node.bootstrap, TOPIC, CONFIG)
        sent = produce(node.bootstrap, TOPIC, Sending("first", "none"), RECORDS)
        wait_until(partial(is_local_part_small, node), 60, lambda: repr(files(node)))
        before = offsets(node)
        source = home(node.directory)
        target = other(source)
        Plan(node, node.directory / target)("--execute")
        wait_until(
            lambda: set(described(node)) == {(target, False)}, 60, lambda: repr(described(node))
        )
        epochs = (node.directory / target / f"{TOPIC}-0" / "leader-epoch-checkpoint").read_text()
        facts: list[object] = [before == offsets(node), epochs, len(files(node))]
        facts.append(consume(node.bootstrap, TOPIC, RECORDS) == as_consumed(sent))
        # The tier's work goes on in the new directory.
        sent |= produce(node.bootstrap, TOPIC, Sending("second", "none"), RECORDS)
        wait_until(partial(is_local_part_small, node), 60, lambda: repr(files(node)))
        facts.append(consume(node.bootstrap, TOPIC, len(sent)) == as_consumed(sent))
        facts.append(offsets(node)["latest-tiered"] > before["latest-tiered"])
        return facts


def test_the_local_part_moves_and_the_remote_part_stays(tmp_path: Path) -> None:
    kafka, ours = (story(node_at(tmp_path / kind, kind)) for kind in ("kafka", "ours"))
    assert ours == kafka
    assert all(ours)
