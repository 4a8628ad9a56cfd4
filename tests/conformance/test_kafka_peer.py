"""Apache Kafka itself can be fetched, started, asked and stopped."""

from pathlib import Path

import pytest

from tierlog.bench.harness.processes.kafka_peer import TOOLS, KafkaNode, kafka_jars, run_tool

from ..waiting import wait_until

pytestmark = pytest.mark.requires("java", "mvn")


def test_the_jars_hold_the_broker_the_tools_and_the_local_tier() -> None:
    names = {path.name for path in kafka_jars().glob("*.jar")}
    assert {
        "kafka_2.13-4.3.1.jar",
        "kafka-tools-4.3.1.jar",
        "kafka-storage-4.3.1-test.jar",
    } <= names


def test_a_tiered_node_starts_answers_its_own_tools_and_stops(tmp_path: Path) -> None:
    with KafkaNode(tmp_path, tiered=True, heap="512m") as kafka:
        server = ("--bootstrap-server", kafka.bootstrap)
        create = ("--create", "--topic", "t", "--config", "remote.storage.enable=true")
        run_tool("kafka-topics", *server, *create)

        def is_listed() -> bool:
            return "t" in run_tool("kafka-topics", *server, "--list").stdout.split()

        # The controller has answered; the broker follows it.
        wait_until(is_listed, 60, lambda: kafka.log_tail())
    assert (tmp_path / "logs" / "t-0").is_dir()


def test_every_tool_name_leads_to_a_class() -> None:
    answer = run_tool("kafka-dump-log", "--help", check=False)
    assert "--files" in answer.stdout + answer.stderr
    assert "kafka-dump-log" in TOOLS
