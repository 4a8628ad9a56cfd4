"""Three nodes of one kind that share a tier, one of which may lose its disk (KIP-405, case 3).

Every node is broker and controller. The tier is a local folder, as brokers share an object store:
Kafka's LocalTieredStorage, or tierlog's own. Topics have three replicas, and two must be in sync
for a write.

    with TieredCluster(directory, "tierlog") as cluster:
        cluster.stop_and_wipe(2)                    # a clean stop, then an empty disk
        cluster.start_node(2)                       # the same broker id, formatted again
        cluster.is_in_sync("topic")                 # are all replicas in sync again?
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ..processes.cluster import Cluster, Kind, combined
from ..processes.kafka_peer import tier_properties
from ..processes.live_files import live_paths, size_of
from ..requests.wire import partitions_at

NODES = 3
_START_S = 120.0
_STOP_S = 120.0
_ASK_S = 5.0


def _properties(kind: Kind, remote: Path, often: Mapping[str, str]) -> dict[str, str]:
    tier = tier_properties(remote)
    if kind == "tierlog":
        tier = {
            "remote.log.storage.system.enable": "true",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rsm.config.url": remote.resolve().as_uri(),
        }
    return {
        **tier,
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(NODES),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
        "min.insync.replicas": str(NODES - 1),
        **often,
    }


class TieredCluster:
    """A cluster that keeps everything under `directory`; see the top of this file."""

    def __init__(
        self,
        directory: Path,
        kind: Kind,
        properties: Mapping[str, str],
        *,
        is_brief: bool = False,
    ) -> None:
        """A short-lived cluster of Kafka (`is_brief`) uses only the fast JIT compiler."""
        stated = _properties(kind, directory / "remote", properties)
        self._cluster = Cluster(directory, combined(kind, kind, kind), stated)
        for node in self._cluster.nodes.values():
            node.java_options = "-XX:TieredStopAtLevel=1" if is_brief else ""

    @property
    def bootstrap(self) -> str:
        """All nodes, so that a client can connect while one of them is down."""
        return self._cluster.bootstrap

    def log_tails(self) -> str:
        """The last lines that each node has printed."""
        return self._cluster.log_tails()

    def stop_and_wipe(self, number: int) -> None:
        """Stop a node cleanly and wipe its disk, as when a broken machine is replaced."""
        node = self._cluster.nodes[number]
        node.stop(_STOP_S)
        shutil.rmtree(node.log_directory)

    def start_node(self, number: int) -> float:
        """Format and start a wiped node; returns the seconds until it is unfenced, without those
        of formatting."""
        node = self._cluster.nodes[number]
        node.prepare(node.write_properties())
        return node.start(_START_S)

    def is_in_sync(self, topic: str) -> bool:
        """Whether the first node says that all replicas of all partitions are in sync."""
        partitions = partitions_at(self._cluster.nodes[1].bootstrap, [topic], _ASK_S).values()
        return bool(partitions) and all(
            len(partition.isr_nodes) == NODES for partition in partitions
        )

    def local_bytes(self, topic: str) -> list[int]:
        """The bytes of the topic's log on each node's own disk."""
        nodes = self._cluster.nodes.values()
        return [size_of(live_paths(node.log_directory, f"{topic}-*/*.log")) for node in nodes]

    def __enter__(self) -> Self:
        self._cluster.start()
        self._cluster.wait_until_caught_up()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.kill()
