"""Kafka's own kafka-configs does its job against us; what it sets is obeyed at once and kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import run_tool

from ..broker_process import BrokerProcess

pytestmark = pytest.mark.requires("java", "mvn")


def configs(broker: BrokerProcess, *arguments: str) -> str:
    return run_tool("kafka-configs", "--bootstrap-server", broker.bootstrap, *arguments).stdout


def started(directory: Path) -> BrokerProcess:
    return BrokerProcess.on(
        directory, {"node.id": "1", "remote.log.storage.system.enable": "false"}
    )


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with started(tmp_path) as broker:
        yield broker


def test_topics_brokers_and_defaults_are_altered_and_described(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    run_tool("kafka-topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "t")
    topic = ("--entity-type", "topics", "--entity-name", "t")
    own, everyone = (
        ("--entity-type", "brokers", "--entity-name", "1"),
        (
            "--entity-type",
            "brokers",
            "--entity-default",
        ),
    )
    added = configs(
        broker, *topic, "--alter", "--add-config", "retention.ms=5000,cleanup.policy=[]"
    )
    assert "Completed updating config for topic t." in added
    assert "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in (
        configs(broker, *topic, "--describe")
    )
    configs(broker, *topic, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in configs(broker, *topic, "--describe")

    configs(broker, *own, "--alter", "--add-config", "log.retention.ms=70000")
    configs(broker, *everyone, "--alter", "--add-config", "log.segment.bytes=2000000")
    described = configs(broker, *topic, "--describe", "--all")
    assert "DYNAMIC_BROKER_CONFIG:log.retention.ms=70000" in described
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=2000000" in described
    assert "log.retention.ms=70000" in configs(broker, *own, "--describe")
    assert "log.segment.bytes=2000000" in configs(broker, *everyone, "--describe")
    refused = run_tool(
        "kafka-configs", "--bootstrap-server", broker.bootstrap, *own,
        "--alter", "--add-config", "log.dirs=/x", check=False,
    )  # fmt: skip
    assert "Cannot update these configs dynamically: [log.dirs]" in refused.stdout + refused.stderr

    broker.kill()
    with started(tmp_path) as again:
        described = configs(again, *topic, "--describe", "--all")
        assert "retention.ms=70000" in described
        assert "segment.bytes=2000000" in described
