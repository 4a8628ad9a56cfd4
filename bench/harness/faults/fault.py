"""What a fault is, and what it finds on the cluster that it is done to.

A fault has a name for the figures, says what the machine lacks for it, prepares each node before
its first start, chooses which nodes it hits, and is done and undone by one call in a thread of its
own. `fault_runner.py` runs them.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ..processes.cluster import Cluster, ClusterNode
from .links import Links


class StoreTrouble(StrEnum):
    """What a remote store does to the requests of brokers."""

    NONE = "none"
    DOWN = "down"
    """It accepts no connection and closes those that there are."""
    SLOW = "slow"
    """Every answer comes seconds late."""
    ERRORS = "errors"
    """It answers a share of the requests with 500 or 503, and does not do them."""
    LOST_ANSWERS = "lost_answers"
    """It does what a request says and closes the connection instead of answering."""


class Store(Protocol):
    """The S3 server of a run, behind a proxy that can make trouble. Runs until it is closed."""

    @property
    def properties(self) -> Mapping[str, str]:
        """What a broker's properties say so that its tier is there, by way of the proxy."""
        ...

    def behave(self, trouble: StoreTrouble) -> None:
        """Behave like this from now on, towards all brokers."""
        ...

    def close(self) -> None:
        """End the server and the proxy."""
        ...


@dataclass(frozen=True, slots=True)
class Grounds:
    """Where a fault takes place, and what it may ask there."""

    cluster: Cluster
    links: Links
    chance: random.Random
    wait: Callable[[float], bool]
    """Wait for so many seconds, or less if the run ends: then it is True, and the fault must undo
    what it did at once."""
    free: Callable[[], list[int]]
    """The nodes that run and that no fault has now, in a random order."""
    calm: Callable[[], bool]
    """Whether all replicas of all partitions are in sync and no other fault is under way. It asks
    every broker, and takes a fraction of a second."""
    store: Store | None = None
    """The remote tier's store; None if the cluster has no tier."""


Nodes = tuple[int, ...]
Act = Callable[[Grounds, Nodes, float], None]


def any_node(grounds: Grounds) -> Nodes:
    """Any node that runs."""
    return tuple(grounds.free()[:1])


def any_two(grounds: Grounds) -> Nodes:
    """Any two nodes that run."""
    free = grounds.free()
    return tuple(free[:2]) if len(free) > 1 else ()


def to_one(act: Callable[[Grounds, ClusterNode, float], None]) -> Act:
    """What is done to the only node that is hit."""
    return lambda grounds, nodes, lasts_s: act(grounds, grounds.cluster.nodes[nodes[0]], lasts_s)


def _nothing_missing() -> str | None:
    return None


def _no_preparation(node: ClusterNode) -> None:
    """Do nothing: it can be done to any node."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. It keeps nothing between calls, which overlap."""

    name: str
    """Its name in figures and on the page: lower case and underscores."""
    says: str
    """What it is, in a sentence."""
    act: Act
    """Do it to these nodes, keep it up for so long (`grounds.wait`), and undo it.

    When it returns, every process that it has stopped was spawned again. The run goes on after an
    exception, which is reported, and starts nodes that do not run."""
    choose: Callable[[Grounds], Nodes] = any_node
    """The nodes to hit, which must all be free; () puts the fault off."""
    is_alone: bool = False
    """Whether it begins only when the cluster is calm, and nothing else before all are in sync
    again. So it is for all that takes away what one replica has acknowledged."""
    missing: Callable[[], str | None] = _nothing_missing
    """One sentence that says what this machine lacks, with the Debian package to install; None if
    the fault can be done."""
    prepare: Callable[[ClusterNode], None] = _no_preparation
    """Before a node's first start: fill its `extra_environment`, or `state` properties."""
