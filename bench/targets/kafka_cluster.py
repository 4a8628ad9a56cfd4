"""A cluster of three Apache Kafka nodes, one of which may lose its disk (KIP-405, test case 3).

Every node is broker and controller. They share one remote tier, a local folder, as brokers share an
object store. Topics have three replicas, and two must be in sync for a write.

    with KafkaCluster(directory) as cluster:
        cluster.stop_and_wipe(2)                    # a clean stop, then an empty disk
        cluster.start_node(2)                       # the same broker id, formatted again
        cluster.is_in_sync("topic")                 # are all replicas in sync again?
"""

import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ...clients.environment import SystemEnvironment
from ...clients.kafka_uuid import uuid_to_string
from ..kafka_peer import KafkaNode, run_tool
from ..probe import NotUpError, free_port

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from ..broker_node import BrokerNode

NODES = 3
_START_SECONDS = 120.0
_ANSWER_SECONDS = 10.0
_POLL_SECONDS = 0.05


def _shared_properties(directory: Path) -> dict[str, str]:
    replicas = str(NODES)
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": str(NODES - 1),
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(NODES - 1),
        "rlmm.config.remote.log.metadata.topic.replication.factor": replicas,
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
        "rsm.config.dir": str(directory / "remote"),
    }


class _ClusterNode(KafkaNode):
    """One node of a cluster, formatted with the cluster's id."""

    def __init__(
        self,
        directory: Path,
        port: int,
        properties: Mapping[str, str],
        cluster_id: str,
        is_brief: bool,
    ) -> None:
        super().__init__(directory, tiered=True, port=port, properties=properties, heap="512m")
        self._cluster_id = cluster_id
        self._is_brief = is_brief

    def environment(self) -> Mapping[str, str] | None:
        if not self._is_brief:
            return super().environment()
        return {**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}

    def prepare(self, configuration: Path) -> None:
        logs = self.directory / "logs"
        logs.mkdir(exist_ok=True)
        if not (logs / "meta.properties").exists():
            run_tool("kafka-storage", "format", "-t", self._cluster_id, "-c", str(configuration))


class KafkaCluster:
    """A cluster that keeps everything under `directory`; see the top of this file.

    A short-lived cluster (`is_brief`) uses only the fast JIT compiler.
    """

    _admin: "AdminClient | None" = None

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        is_brief: bool = False,
    ) -> None:
        self.directory = directory
        cluster_id = uuid_to_string(SystemEnvironment().random_uuid())
        ports = [(free_port(), free_port()) for _ in range(NODES)]
        voters = ",".join(
            f"{number}@127.0.0.1:{controller}" for number, (_, controller) in enumerate(ports, 1)
        )
        self.nodes: dict[int, BrokerNode] = {}
        for number, (port, controller) in enumerate(ports, 1):
            own = {
                "node.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                "controller.quorum.voters": voters,
                **_shared_properties(directory),
                **(properties or {}),
            }
            node_directory = directory / f"node-{number}"
            self.nodes[number] = _ClusterNode(node_directory, port, own, cluster_id, is_brief)

    @property
    def bootstrap(self) -> str:
        """All nodes, so that a client can connect while one of them is down."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> None:
        """Start all nodes at once, because none is up until two have formed a quorum.

        Raises NotUpError, with the broker's log, if one does not come up.
        """
        with ThreadPoolExecutor(NODES) as pool:
            started = [pool.submit(node.start, _START_SECONDS) for node in self.nodes.values()]
        try:
            for each in started:
                each.result()
            self._wait_until_all_know_all()
        except BaseException:
            self.stop()
            raise

    def _wait_until_all_know_all(self) -> None:
        """Wait until all nodes are registered, as topics need a replica on each."""
        began = time.monotonic()
        while len(self._shared_admin().list_topics(timeout=_ANSWER_SECONDS).brokers) < NODES:
            if time.monotonic() - began > _START_SECONDS:
                raise NotUpError("The nodes have not found each other.")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Kill all nodes: in a clean stop, the last two would wait for each other."""
        for node in self.nodes.values():
            node.kill()

    def stop_and_wipe(self, number: int) -> None:
        """Stop a node cleanly and wipe its disk, as when a broken machine is replaced."""
        node = self.nodes[number]
        node.stop()
        shutil.rmtree(node.directory / "logs")

    def start_node(self, number: int) -> float:
        """Start a stopped node; returns the seconds to its first response, without formatting."""
        return self.nodes[number].start(_START_SECONDS)

    def is_in_sync(self, topic: str) -> bool:
        """Whether all replicas of every partition of the topic are in sync."""
        from confluent_kafka import KafkaException

        try:
            partitions = (
                self._shared_admin().list_topics(timeout=_ANSWER_SECONDS).topics[topic].partitions
            )
        except KafkaException:
            # The node has just stopped or started: the next check tries again.
            return False
        return bool(partitions) and all(
            len(each.isrs) == len(each.replicas) for each in partitions.values()
        )

    def _shared_admin(self) -> "AdminClient":
        """The admin client for the cluster's metadata."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            # Do not log that a stopped broker is unreachable.
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        return self._admin

    def local_bytes(self, number: int, topic: str) -> int:
        """The bytes of the topic's log on a node's own disk."""
        logs = self.nodes[number].directory / "logs"
        return sum(path.stat().st_size for path in logs.glob(f"{topic}-*/*.log"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
