"""How a local cluster stands: what `tierlog cluster status` prints and tests look at."""

from collections.abc import Mapping
from typing import NamedTuple, cast

from .control_messages import RefusedError

STATES = ("starting", "running", "paused", "stopping", "stopped")


class NodeStatus(NamedTuple):
    """One process."""

    node_id: int
    name: str
    """The name that its output lines begin with: broker-1."""
    roles: tuple[str, ...]
    state: str
    """One of `STATES`."""
    pid: int | None
    """None while it is stopped."""
    exit_code: int | None
    """How it ended last: negative is the signal; None while it runs."""
    address: str
    """Where clients connect; empty for a controller that is no broker."""
    controller_address: str
    rack: str
    is_active_controller: bool | None
    """Whether it leads the quorum; None if no broker could say."""
    leads: int | None
    """The partitions that it leads; None if no broker could say."""
    replicas: int | None
    """The partitions of which it has a replica."""
    in_sync: int | None
    """Its replicas that are in sync."""


class ClusterStatus(NamedTuple):
    """The whole cluster."""

    cluster_id: str
    directory: str
    bootstrap_servers: str
    pid: int
    """The process that runs the nodes."""
    nodes: tuple[NodeStatus, ...]

    def node(self, node_id: int) -> NodeStatus:
        """One node. Raises KeyError."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise KeyError(node_id)

    @property
    def active_controller(self) -> int | None:
        """The node that leads the quorum, if a broker could say."""
        return next((node.node_id for node in self.nodes if node.is_active_controller), None)

    @property
    def is_in_sync(self) -> bool:
        """Whether every node runs and every replica is in sync."""
        return all(
            node.state == "running" and node.replicas == node.in_sync
            for node in self.nodes
            if node.address
        )

    def to_json(self) -> dict[str, object]:
        """As `tierlog cluster status --json` prints it."""
        return {**self._asdict(), "nodes": [node._asdict() for node in self.nodes]}


def status_from_json(value: Mapping[str, object]) -> ClusterStatus:
    """Read `to_json`. Raises RefusedError."""
    try:
        fields = dict(value)
        nodes = cast("list[dict[str, object]]", fields.pop("nodes"))
        read = tuple(_node(node) for node in nodes)
        return ClusterStatus(**fields, nodes=read)  # type: ignore[arg-type]  # read by name
    except (KeyError, TypeError) as error:
        raise RefusedError(f"The status cannot be read: {error}.") from None


def _node(fields: dict[str, object]) -> NodeStatus:
    roles = tuple(cast("list[str]", fields.pop("roles")))
    return NodeStatus(**fields, roles=roles)  # type: ignore[arg-type]  # read by name


def status_lines(status: ClusterStatus) -> list[str]:
    """A table for people."""
    rows: list[tuple[str, ...]] = [
        ("node", "state", "pid", "address", "rack", "controller", "leads", "in sync")
    ]
    rows += [_row(node) for node in status.nodes]
    if not any(node.rack for node in status.nodes):
        rows = [(*row[:4], *row[5:]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [*lines, f"bootstrap.servers={status.bootstrap_servers}"]


def _row(node: NodeStatus) -> tuple[str, ...]:
    controller = "-"
    if "controller" in node.roles:
        controller = "active" if node.is_active_controller else "yes"
    in_sync = "-" if node.replicas is None else f"{node.in_sync} of {node.replicas}"
    return (
        node.name,
        node.state if node.exit_code in (None, 0) else f"{node.state} ({_ending(node.exit_code)})",
        "-" if node.pid is None else str(node.pid),
        node.address or node.controller_address,
        node.rack or "-",
        controller,
        "-" if node.leads is None else str(node.leads),
        in_sync,
    )


def _ending(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
