"""A log directory fails while a broker runs, is missing at its next start, and comes back.

Everything is done to Apache Kafka and to us; what is served then must be the same.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode

from ..waiting import wait_until
from .real_records import Sending, Sent, as_consumed, consume, create, produce

pytestmark = [pytest.mark.long, pytest.mark.requires("java", "mvn")]

TOPICS = ("a", "b")
DIRECTORIES = ("logs", "second")
NO_LEADER = -1


def properties(directory: Path) -> dict[str, str]:
    paths = ",".join(str(directory / name) for name in DIRECTORIES)
    return {"log.dirs": paths, "node.id": "1", "offsets.topic.num.partitions": "1"}


def node_at(directory: Path, kind: str) -> BrokerNode:
    (directory / "second").mkdir(parents=True)
    if kind == "kafka":
        return KafkaNode(directory, heap="512m", properties=properties(directory))
    untiered = {"remote.log.storage.system.enable": "false"}
    return TierlogNode(directory, properties={**properties(directory), **untiered})


def leaders(node: BrokerNode) -> dict[str, int]:
    """Who leads each topic."""
    metadata = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=60)
    return {
        name: topic.partitions[0].leader
        for name, topic in metadata.topics.items()
        if not name.startswith("__") and topic.partitions
    }


def served(node: BrokerNode) -> dict[str, object]:
    """What each directory holds of the topics, or what is wrong with it."""
    answer = run_tool("kafka-log-dirs", "--bootstrap-server", node.bootstrap, "--describe").stdout
    (broker,) = json.loads(answer.splitlines()[-1])["brokers"]
    found: dict[str, object] = {}
    for log_dir in cast("list[Mapping[str, object]]", broker["logDirs"]):
        logs = cast("list[Mapping[str, str]]", log_dir["partitions"])
        names = sorted(log["partition"] for log in logs if not log["partition"].startswith("__"))
        found[Path(str(log_dir["logDir"])).name] = log_dir["error"] or names
    return found


def whole(node: BrokerNode, topic: str, sent: Mapping[int, Sent]) -> bool:
    return consume(node.bootstrap, topic, len(sent)) == as_consumed(sent)


def story(node: BrokerNode) -> list[object]:
    """One directory is lost and found; what holds at each step."""
    facts: list[object] = []
    second, gone = node.directory / "second", node.directory / "gone"
    with node:
        for topic in TOPICS:
            create(node.bootstrap, topic, {})
        sent = {topic: produce(node.bootstrap, topic, Sending(topic), 50) for topic in TOPICS}
        (lost,) = [topic for topic in TOPICS if (second / f"{topic}-0").is_dir()]
        (kept,) = [topic for topic in TOPICS if topic != lost]
        second.rename(gone)
        wait_until(lambda: leaders(node)[lost] == NO_LEADER, 40, "the disk fails unnoticed")
        facts += [leaders(node), served(node)]
        sent[kept] |= produce(node.bootstrap, kept, Sending("more"), 50)
        facts.append(whole(node, kept, sent[kept]))
        create(node.bootstrap, "c", {})
        facts += [leaders(node), served(node)]
    second.write_text("no directory")
    with node:
        wait_until(lambda: leaders(node)[kept] != NO_LEADER, 40, "nothing is led")
        facts += [leaders(node), served(node), whole(node, kept, sent[kept])]
    second.unlink()
    gone.rename(second)
    with node:
        wait_until(lambda: leaders(node)[lost] != NO_LEADER, 40, "what came back is not led")
        facts += [leaders(node), served(node)]
        facts += [whole(node, topic, sent[topic]) for topic in TOPICS]
    return facts


def test_a_failed_directory_is_lost_and_found_as_in_kafka(tmp_path: Path) -> None:
    kafka, ours = (story(node_at(tmp_path / kind, kind)) for kind in ("kafka", "ours"))
    assert ours == kafka
    assert all(fact for fact in kafka)


@pytest.mark.parametrize("lost", [("logs",), ("second", "logs")])
def test_without_the_directory_of_the_metadata_the_broker_stops(
    tmp_path: Path, lost: tuple[str, ...]
) -> None:
    node = node_at(tmp_path, "ours")
    node.start()
    try:
        create(node.bootstrap, "a", {})
        for name in lost:
            (tmp_path / name).rename(tmp_path / f"{name}.gone")
        wait_until(lambda: "offline" in node.log_tail() and has_ended(node), 30, node.log_tail)
    finally:
        node.kill()


def has_ended(node: BrokerNode) -> bool:
    return not Path(f"/proc/{node.pid}").exists() or "Stopping" in node.log_tail()
