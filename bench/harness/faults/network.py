"""Faults of links: between two nodes, around one node, and between clients and a node.

Links lead through the proxies of `links.py`. Where a node has none in front of its listener of
clients, nothing that a fault does to that link has any effect.
"""

import time
from collections.abc import Callable, Sequence

from .fault import Fault, Grounds, Nodes, any_node, any_two
from .links import CLIENTS

_DELAYS_S = (0.05, 0.5)
_DRIPS_BYTES_PER_S = (500.0, 5_000.0)
_RESETS_APART_S = (0.2, 2.0)

Ends = tuple[int, int]


def _pair(grounds: Grounds, nodes: Nodes) -> Sequence[Ends]:
    """The link between two nodes."""
    return [(nodes[0], nodes[1])]


def _around(grounds: Grounds, nodes: Nodes) -> Sequence[Ends]:
    """The links between a node and all others, controllers and brokers."""
    return [(nodes[0], other) for other in grounds.cluster.nodes if other != nodes[0]]


def _clients(grounds: Grounds, nodes: Nodes) -> Sequence[Ends]:
    """The link between all clients and a node."""
    return [(CLIENTS, nodes[0])]


def _cut(grounds: Grounds, one: int, other: int) -> None:
    grounds.links.cut(one, other)


def _cut_there(grounds: Grounds, one: int, other: int) -> None:
    """Nothing passes from the first end to the second."""
    grounds.links.cut_one_way(one, other)


def _cut_back(grounds: Grounds, one: int, other: int) -> None:
    """Nothing passes from the second end to the first."""
    grounds.links.cut_one_way(other, one)


def _delay(grounds: Grounds, one: int, other: int) -> None:
    grounds.links.delay(one, other, grounds.chance.uniform(*_DELAYS_S))


def _drip(grounds: Grounds, one: int, other: int) -> None:
    grounds.links.drip(one, other, grounds.chance.uniform(*_DRIPS_BYTES_PER_S))


def _reset(grounds: Grounds, one: int, other: int) -> None:
    grounds.links.reset(one, other)


def _link_fault(
    name: str,
    reach: Callable[[Grounds, Nodes], Sequence[Ends]],
    trouble: Callable[[Grounds, int, int], None],
    says: str,
) -> Fault:
    """One trouble with the links of one reach."""

    def act(grounds: Grounds, nodes: Nodes, lasts_s: float) -> None:
        links = reach(grounds, nodes)
        over = time.monotonic() + lasts_s
        try:
            while True:
                for one, other in links:
                    trouble(grounds, one, other)
                if trouble is not _reset:
                    grounds.wait(lasts_s)
                    return
                # A reset is over at once, and comes again.
                if time.monotonic() >= over or grounds.wait(
                    grounds.chance.uniform(*_RESETS_APART_S)
                ):
                    return
        finally:
            for one, other in links:
                grounds.links.heal(one, other)

    return Fault(name, says, act, any_two if reach is _pair else any_node)


CUT = _link_fault("cut", _pair, _cut, "Two nodes do not reach each other.")

NETWORK_FAULTS: Sequence[Fault] = (
    CUT,
    _link_fault(
        "cut_one_way",
        _pair,
        _cut_there,
        "Nothing that one node sends reaches another, which it still hears.",
    ),
    _link_fault("isolated", _around, _cut, "A node reaches no other node; clients reach it."),
    _link_fault(
        "mute",
        _around,
        _cut_there,
        "Nothing that a node sends reaches another node; it hears all.",
    ),
    _link_fault(
        "deaf",
        _around,
        _cut_back,
        "Nothing that other nodes send reaches a node; all hear it.",
    ),
    _link_fault(
        "delay",
        _around,
        _delay,
        "What a node and the others send to each other comes 0.05 to 0.5 s late.",
    ),
    _link_fault(
        "drip",
        _around,
        _drip,
        "A node's connections with others pass 500 to 5,000 bytes a second.",
    ),
    _link_fault(
        "reset",
        _around,
        _reset,
        "A node's connections with others are reset (TCP RST), again and again.",
    ),
    _link_fault("clients_cut", _clients, _cut, "Clients do not reach a node."),
    _link_fault(
        "clients_unanswered",
        _clients,
        _cut_back,
        "A node gets the requests of clients, and they do not get its answers.",
    ),
    _link_fault(
        "clients_delay",
        _clients,
        _delay,
        "Requests to a node and its answers come 0.05 to 0.5 s late.",
    ),
    _link_fault(
        "clients_drip",
        _clients,
        _drip,
        "Each client's connection with a node passes 500 to 5,000 bytes a second.",
    ),
    _link_fault(
        "clients_reset",
        _clients,
        _reset,
        "Clients' connections with a node are reset (TCP RST), again and again.",
    ),
)
"""The profile `network`."""
