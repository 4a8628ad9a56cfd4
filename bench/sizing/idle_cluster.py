"""What is measured of a cluster that no client uses: memory, CPU and files of its nodes, times."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...clients.errors import ErrorCode
from ...clients.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...clients.protocol.messages.metadata import MetadataResponsePartition
from ..harness.measurement_error import MeasurementError
from ..harness.processes.cluster import METADATA_LOG, Cluster, ClusterNode
from ..harness.processes.live_files import live_paths, size_of
from ..harness.processes.process_usage import read_usage
from ..harness.requests.wire import Wire, partitions_at, refuse

_ASK_S = 20.0
_WAIT_S = 120.0
_POLL_S = 0.02
_CREATE_VERSION = 5
_PARTITIONS_A_REQUEST = 500
"""Kafka does not take many more in one request."""


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """One node: resident bytes, open files, and CPU cores while nothing was asked of it."""

    resident_bytes: int
    open_files: int
    idle_cores: float


def watch(cluster: Cluster, seconds: float) -> Mapping[int, NodeFigures]:
    """Look at all nodes that run, for so long."""
    nodes = [node for node in cluster.nodes.values() if node.is_alive()]
    before = {node.node_id: read_usage(node.pid).cpu_seconds for node in nodes}
    began = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    figures: dict[int, NodeFigures] = {}
    for node in nodes:
        usage = read_usage(node.pid)
        cores = (usage.cpu_seconds - before[node.node_id]) / took
        figures[node.node_id] = NodeFigures(usage.resident_bytes, _open_files(node), cores)
    return figures


def _open_files(node: ClusterNode) -> int:
    return len(os.listdir(f"/proc/{node.pid}/fd"))


def tier_of(remote: Path) -> dict[str, str]:
    """The properties of nodes that share a tier in a folder."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rsm.config.url": remote.resolve().as_uri(),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    }


def metadata_log_bytes(node: ClusterNode) -> int:
    """The bytes of a node's metadata log and its snapshots."""
    return size_of(live_paths(node.log_directory / METADATA_LOG, "*.log"))


def create_topics(
    node: ClusterNode, prefix: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> None:
    """Create topics with so many partitions together. Raises WireError."""
    for first in range(0, partitions, _PARTITIONS_A_REQUEST):
        size = min(_PARTITIONS_A_REQUEST, partitions - first)
        name = f"{prefix}{first // _PARTITIONS_A_REQUEST}"
        _create(
            node,
            CreatableTopic(name=name, num_partitions=size, replication_factor=replicas),
            configs,
        )


def create_placed_topic(
    node: ClusterNode, name: str, brokers: Sequence[int], configs: Mapping[str, str]
) -> None:
    """Create a topic of one partition on these brokers, led by the first. Raises WireError."""
    placed = CreatableReplicaAssignment(partition_index=0, broker_ids=list(brokers))
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[placed]
    )
    _create(node, topic, configs)


def _create(node: ClusterNode, topic: CreatableTopic, configs: Mapping[str, str]) -> None:
    topic.configs = [CreatableTopicConfig(name=name, value=configs[name]) for name in configs]
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(_WAIT_S * 1000))
    with Wire(node.bootstrap, _WAIT_S) as wire:
        (created,) = wire.ask(request, _CREATE_VERSION, CreateTopicsResponse).topics
    # The cluster is new: a topic that exists was created by an attempt of its broker, whose answer
    # was lost.
    if created.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
        refuse(f"CreateTopics of {topic.name}", created.error_code)


def partitions_of(node: ClusterNode, topic_prefix: str) -> Sequence[MetadataResponsePartition]:
    """All partitions of topics with that prefix, as the node's Metadata has them; none if it does
    not answer."""
    there = partitions_at(node.bootstrap, None, _ASK_S)
    return [partition for (topic, _), partition in there.items() if topic.startswith(topic_prefix)]


def wait_until_in_sync(
    node: ClusterNode, topic_prefix: str, partitions: int, replicas: int
) -> None:
    """Wait until all replicas of so many partitions are in sync. Raises MeasurementError."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        seen = partitions_of(node, topic_prefix)
        if len(seen) == partitions and all(
            len(partition.isr_nodes) == replicas for partition in seen
        ):
            return
        time.sleep(_POLL_S)
    raise MeasurementError(f"Not all of {partitions} partitions were in sync within {_WAIT_S:g} s.")


@dataclass(frozen=True, slots=True)
class Failover:
    """A broker's death: its partitions, and seconds until the last of them had another leader."""

    led: int
    last_s: float


def fail_over(cluster: Cluster, victim: ClusterNode, topic_prefix: str) -> Failover:
    """Kill a broker, and wait until others lead its partitions.

    It must not be the active controller, whose own election would count as well. Raises
    MeasurementError.
    """
    witness = next(node for node in cluster.brokers if node is not victim)
    led = _led_by(partitions_of(witness, topic_prefix), victim.node_id)
    victim.kill()
    began = time.monotonic()
    while time.monotonic() - began < _WAIT_S:
        seen = partitions_of(witness, topic_prefix)
        now = time.monotonic() - began
        if seen and not _led_by(seen, victim.node_id):
            return Failover(led, now)
        time.sleep(_POLL_S)
    raise MeasurementError(f"Some of {led} partitions had no leader after {_WAIT_S:g} s.")


def _led_by(partitions: Sequence[MetadataResponsePartition], node_id: int) -> int:
    """Partitions that this broker leads, or that have no leader."""
    return sum(partition.leader_id in {node_id, -1} for partition in partitions)
