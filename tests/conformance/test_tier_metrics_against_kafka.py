"""Every metric of tiered storage that Kafka shows over JMX is among ours, under the same name."""

from pathlib import Path
from urllib.request import urlopen

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.metrics.metrics import Sample
from tierlog.broker.metrics.prometheus import exposition

from ..broker.exposition_reader import Series, parse_exposition
from ..waiting import wait_until
from .java_programs import run_java
from .real_records import Sending, consume, create, produce

pytestmark = pytest.mark.requires("java", "mvn")

TOPIC = "orders"
CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
    "retention.bytes": "100000000",
    "file.delete.delay.ms": "0",
}
OFTEN = {
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "remote.log.manager.task.interval.ms": "500",
}
RECORDS = 2_500
FIGURES = ("Count", "Value", "Mean", "Max", "byte-rate")
"""The attributes that hold a figure we keep; Kafka's moving averages and percentiles are not."""


def run_story(node: BrokerNode) -> None:
    """A topic that has gone to the tier, and somebody who has read it from there."""
    create(node.bootstrap, TOPIC, CONFIG)
    produce(node.bootstrap, TOPIC, Sending("one"), RECORDS)

    def is_in_the_tier() -> bool:
        (log,) = node.directory.glob(f"logs/{TOPIC}-0")
        return len(list(log.glob("*.log"))) == 1

    wait_until(is_in_the_tier, 60, node.log_tail)
    assert len(consume(node.bootstrap, TOPIC, RECORDS)) == RECORDS


def kafkas_remote_metrics(kafka: KafkaNode) -> set[Series]:
    """Asked over JMX, and named as in our page. Kafka has gauges of internal topics as well."""
    samples: list[Sample] = []
    for line in run_java("MBeanNames.java", [str(kafka.pid)]):
        name, attribute = line.split("\t")
        is_remote = "Remote" in name or "kafka.log.remote" in name
        is_quota = name.startswith("kafka.server:type=RLM")
        is_client = name.startswith(("kafka.network:", "kafka.consumer:", "kafka.producer:"))
        is_wanted = (is_remote or is_quota) and not is_client and "topic=__" not in name
        if is_wanted and attribute in FIGURES:
            samples.append(Sample(name, attribute, 0))
    return set(parse_exposition(exposition(samples)))


def our_metrics(port: int) -> set[Series]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        return set(parse_exposition(answer.read().decode()))


def in_order(found: set[Series]) -> set[Series]:
    return {(name, tuple(sorted(labels))) for name, labels in found}


def test_every_remote_metric_of_kafka_is_ours(tmp_path: Path) -> None:
    with KafkaNode(tmp_path / "kafka", tiered=True, heap="512m", properties=OFTEN) as kafka:
        run_story(kafka)
        theirs = in_order(kafkas_remote_metrics(kafka))
    port = free_port()
    stated = {**OFTEN, "tierlog.metrics.port": str(port)}
    with TierlogNode(tmp_path / "ours", properties=stated) as node:
        run_story(node)
        ours = in_order(our_metrics(port))
    assert len(theirs) > 40
    assert theirs - ours == set()


def test_what_kafka_has_only_once_it_has_happened_is_there_from_the_start(tmp_path: Path) -> None:
    """Kafka makes the sensors of throttling and of expired searches when they first record."""
    port = free_port()
    with TierlogNode(tmp_path, properties={"tierlog.metrics.port": str(port)}):
        names = {name for name, _ in our_metrics(port)}
    throttled = "kafka_server_RemoteLogManager_remote"
    assert names >= {
        f"{throttled}_{way}_throttle_time_{which}"
        for way in ("fetch", "copy")
        for which in ("avg", "max")
    }
    assert "kafka_server_DelayedRemoteListOffsetsMetrics_Count" in names
