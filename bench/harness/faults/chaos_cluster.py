"""Nodes with the links between them in the hands of a test."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..processes.cluster import Cluster, ClusterNode, Kind, combined
from ..requests.probe import free_port
from .links import CLIENTS, Links

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
    bootstrap: str
    """For clients: by way of proxies, where there are any for them."""


@contextmanager
def chaos_cluster(
    directory: Path,
    kind: Kind,
    properties: Mapping[str, str] | None = None,
    *,
    nodes: int = NODES,
    has_client_links: bool = False,
    prepare: Callable[[ClusterNode], None] = lambda node: None,
) -> Generator[ChaosCluster, None, None]:
    """Combined nodes, up; brokers and controllers reach each other by way of proxies.

    With `has_client_links` clients reach brokers by way of proxies, too, once they have asked for
    the metadata. `prepare` gets each node before its first start. Raises NotUpError.
    """
    kinds: list[Kind] = [kind] * nodes
    cluster = Cluster(directory, combined(*kinds), {**PROPERTIES, **(properties or {})})

    def pids() -> dict[int, int]:
        return {node.node_id: node.pid for node in cluster.nodes.values() if node.is_alive()}

    with Links(pids) as links:
        voters: list[str] = []
        advertised: list[str] = []
        for node in cluster.nodes.values():
            controller_proxy = free_port()
            links.lead_to(node.node_id, controller_proxy, node.controller_port)
            voters.append(f"{node.node_id}@127.0.0.1:{controller_proxy}")
            advertised.append(_state_listeners(node, links, has_client_links))
        for node in cluster.nodes.values():
            node.state({"controller.quorum.voters": ",".join(voters)})
            prepare(node)
        with cluster:
            cluster.wait_until_caught_up()
            yield ChaosCluster(cluster, links, ",".join(advertised))


def _state_listeners(node: ClusterNode, links: Links, has_client_links: bool) -> str:
    """State a node's listeners and their proxies; returns the address for clients."""
    replication, proxy = free_port(), free_port()
    links.lead_to(node.node_id, proxy, replication)
    for_clients = node.port
    if has_client_links:
        for_clients = free_port()
        links.lead_to(node.node_id, for_clients, node.port, CLIENTS)
    node.state(
        {
            "listeners": (
                f"PLAINTEXT://127.0.0.1:{node.port},REPLICATION://127.0.0.1:{replication},"
                f"CONTROLLER://127.0.0.1:{node.controller_port}"
            ),
            "advertised.listeners": (
                f"PLAINTEXT://127.0.0.1:{for_clients},REPLICATION://127.0.0.1:{proxy}"
            ),
        }
    )
    return f"127.0.0.1:{for_clients}"
