"""Three nodes with the links between them in the hands of a test."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..cluster import Cluster, Kind, combined
from ..probe import free_port
from .links import Links

NODES = 3
REPLICAS = 3
MIN_IN_SYNC = 2
PROPERTIES: Mapping[str, str] = {
    "default.replication.factor": str(REPLICAS),
    "min.insync.replicas": str(MIN_IN_SYNC),
    "offsets.topic.replication.factor": str(REPLICAS),
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": str(REPLICAS),
    "transaction.state.log.min.isr": str(MIN_IN_SYNC),
    "transaction.state.log.num.partitions": "6",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "inter.broker.listener.name": "REPLICATION",
}
"""Every partition has three replicas, and acks=all needs two of them."""


class ChaosCluster(NamedTuple):
    """A cluster and its links."""

    cluster: Cluster
    links: Links


@contextmanager
def chaos_cluster(
    directory: Path, kind: Kind, properties: Mapping[str, str] | None = None
) -> Generator[ChaosCluster, None, None]:
    """Three combined nodes, up; brokers and controllers reach each other by way of proxies.

    Raises NotUpError.
    """
    kinds: list[Kind] = [kind] * NODES
    cluster = Cluster(directory, combined(*kinds), {**PROPERTIES, **(properties or {})})

    def pids() -> dict[int, int]:
        return {node.node_id: node.pid for node in cluster.nodes.values() if node.is_alive()}

    with Links(pids) as links:
        voters: list[str] = []
        for node in cluster.nodes.values():
            replication, proxy, controller_proxy = free_port(), free_port(), free_port()
            links.lead_to(node.node_id, proxy, replication)
            links.lead_to(node.node_id, controller_proxy, node.controller_port)
            voters.append(f"{node.node_id}@127.0.0.1:{controller_proxy}")
            clients = f"PLAINTEXT://127.0.0.1:{node.port}"
            node.state(
                {
                    "listeners": (
                        f"{clients},REPLICATION://127.0.0.1:{replication},"
                        f"CONTROLLER://127.0.0.1:{node.controller_port}"
                    ),
                    "advertised.listeners": f"{clients},REPLICATION://127.0.0.1:{proxy}",
                }
            )
        for node in cluster.nodes.values():
            node.state({"controller.quorum.voters": ",".join(voters)})
        with cluster:
            cluster.wait_until_caught_up()
            yield ChaosCluster(cluster, links)
