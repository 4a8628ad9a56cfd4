"""What a local cluster consists of: its nodes, their roles and ports, and their properties.

The plan is kept in `cluster.json` in the cluster's directory, so that the same directory starts
again as the same cluster, at the same ports. Nothing here does I/O.

Brokers have the ids 1, 2, 3, … Without controllers of their own, the first brokers are controllers
too: all of two, three of three or four, five of five or more. Voters never change
(`controller.quorum.voters`), so a broker that is added later is a broker only.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

BROKERS_MAX = 50
CONTROLLERS_MAX = 7
FIRST_CONTROLLER_ID = 101
"""The id of the first controller that is not a broker; brokers have lower ones."""

_COMBINED_VOTERS = {1: 1, 2: 2, 3: 3, 4: 3}
_COMBINED_VOTERS_MAX = 5
_VERSION = 1
_PORT_MAX = 65535
_TEXT_MAX = 4096
_STATED_MAX = 500

DECIDED_HERE = frozenset(
    {
        *("node.id", "broker.id", "process.roles", "log.dirs", "log.dir", "metadata.log.dir"),
        *("listeners", "advertised.listeners", "listener.security.protocol.map"),
        *("controller.listener.names", "inter.broker.listener.name"),
        *("controller.quorum.voters", "controller.quorum.bootstrap.servers"),
        "broker.rack",
    }
)
"""Properties that the cluster gives each node; a user cannot state them."""


class PlanError(Exception):
    """The arguments, or a cluster's file, do not describe a cluster; the text is one sentence."""


class Seat(NamedTuple):
    """A node of the cluster. A port is 0 until one is chosen, or if the node has no such one."""

    node_id: int
    is_broker: bool
    is_controller: bool
    rack: str = ""
    port: int = 0
    controller_port: int = 0

    @property
    def name(self) -> str:
        """The name that output lines begin with."""
        return f"{'broker' if self.is_broker else 'controller'}-{self.node_id}"

    @property
    def roles(self) -> tuple[str, ...]:
        """The value of `process.roles`."""
        roles = (("broker", self.is_broker), ("controller", self.is_controller))
        return tuple(name for name, has in roles if has)

    @property
    def address(self) -> str:
        """Where clients connect; empty for a controller that is no broker."""
        return f"127.0.0.1:{self.port}" if self.is_broker else ""


class ClusterPlan(NamedTuple):
    """All nodes, by id, and what the user has stated for each of them."""

    cluster_id: str
    seats: Mapping[int, Seat]
    next_id: int
    """The id of the next broker that is added; ids are never used twice."""
    stated: Mapping[str, str] = MappingProxyType({})

    @property
    def brokers(self) -> list[Seat]:
        return [seat for seat in self.seats.values() if seat.is_broker]

    @property
    def controllers(self) -> list[Seat]:
        return [seat for seat in self.seats.values() if seat.is_controller]

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients."""
        return ",".join(seat.address for seat in self.brokers)

    @property
    def is_one_process(self) -> bool:
        """Whether the only process is broker and controller; it accepts no other broker."""
        return len(self.seats) == 1

    def added_seat(self, rack: str) -> Seat:
        """The next broker, without a port; the plan does not have it yet. Raises PlanError."""
        if len(self.brokers) >= BROKERS_MAX:
            raise PlanError(f"A local cluster has at most {BROKERS_MAX} brokers.")
        if self.next_id >= FIRST_CONTROLLER_ID:
            raise PlanError(
                "All ids of brokers have been used: they are never used twice. Begin a new cluster"
                " in another directory."
            )
        return Seat(self.next_id, True, False, rack)

    def with_seat(self, seat: Seat) -> "ClusterPlan":
        """The plan with this node, new or changed."""
        next_id = max(self.next_id, seat.node_id + 1) if seat.is_broker else self.next_id
        return self._replace(seats={**self.seats, seat.node_id: seat}, next_id=next_id)

    def stating(self, stated: Mapping[str, str]) -> "ClusterPlan":
        """The plan with these properties for every node instead of those before."""
        return self._replace(stated=dict(stated))

    def without(self, node_id: int) -> "ClusterPlan":
        """The plan without a node."""
        return self._replace(
            seats={each: seat for each, seat in self.seats.items() if each != node_id}
        )


def new_plan(
    cluster_id: str, brokers: int, controllers: int, racks: Sequence[str] = ()
) -> ClusterPlan:
    """A cluster that has no ports yet. Raises PlanError."""
    if not 1 <= brokers <= BROKERS_MAX:
        raise PlanError(f"--brokers {brokers}: a local cluster has 1 to {BROKERS_MAX} brokers.")
    if not 0 <= controllers <= CONTROLLERS_MAX:
        raise PlanError(
            f"--controllers {controllers}: a local cluster has 0 to {CONTROLLERS_MAX} controllers"
            " that are no brokers."
        )
    voters = 0 if controllers else _COMBINED_VOTERS.get(brokers, _COMBINED_VOTERS_MAX)
    ids = range(1, brokers + 1)
    seats = [Seat(each, True, each <= voters, rack_of(each, racks)) for each in ids]
    seats += [Seat(FIRST_CONTROLLER_ID + at, False, True) for at in range(controllers)]
    return ClusterPlan(cluster_id, {seat.node_id: seat for seat in seats}, brokers + 1)


def rack_of(node_id: int, racks: Sequence[str]) -> str:
    """The rack of a broker: racks are given out in turn."""
    return racks[(node_id - 1) % len(racks)] if racks else ""


def check_directory(directory: str) -> None:
    """Refuse a path that no properties file can name. Raises PlanError."""
    if "," in directory or not directory.isprintable():
        raise PlanError(
            f"The directory {directory!r} cannot have a cluster: log.dirs is a list in which commas"
            " separate paths. Choose another one with --dir."
        )


def check_stated(stated: Mapping[str, str]) -> None:
    """Refuse properties that the cluster decides, or no file can have. Raises PlanError."""
    for name, value in stated.items():
        if not _is_utf8(name) or not _is_utf8(value):
            raise PlanError(f"The property {name!r} is not UTF-8 text.")
        if name in DECIDED_HERE:
            raise PlanError(
                f"The property {name} cannot be set: `tierlog cluster` gives each node its own."
            )


def node_properties(plan: ClusterPlan, seat: Seat, directory: str) -> dict[str, str]:
    """The properties file of a node whose cluster lives in `directory`, an absolute path."""
    client = f"PLAINTEXT://127.0.0.1:{seat.port}"
    controller = f"CONTROLLER://127.0.0.1:{seat.controller_port}"
    offered = ((client, seat.is_broker), (controller, seat.is_controller))
    own = {
        "process.roles": ",".join(seat.roles),
        "node.id": str(seat.node_id),
        "controller.quorum.voters": ",".join(
            f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in plan.controllers
        ),
        "listeners": ",".join(listener for listener, has in offered if has),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": f"{directory}/{seat.name}",
    }
    if seat.is_broker:
        own |= {"advertised.listeners": client, "inter.broker.listener.name": "PLAINTEXT"}
    if seat.rack:
        own["broker.rack"] = seat.rack
    return {**developer_defaults(len(plan.brokers), directory), **plan.stated, **own}


def developer_defaults(brokers: int, directory: str) -> dict[str, str]:
    """What a developer's cluster has where the user states nothing else."""
    copies, in_sync = (3, 2) if brokers >= 3 else (brokers, 1)
    return {
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(copies),
        "rsm.config.url": f"file://{directory}/remote",
        "group.initial.rebalance.delay.ms": "0",
        # As for the dev broker: what a tier does is seen within seconds.
        "log.initial.task.delay.ms": "1000",
        "log.retention.check.interval.ms": "5000",
        "remote.log.manager.task.interval.ms": "5000",
        "tierlog.broker.death.hint": "true",
        "tierlog.broker.clean.restart": "true",
        "controller.quorum.election.timeout.ms": str(ELECTION_TIMEOUT_MS),
    }


ELECTION_TIMEOUT_MS = 200
"""A fifth of Kafka's: the nodes share one machine, and a new cluster waits for its election."""


def properties_text(properties: Mapping[str, str]) -> str:
    """A properties file that reads as these properties."""
    return "".join(f"{_escape(name)}={_escape(properties[name])}\n" for name in properties)


_ESCAPES = str.maketrans(
    {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", **{c: f"\\{c}" for c in "\\=: #!"}}
)


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)


def plan_to_json(plan: ClusterPlan) -> bytes:
    """The content of `cluster.json`."""
    value = {
        "version": _VERSION,
        "cluster_id": plan.cluster_id,
        "next_id": plan.next_id,
        "stated": dict(plan.stated),
        "nodes": [seat._asdict() for seat in plan.seats.values()],
    }
    return json.dumps(value, indent=2).encode() + b"\n"


def plan_from_json(content: bytes) -> ClusterPlan:
    """Read `cluster.json`, of which nothing is believed. Raises PlanError."""
    try:
        value = cast("object", json.loads(content))
    except (ValueError, RecursionError):
        raise PlanError("it is not JSON") from None
    fields = _object(value, "the file")
    if fields.get("version") != _VERSION:
        raise PlanError(f"its version is not {_VERSION}")
    nodes = fields.get("nodes")
    listed = cast("list[object]", nodes) if isinstance(nodes, list) else []
    if not 1 <= len(listed) <= BROKERS_MAX + CONTROLLERS_MAX:
        raise PlanError("it has no list of nodes")
    seats = [_seat(_object(each, "a node")) for each in listed]
    by_id = {seat.node_id: seat for seat in seats}
    if len(by_id) < len(seats):
        raise PlanError("two nodes have the same id")
    ports = [port for seat in seats for port in (seat.port, seat.controller_port) if port]
    if len(set(ports)) < len(ports):
        raise PlanError("two listeners have the same port")
    next_id = _integer(fields, "next_id", 2, FIRST_CONTROLLER_ID)
    if any(seat.is_broker and seat.node_id >= next_id for seat in seats):
        raise PlanError("its next_id is the id of a node, or below one")
    if not any(seat.is_controller for seat in seats) or not any(seat.is_broker for seat in seats):
        raise PlanError("it has no broker, or no controller")
    stated = _object(fields.get("stated"), "stated")
    if len(stated) > _STATED_MAX:
        raise PlanError("it states too many properties")
    return ClusterPlan(
        _text(fields, "cluster_id"),
        by_id,
        next_id,
        _stated_properties(stated),
    )


def _stated_properties(stated: Mapping[str, object]) -> dict[str, str]:
    texts = {name: _text(stated, name) for name in stated}
    check_stated(texts)
    return texts


def _seat(fields: Mapping[str, object]) -> Seat:
    is_broker, is_controller = _flag(fields, "is_broker"), _flag(fields, "is_controller")
    if not is_broker and not is_controller:
        raise PlanError("a node has no role")
    return Seat(
        _integer(fields, "node_id", 1, FIRST_CONTROLLER_ID + CONTROLLERS_MAX),
        is_broker,
        is_controller,
        _text(fields, "rack"),
        _integer(fields, "port", 0, _PORT_MAX),
        _integer(fields, "controller_port", 0, _PORT_MAX),
    )


def _object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise PlanError(f"{what} is not an object")
    return cast("dict[str, object]", value)


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or len(value) > _TEXT_MAX or not _is_utf8(value):
        raise PlanError(f"{name!r} is not text")
    return value


def _is_utf8(text: str) -> bool:
    """Half a surrogate pair, in JSON or for a byte of an argument, can be in no file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(fields: Mapping[str, object], name: str, lowest: int, highest: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise PlanError(f"{name} is not a number from {lowest} to {highest}")
    return value


def _flag(fields: Mapping[str, object], name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise PlanError(f"{name} is neither true nor false")
    return value
