"""Clients of years ago find versions that both sides speak (KIP-35, KIP-511), or are turned away.

As with Apache Kafka 4.3: the oldest promised Java client is 2.1; one with which we have no version
in common for what it wants, such as a producer of 0.10, loses its connection and harms nobody.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..broker_process import BrokerProcess
from .foreign_members import ready
from .ran import CLASSIC, record
from .topics import create_topic, produce

COUNT = 20
_TOOLS = "org.apache.kafka.tools."


def old_java(version: str, tool: str, *arguments: str) -> list[dict[str, object]]:
    """What a verifiable producer or consumer of an old release of Kafka prints."""
    fetch = ("mvn", "-q", "-B", f"-Dkafka.version={version}", "dependency:copy-dependencies")
    folder = ready("old_clients", (*fetch, "-DoutputDirectory=jars"))
    classes = ("-cp", f"{folder / 'jars'}/*", _TOOLS + tool)
    # By way of `env`, so that nobody takes it for a tool of today's Kafka.
    command = ["env", "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", *classes, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stdout + done.stderr
    return [json.loads(line) for line in lines]


def old_producer(version: str, bootstrap: str, topic: str) -> list[dict[str, object]]:
    arguments = ("--topic", topic, "--max-messages", str(COUNT), "--acks", "-1")
    return old_java(version, "VerifiableProducer", "--broker-list", bootstrap, *arguments)


@pytest.mark.requires("java", "mvn")
def test_java_clients_of_2018_produce_and_share_a_group(shared_broker: BrokerProcess) -> None:
    create_topic(shared_broker.bootstrap, "of-2018", 1)
    *_, last = old_producer("2.1.1", shared_broker.bootstrap, "of-2018")
    assert (last["sent"], last["acked"]) == (COUNT, COUNT)
    group = ("--group-id", "of-2018", "--topic", "of-2018", "--reset-policy", "earliest")
    address = ("--broker-list", shared_broker.bootstrap, "--max-messages", str(COUNT))
    output = old_java("2.1.1", "VerifiableConsumer", *address, *group)
    (committed,) = [each for each in output if each["name"] == "offsets_committed"]
    offsets = [{"topic": "of-2018", "partition": 0, "offset": COUNT}]
    assert (committed["success"], committed["offsets"]) == (True, offsets)
    record("kafka-clients", "2.1.1", protocol=CLASSIC, did="range")


@pytest.mark.requires("java", "mvn")
def test_a_java_producer_of_2017_loses_its_connection_and_harms_nobody(
    shared_broker: BrokerProcess,
) -> None:
    create_topic(shared_broker.bootstrap, "of-2017", 1)
    output = old_producer("0.10.2.2", shared_broker.bootstrap, "of-2017")
    errors = [each for each in output if each["name"] == "producer_send_error"]
    assert len(errors) == COUNT
    assert {each["message"] for each in errors} == {
        "The server disconnected before a response was received."
    }
    produce(shared_broker.bootstrap, 1, "of-2017", 1)


@pytest.mark.parametrize(
    ("package", "module", "version"),
    [
        ("confluent-kafka", "confluent_kafka", "2.0.2"),
        ("kafka-python", "kafka", "1.4.7"),
        ("kafka-python", "kafka", "2.0.2"),
    ],
)
def test_old_python_clients_produce_and_share_a_group(
    shared_broker: BrokerProcess, package: str, module: str, version: str
) -> None:
    topic = f"of-{package}-{version}"
    create_topic(shared_broker.bootstrap, topic, 1)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    chosen = ("--no-deps", "--target", "packages", f"{package}=={version}")
    client: Path = ready("old_clients", (*pip, *chosen)) / "client.py"
    command = [sys.executable, str(client), module, shared_broker.bootstrap, topic, str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == [str(COUNT)], done.stderr
    record(package, version, protocol=CLASSIC, did="range")
