"""Runs a real Apache Kafka next to tierlog, for differential tests and benchmarks.

Needs Java 17 and Maven. The jars are fetched once from Maven Central and kept under
`~/.cache/tierlog` (or `$XDG_CACHE_HOME`), in a separate folder for each version of kafka/pom.xml.

    run_tool("kafka-dump-log", "--files", path)         # any of Kafka's tools, by its usual name
    with KafkaNode(directory, tiered=True) as kafka:    # one combined KRaft node on free ports
        run_tool("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--list")
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ....clients.kafka_uuid import uuid_to_string
from ....clients.runtime.environment import SystemEnvironment
from ..requests.probe import free_port
from .broker_node import BrokerNode

KAFKA_VERSION = "4.3.1"
RECIPE = Path(__file__).resolve().parent / "kafka"

_TOOLS_PACKAGE = "org.apache.kafka.tools."
TOOLS = {
    "connect-distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
    "connect-mirror-maker": "org.apache.kafka.connect.mirror.MirrorMaker",
    "connect-standalone": "org.apache.kafka.connect.cli.ConnectStandalone",
    "kafka-broker-api-versions": _TOOLS_PACKAGE + "BrokerApiVersionsCommand",
    "kafka-client-metrics": _TOOLS_PACKAGE + "ClientMetricsCommand",
    "kafka-cluster": _TOOLS_PACKAGE + "ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": _TOOLS_PACKAGE + "consumer.ConsoleConsumer",
    "kafka-console-producer": _TOOLS_PACKAGE + "ConsoleProducer",
    "kafka-consumer-groups": _TOOLS_PACKAGE + "consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": _TOOLS_PACKAGE + "ConsumerPerformance",
    "kafka-delete-records": _TOOLS_PACKAGE + "DeleteRecordsCommand",
    "kafka-dump-log": _TOOLS_PACKAGE + "DumpLogSegments",
    "kafka-e2e-latency": _TOOLS_PACKAGE + "EndToEndLatency",
    "kafka-features": _TOOLS_PACKAGE + "FeatureCommand",
    "kafka-get-offsets": _TOOLS_PACKAGE + "GetOffsetShell",
    "kafka-groups": _TOOLS_PACKAGE + "GroupsCommand",
    "kafka-leader-election": _TOOLS_PACKAGE + "LeaderElectionCommand",
    "kafka-log-dirs": _TOOLS_PACKAGE + "LogDirsCommand",
    "kafka-metadata-quorum": _TOOLS_PACKAGE + "MetadataQuorumCommand",
    "kafka-producer-perf-test": _TOOLS_PACKAGE + "ProducerPerformance",
    "kafka-reassign-partitions": _TOOLS_PACKAGE + "reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": _TOOLS_PACKAGE + "ReplicaVerificationTool",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": _TOOLS_PACKAGE + "TopicCommand",
    "kafka-acls": _TOOLS_PACKAGE + "AclCommand",
    "kafka-transactions": _TOOLS_PACKAGE + "TransactionsCommand",
    "kafka-verifiable-consumer": _TOOLS_PACKAGE + "VerifiableConsumer",
    "kafka-verifiable-producer": _TOOLS_PACKAGE + "VerifiableProducer",
}

# The flags of Kafka's own start script.
_SERVER_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)


class KafkaUnavailableError(Exception):
    """Java or Maven is missing, or Maven Central could not be reached."""


@contextmanager
def exclusively(path: Path) -> Generator[None, None, None]:
    """Hold a lock against this machine's other processes, so that only one of them fetches."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kafka_jars() -> Path:
    """The folder with Apache Kafka's jars (about 100 MB), fetched if missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tierlog"
    digest = hashlib.sha256((RECIPE / "pom.xml").read_bytes()).hexdigest()[:16]
    folder = cache / f"kafka-{KAFKA_VERSION}-{digest}"
    if (folder / ".complete").exists():
        return folder
    for command in ("java", "mvn"):
        if shutil.which(command) is None:
            raise KafkaUnavailableError(f"Apache Kafka needs {command} on the PATH.")
    with exclusively(cache / "fetch.lock"):
        if not (folder / ".complete").exists():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    unfinished = folder.with_name(folder.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [
        "mvn",
        "--quiet",
        "--batch-mode",
        f"--file={RECIPE / 'pom.xml'}",
        f"-Dkafka.version={KAFKA_VERSION}",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={unfinished}",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if answer.returncode != 0:
        raise KafkaUnavailableError(f"Maven could not fetch Kafka:\n{answer.stdout}{answer.stderr}")
    (unfinished / ".complete").touch()
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def quick_flags() -> list[str]:
    """What tests that are not about Kafka's pace add to its flags: `tests/kafka_archive.py`."""
    return os.environ.get("TIERLOG_TEST_KAFKA_FLAGS", "").split()


def java_command(main_class: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    """The command line that runs a class of Kafka's jars."""
    logging = f"-Dlog4j2.configurationFile={RECIPE / 'log4j2.properties'}"
    return [
        "java",
        *flags,
        *quick_flags(),
        logging,
        "-cp",
        f"{kafka_jars()}/*",
        main_class,
        *arguments,
    ]


def run_tool(
    tool: str, *arguments: str, stdin: str | None = None, timeout_s: float = 120, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command-line tools, by its usual name or its class, and wait for it.

    With `check` a failing tool raises CalledProcessError with its output.
    """
    main_class = TOOLS.get(tool, tool)
    # One compiler tier and the serial collector, because tools run for about a second.
    flags = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    answer = subprocess.run(
        java_command(main_class, *arguments, flags=flags),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if check and answer.returncode != 0:
        error = subprocess.CalledProcessError(answer.returncode, [tool, *arguments])
        error.add_note(answer.stdout + answer.stderr)
        raise error
    return answer


def server_command(configuration: Path, heap: str) -> list[str]:
    """The command that starts a node of Kafka with a properties file, and with its own flags."""
    flags = (f"-Xmx{heap}", f"-Xms{heap}", *_SERVER_FLAGS, "-Dkafka.log.level=INFO")
    return java_command("kafka.Kafka", str(configuration), flags=flags)


def node_properties(
    directory: Path, port: int, controller_port: int, tiered: bool
) -> dict[str, str]:
    """The server.properties of one combined node that keeps everything under `directory`."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(directory / "logs"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    if tiered:
        properties |= tier_properties(directory / "remote")
        properties |= {
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "remote.log.manager.task.interval.ms": "1000",
            "log.retention.check.interval.ms": "1000",
            "log.initial.task.delay.ms": "2000",
        }
    return properties


def tier_properties(remote: Path) -> dict[str, str]:
    """Kafka's LocalTieredStorage in a folder, and the topic-based metadata manager."""
    package = "org.apache.kafka.server.log.remote"
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": f"{package}.storage.LocalTieredStorage",
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(remote),
        "rsm.config.delete.enable": "true",
        "remote.log.metadata.manager.class.name": (
            f"{package}.metadata.storage.TopicBasedRemoteLogMetadataManager"
        ),
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    }


class KafkaNode(BrokerNode):
    """A combined Apache Kafka broker and controller on 127.0.0.1.

    `tiered` uses Kafka's LocalTieredStorage under `<directory>/remote` and the topic-based metadata
    manager.
    """

    def __init__(
        self,
        directory: Path,
        *,
        tiered: bool = False,
        properties: Mapping[str, str] | None = None,
        port: int = 0,
        heap: str = "1g",
    ) -> None:
        super().__init__(directory, port)
        self._heap = heap
        self.controller_port = free_port()
        self._stated = node_properties(directory, self.port, self.controller_port, tiered)
        self._stated |= properties or {}

    def properties(self) -> Mapping[str, str]:
        return self._stated

    def prepare(self, configuration: Path) -> None:
        """Format new storage; this does not count as part of the broker's start."""
        logs = self.directory / "logs"
        logs.mkdir(exist_ok=True)
        if not (logs / "meta.properties").exists():
            cluster_id = uuid_to_string(SystemEnvironment().random_uuid())
            run_tool("kafka-storage", "format", "-t", cluster_id, "-c", str(configuration))

    def command(self, configuration: Path) -> list[str]:
        return server_command(configuration, self._heap)
