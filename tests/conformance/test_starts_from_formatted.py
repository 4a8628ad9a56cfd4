"""Kafka starts from directories that `tierlog format` made, and tierlog from Kafka's."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tierlog.bench.harness.processes.broker_node import BrokerNode
from tierlog.bench.harness.processes.kafka_peer import KafkaNode, run_tool
from tierlog.bench.harness.processes.tierlog_node import TierlogNode
from tierlog.bench.harness.requests.probe import free_port
from tierlog.cli.command_line import run
from tierlog.clients.kafka_uuid import uuid_to_string
from tierlog.storage.directory.log_dir import LogDir
from tierlog.storage.files import OsFiles

pytestmark = pytest.mark.requires("java", "mvn")

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
VOTERS = {"static": (), "dynamic": ("--standalone",)}
FORMATTED = {**VOTERS, "member": ("--standalone",)}


def a_quorum(kind: str, port: int) -> dict[str, str]:
    """The properties of a quorum of one, with voters of this kind."""
    if kind == "static":
        return {"controller.quorum.voters": f"1@127.0.0.1:{port}"}
    servers = f"127.0.0.1:{port}"
    if kind == "member":
        # The other one may come later.
        servers += f",127.0.0.1:{free_port()}"
    return {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": servers}


class KafkaFromOurs(KafkaNode):
    """A Kafka node whose directory we format."""

    def __init__(self, directory: Path, kind: str) -> None:
        super().__init__(directory, heap="512m")
        self._kind = kind
        controller_port = int(self._stated["listeners"].rpartition(":")[2])
        self._stated |= a_quorum(kind, controller_port)

    def prepare(self, configuration: Path) -> None:
        arguments = ["format", "-c", str(configuration), "-t", CLUSTER, *VOTERS[self._kind]]
        assert run(arguments, 0) == 0


class OursFromKafka(TierlogNode):
    """A node of ours whose directory Kafka formats."""

    def __init__(self, directory: Path, kind: str, *features: str) -> None:
        super().__init__(directory)
        self._kind = kind
        self._features = features
        self._controller_port = free_port()

    def properties(self) -> Mapping[str, str]:
        listener = f"CONTROLLER://127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap},{listener}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / "logs"),
            **a_quorum(self._kind, self._controller_port),
        }

    def prepare(self, configuration: Path) -> None:
        if not (self.directory / "logs" / "meta.properties").exists():
            arguments = ["-c", str(configuration), "-t", CLUSTER, *FORMATTED[self._kind]]
            for feature in self._features:
                arguments += ["--feature", feature]
            run_tool("kafka-storage", "format", *arguments)


def check_serves(node: BrokerNode) -> None:
    """The node has the id of its cluster, and creates a topic."""
    server = ("--bootstrap-server", node.bootstrap)
    assert f"Cluster ID: {CLUSTER}" in run_tool("kafka-cluster", "cluster-id", *server).stdout
    run_tool("kafka-topics", *server, "--create", "--topic", "orders")
    assert "orders" in run_tool("kafka-topics", *server, "--list").stdout


@pytest.mark.parametrize("kind", VOTERS)
def test_kafka_starts_from_what_we_formatted(tmp_path: Path, kind: str) -> None:
    with KafkaFromOurs(tmp_path, kind) as node:
        check_serves(node)
        server = ("--bootstrap-server", node.bootstrap)
        status = run_tool("kafka-metadata-quorum", *server, "describe", "--status").stdout
        meta = LogDir(OsFiles(), str(tmp_path / "logs")).read_meta_properties()
        assert meta is not None
        (voters,) = (line for line in status.splitlines() if line.startswith("CurrentVoters:"))
        assert (uuid_to_string(meta.directory_id) in voters) is (kind == "dynamic")


@pytest.mark.parametrize("kind", VOTERS)
def test_we_start_from_what_kafka_formatted(tmp_path: Path, kind: str) -> None:
    node = OursFromKafka(tmp_path, kind)
    with node:
        check_serves(node)
    before = LogDir(OsFiles(), str(tmp_path / "logs")).read_meta_properties()
    with node:
        assert (
            "orders"
            in run_tool("kafka-topics", "--bootstrap-server", node.bootstrap, "--list").stdout
        )
    assert LogDir(OsFiles(), str(tmp_path / "logs")).read_meta_properties() == before


@pytest.mark.parametrize("kind", FORMATTED)
def test_a_new_cluster_has_the_features_that_kafka_formatted_it_with(
    tmp_path: Path, kind: str
) -> None:
    features = ("group.version=0", "transaction.version=1")
    with OursFromKafka(tmp_path, kind, *features) as node:
        server = ("--bootstrap-server", node.bootstrap)
        said = run_tool("kafka-features", *server, "describe").stdout
        levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", said))
    assert levels["transaction.version"] == "1"
    assert levels.get("group.version", "0") == "0"
    assert levels["eligible.leader.replicas.version"] == "1"
