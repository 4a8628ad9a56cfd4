"""A target of several processes that are one cluster: every node is controller and broker.

Its usage is the sum over all nodes. Topics are made by the scenario, which says how many replicas
they have; there is no tier.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..processes.broker_node import BrokerNode
from ..processes.cluster import Cluster, Kind, combined, kind_of
from ..processes.process_usage import Usage, read_usage
from .node_target import topic_config
from .target import Target, TargetUnavailableError

_UP_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class SeveralNodes:
    """A `RunningTarget`; see the top of this file."""

    name: str
    directory: Path
    cluster: Cluster
    node: BrokerNode | None = None
    """None: a cluster is not one process."""

    @classmethod
    def prepare(
        cls, target: Target, directory: Path, properties: Mapping[str, str], nodes: int
    ) -> "SeveralNodes":
        """A cluster of a target's software that keeps everything under `directory`."""
        kinds: list[Kind] = [kind_of(target.name)] * nodes
        return cls(target.name, directory, Cluster(directory, combined(*kinds), properties))

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def start(self) -> float:
        """Start all; returns the seconds until the last one is unfenced."""
        seconds = max(self.cluster.start(_UP_WITHIN_S).values())
        self.cluster.wait_until_caught_up()
        return seconds

    def stop(self) -> None:
        self.cluster.stop()

    def kill(self) -> None:
        self.cluster.kill()

    def is_alive(self) -> bool:
        return all(node.is_alive() for node in self.cluster.nodes.values())

    def pids(self) -> tuple[int, ...]:
        return tuple(node.pid for node in self.cluster.nodes.values() if node.is_alive())

    def usage(self) -> Usage | None:
        used = [read_usage(node.pid) for node in self.cluster.nodes.values()]
        return Usage(*map(sum, zip(*used, strict=True)))

    def topic_config(self, tiered: bool) -> dict[str, str]:
        return topic_config(tiered)

    def bytes_in_tier(self, topic: str) -> int:
        raise TargetUnavailableError(
            f"a cluster of {self.name} has no tier here, so none of {topic}"
        )

    def log_tail(self) -> str:
        return self.cluster.log_tails()

    def discard(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
