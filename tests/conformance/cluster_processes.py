"""Clusters of several processes, of Apache Kafka and of ours, and tools that look at both.

What each cluster draws or measures for itself is masked: ports by the node that has them, ids, and
which node leads. What a tool prints must be the same whichever node it is sent to, and the same of
both clusters.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tierlog.bench.harness.processes.cluster import Cluster, Kind, Seat

from ..waiting import wait_until
from .many_tools import ManyTools, Said

Seats = Callable[[Kind], Mapping[int, Seat]]
Masks = Sequence[tuple[str, str]]

MASKS: Masks = (
    (r"\b[A-Za-z0-9_-]{22}\b", "AN-ID"),
    # Where one replica goes is drawn; that it leads and is in sync is not.
    (r"Leader: (\d+)\tReplicas: \1\tIsr: \1\b", "Leader: X\tReplicas: X\tIsr: X"),
    (r" {2,}", "  "),
)


class Pair(NamedTuple):
    """A cluster of Kafka and one of ours, from the same properties."""

    kafka: Cluster
    ours: Cluster


class ToolsOnClusters:
    """The same tool asked of both clusters, at one node or at every one."""

    def __init__(self, tools: ManyTools, pair: Pair, masks: Masks = MASKS) -> None:
        self._tools = tools
        self._masks = masks
        self.pair = pair

    @property
    def brokers(self) -> list[int]:
        """The ids of the brokers, which both clusters share."""
        return [node.node_id for node in self.pair.kafka.brokers]

    def said_at(self, node_id: int, tool: str, *arguments: str) -> tuple[Said, Said]:
        """What a tool says of Kafka and of us when it is sent to that node."""
        kafka, ours = (
            self._tools.run(tool, *_sent_to(cluster, node_id, tool, arguments))
            for cluster in self.pair
        )
        return kafka, ours

    def same_at(
        self, node_id: int, tool: str, *arguments: str, masks: Masks = (), ordered: bool = True
    ) -> str:
        """Assert that it says the same of both, but for what is masked; what it says.

        Lines that are not `ordered` come in the order of a hash table, and are sorted.
        """
        said = self.said_at(node_id, tool, *arguments)
        kafka, ours = (
            masked(each, cluster, (*self._masks, *masks))
            for each, cluster in zip(said, self.pair, strict=True)
        )
        if not ordered:
            kafka, ours = ("\n".join(sorted(text.splitlines())) for text in (kafka, ours))
        assert ours == kafka, (
            f"{tool} {' '.join(arguments)} at node {node_id}: of Kafka it says\n{kafka}\n"
            f"and of us\n{ours}"
        )
        return ours

    def same_everywhere(
        self, tool: str, *arguments: str, masks: Masks = (), ordered: bool = True
    ) -> str:
        """The same at every broker, and all brokers say the same."""
        texts = {
            self.same_at(node_id, tool, *arguments, masks=masks, ordered=ordered)
            for node_id in self.brokers
        }
        assert len(texts) == 1, f"The brokers differ: {texts}"
        return texts.pop()

    def wait_until_said(self, line: str, tool: str, *arguments: str) -> None:
        """Wait until every broker of both says so: a change reaches one after the other."""
        for node_id in self.brokers:
            self._wait_until_said_at(node_id, line, tool, *arguments)

    def _wait_until_said_at(self, node_id: int, line: str, tool: str, *arguments: str) -> None:
        def last() -> list[str]:
            return [said.text for said in self.said_at(node_id, tool, *arguments)]

        wait_until(lambda: all(line in text for text in last()), 180, lambda: f"{line!r} {last()}")


def masked(said: Said, cluster: Cluster, masks: Masks) -> str:
    """What a tool said, with ports by their nodes and with masks."""
    text = said.text
    for node in cluster.nodes.values():
        text = re.sub(rf"\b{node.port}\b", f"PORT-{node.node_id}", text)
        text = re.sub(rf"\b{node.controller_port}\b", f"CONTROLLER-{node.node_id}", text)
    for pattern, instead in masks:
        text = re.sub(pattern, instead, text)
    return text if said.code == 0 else f"{text}exit code {said.code}\n"


def _sent_to(cluster: Cluster, node_id: int, tool: str, arguments: Sequence[str]) -> Sequence[str]:
    """The arguments with the address of a node: of its clients' listener, if it has one."""
    node = cluster.nodes[node_id]
    if node.is_broker and "@controller" not in arguments:
        server = ("--bootstrap-server", node.bootstrap)
    else:
        server = ("--bootstrap-controller", f"127.0.0.1:{node.controller_port}")
    words = tuple(word for word in arguments if word != "@controller")
    # This one wants its command first; the others that have commands want them last.
    before = 1 if tool == "kafka-cluster" else 0
    return (*words[:before], *server, *words[before:])


@contextmanager
def both_clusters(
    directory: Path, seats: Seats, properties: Mapping[str, str] | None = None
) -> Generator[ToolsOnClusters, None, None]:
    """A cluster of Kafka and one of ours with the same seats, both up; and the tools."""
    kafka = Cluster(directory / "kafka", seats("kafka"), properties)
    ours = Cluster(directory / "ours", seats("tierlog"), properties)
    with ours, kafka, ManyTools() as tools:
        for cluster in (kafka, ours):
            cluster.wait_until_caught_up()
        yield ToolsOnClusters(tools, Pair(kafka, ours))
