"""Faults of links: between two nodes, around one node, and between clients and a node.

Links lead through the proxies of `bench/chaos/links.py`. Where a node has none in front of its
listener of clients, nothing that a fault does to that link has any effect.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ...chaos.links import CLIENTS
from ...cluster import ClusterNode
from ..fault import Fault, Grounds

_DELAYS_S = (0.05, 0.5)
_DRIPS_BYTES_PER_S = (500.0, 5_000.0)
_RESETS_APART_S = (0.2, 2.0)

Ends = tuple[int, int]


class Reach(Enum):
    """Which links are affected."""

    PAIR = auto()
    """That between two nodes."""
    AROUND = auto()
    """Those between a node and all others, controllers and brokers."""
    CLIENTS = auto()
    """That between all clients and a node."""


class Trouble(Enum):
    """What happens to a link, as a pair of ends."""

    CUT = auto()
    CUT_THERE = auto()
    """Nothing passes from the first end to the second."""
    CUT_BACK = auto()
    """Nothing passes from the second end to the first."""
    DELAY = auto()
    DRIP = auto()
    RESET = auto()


@dataclass(frozen=True, slots=True)
class LinkFault:
    """One trouble with the links of one reach."""

    name: str
    reach: Reach
    trouble: Trouble
    says: str
    is_alone: bool = False

    def missing(self) -> str | None:
        return None

    def prepare(self, node: ClusterNode) -> None:
        """Do nothing: the proxies are there before the nodes start."""

    def choose(self, grounds: Grounds) -> tuple[int, ...]:
        """Any nodes that run: two for a pair, else one."""
        count = 2 if self.reach is Reach.PAIR else 1
        nodes = grounds.free()[:count]
        return tuple(nodes) if len(nodes) == count else ()

    def act(self, grounds: Grounds, nodes: tuple[int, ...], lasts_s: float) -> None:
        links = self._links(grounds, nodes)
        for one, other in links:
            self._begin(grounds, one, other)
        try:
            if self.trouble is Trouble.RESET:
                _reset_often(grounds, links, lasts_s)
            else:
                grounds.wait(lasts_s)
        finally:
            for one, other in links:
                grounds.links.heal(one, other)

    def _links(self, grounds: Grounds, nodes: tuple[int, ...]) -> Sequence[Ends]:
        if self.reach is Reach.CLIENTS:
            return [(CLIENTS, nodes[0])]
        if self.reach is Reach.PAIR:
            return [(nodes[0], nodes[1])]
        return [(nodes[0], other) for other in grounds.cluster.nodes if other != nodes[0]]

    def _begin(self, grounds: Grounds, one: int, other: int) -> None:
        links = grounds.links
        match self.trouble:
            case Trouble.CUT:
                links.cut(one, other)
            case Trouble.CUT_THERE:
                links.cut_one_way(one, other)
            case Trouble.CUT_BACK:
                links.cut_one_way(other, one)
            case Trouble.DELAY:
                links.delay(one, other, grounds.chance.uniform(*_DELAYS_S))
            case Trouble.DRIP:
                links.drip(one, other, grounds.chance.uniform(*_DRIPS_BYTES_PER_S))
            case Trouble.RESET:
                links.reset(one, other)


def _reset_often(grounds: Grounds, links: Sequence[Ends], lasts_s: float) -> None:
    over = time.monotonic() + lasts_s
    while time.monotonic() < over:
        if grounds.wait(grounds.chance.uniform(*_RESETS_APART_S)):
            return
        for one, other in links:
            grounds.links.reset(one, other)


CUT = LinkFault("cut", Reach.PAIR, Trouble.CUT, "Two nodes do not reach each other.")

FAULTS: Sequence[Fault] = (
    CUT,
    LinkFault(
        "cut_one_way",
        Reach.PAIR,
        Trouble.CUT_THERE,
        "Nothing that one node sends reaches another, which it still hears.",
    ),
    LinkFault(
        "isolated", Reach.AROUND, Trouble.CUT, "A node reaches no other node; clients reach it."
    ),
    LinkFault(
        "mute",
        Reach.AROUND,
        Trouble.CUT_THERE,
        "Nothing that a node sends reaches another node; it hears all.",
    ),
    LinkFault(
        "deaf",
        Reach.AROUND,
        Trouble.CUT_BACK,
        "Nothing that other nodes send reaches a node; all hear it.",
    ),
    LinkFault(
        "delay",
        Reach.AROUND,
        Trouble.DELAY,
        "What a node and the others send to each other comes 0.05 to 0.5 s late.",
    ),
    LinkFault(
        "drip",
        Reach.AROUND,
        Trouble.DRIP,
        "A node's connections with others pass 500 to 5,000 bytes a second.",
    ),
    LinkFault(
        "reset",
        Reach.AROUND,
        Trouble.RESET,
        "A node's connections with others are reset (TCP RST), again and again.",
    ),
    LinkFault("clients_cut", Reach.CLIENTS, Trouble.CUT, "Clients do not reach a node."),
    LinkFault(
        "clients_unanswered",
        Reach.CLIENTS,
        Trouble.CUT_BACK,
        "A node gets the requests of clients, and they do not get its answers.",
    ),
    LinkFault(
        "clients_delay",
        Reach.CLIENTS,
        Trouble.DELAY,
        "Requests to a node and its answers come 0.05 to 0.5 s late.",
    ),
    LinkFault(
        "clients_drip",
        Reach.CLIENTS,
        Trouble.DRIP,
        "Each client's connection with a node passes 500 to 5,000 bytes a second.",
    ),
    LinkFault(
        "clients_reset",
        Reach.CLIENTS,
        Trouble.RESET,
        "Clients' connections with a node are reset (TCP RST), again and again.",
    ),
)
"""The profile `network`."""
