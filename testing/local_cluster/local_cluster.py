"""The processes of a local cluster: what starts them, ends them, and says how they stand.

One process runs this: it starts a `tierlog serve` for each node and passes on their output. What
is done through the brokers, such as moving replicas, is in `cluster_changes.py`.

    up -> kill, pause, resume, start, add, … -> stop
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...clients.runtime.environment import Environment
from ...storage.files import Files
from .cluster_plan import (
    ClusterPlan,
    PlanError,
    Seat,
    node_properties,
    plan_to_json,
    properties_text,
)
from .cluster_status import ClusterStatus, NodeStatus
from .control_messages import RefusedError
from .held_ports import HeldPorts, NoPortError
from .node_process import NodeProcess, NodeState

PLAN_FILE = "cluster.json"
READY_WITHIN_S = 120.0
"""How long a node may take until it serves."""
STOPPED_WITHIN_S = 30.0
"""How long a node may take to stop cleanly; then it is killed. Its own limit is 20 seconds."""

_KILLED_WITHIN_S = 10.0
_ONLY_THE_USER = 0o077

Say = Callable[[str], None]


class Shell(NamedTuple):
    """What the cluster's process has from outside."""

    files: Files
    environment: Environment
    command: Sequence[str]
    """What `serve --config FILE` is appended to."""
    variables: Mapping[str, str]
    """The environment variables of the nodes."""
    format: Callable[[str, int, str], None]
    """Formats a node's directory: cluster id, node id, path. Raises OSError."""
    on_line: Callable[[str, str], None]
    """Gets the name of a node and each line of its output."""
    say: Say
    """Gets what the user should read."""


class LocalCluster:
    """See the top of this file."""

    def __init__(self, plan: ClusterPlan, directory: str, shell: Shell) -> None:
        """`directory` is an absolute path that exists."""
        self.plan = plan
        self.directory = directory
        self.settled = asyncio.Event()
        """Set once the start is over: all nodes are ready, or `problem` says why not."""
        self.problem = ""
        self._shell = shell
        self._nodes = {seat.node_id: self._node(seat) for seat in plan.seats.values()}
        self._ports = HeldPorts(shell.environment.random, shell.files)
        self._is_stopping = False

    def _node(self, seat: Seat) -> NodeProcess:
        node = NodeProcess(seat.name, self._shell.on_line)
        node.on_end = lambda ended: self._on_end(seat, ended)
        return node

    def _on_end(self, seat: Seat, node: NodeProcess) -> None:
        if self.settled.is_set() and not self._is_stopping:
            self._shell.say(
                f"{node.name} has ended {_ending(node)}: `tierlog cluster start {seat.node_id}`"
                " starts it again."
            )

    def node(self, node_id: int) -> NodeProcess:
        """A node's process. Raises RefusedError if there is no such node."""
        node = self._nodes.get(node_id)
        if node is None:
            names = ", ".join(each.name for each in self._nodes.values())
            raise RefusedError(f"There is no node {node_id}: the nodes are {names}.")
        return node

    def states(self) -> dict[int, NodeState]:
        """What each node's process does."""
        return {node_id: node.state for node_id, node in self._nodes.items()}

    def running_addresses(self, but: Collection[int] = ()) -> list[str]:
        """Where brokers that serve listen."""
        return [
            seat.address
            for seat in self.plan.brokers
            if self._nodes[seat.node_id].state is NodeState.RUNNING and seat.node_id not in but
        ]

    async def up(self) -> None:
        """Start all nodes; returns when all are ready.

        Raises RefusedError if one cannot start, and then none is left; OSError for the directory.
        """
        try:
            self._choose_ports()
            self._write_plan()
            for seat in self.plan.seats.values():
                self._prepare(seat)
            for seat in self.plan.seats.values():
                await self._spawn(seat)
            await self._until_ready(self.plan.seats)
        except BaseException as error:
            self.problem = str(error) or "The start was interrupted."
            self._is_stopping = True
            await self.kill_all()
            raise
        finally:
            self.settled.set()

    def _choose_ports(self) -> None:
        """Give each node its ports of the last start; new ones for those that are taken."""
        used = {port for seat in self.plan.seats.values() for port in _ports(seat) if port}
        for seat in list(self.plan.seats.values()):
            self.plan = self.plan.with_seat(self._with_ports(seat, used))

    def _with_ports(self, seat: Seat, used: set[int]) -> Seat:
        port = self._port(seat, seat.port, used) if seat.is_broker else 0
        controller_port = self._port(seat, seat.controller_port, used) if seat.is_controller else 0
        return seat._replace(port=port, controller_port=controller_port)

    def _port(self, seat: Seat, kept: int, used: set[int]) -> int:
        if kept and self._ports.hold(kept):
            return kept
        try:
            port = self._ports.hold_new(used)
        except NoPortError as error:
            raise RefusedError(str(error)) from None
        if kept:
            self._shell.say(
                f"Port {kept} of {seat.name} belongs to another program now: it has {port} instead."
            )
        used.add(port)
        return port

    def _write_plan(self) -> None:
        self._write(f"{self.directory}/{PLAN_FILE}", plan_to_json(self.plan))

    def _write(self, path: str, content: bytes) -> None:
        """Write a file that only the user may read: stated properties may be passwords."""
        before = os.umask(_ONLY_THE_USER)
        try:
            self._shell.files.atomic_replace(path, content, durable=False)
        finally:
            os.umask(before)

    def _prepare(self, seat: Seat) -> None:
        """Write the node's properties, and format its directory if it is new."""
        text = properties_text(node_properties(self.plan, seat, self.directory))
        self._write(self._properties(seat), text.encode())
        path = f"{self.directory}/{seat.name}"
        if not self._shell.files.exists(f"{path}/meta.properties"):
            self._shell.format(self.plan.cluster_id, seat.node_id, path)

    def _properties(self, seat: Seat) -> str:
        return f"{self.directory}/{seat.name}.properties"

    async def _spawn(self, seat: Seat) -> None:
        command = (*self._shell.command, "serve", "--config", self._properties(seat))
        node = self._nodes[seat.node_id]
        try:
            await node.spawn(command, self._shell.variables, self.directory)
        except OSError as error:
            raise RefusedError(f"{seat.name} cannot be started: {error.strerror}.") from error

    async def _until_ready(self, node_ids: Iterable[int]) -> None:
        """Raises RefusedError, at once when a node ends instead."""
        nodes = [self._nodes[node_id] for node_id in node_ids]
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                async with asyncio.TaskGroup() as group:
                    for node in nodes:
                        group.create_task(_until_ready(node))
        except ExceptionGroup as errors:
            refused = errors.subgroup(RefusedError)
            if refused is None:
                raise
            raise _first(refused) from None
        except TimeoutError:
            late = ", ".join(node.name for node in nodes if not node.ready.is_set())
            raise RefusedError(
                f"Not ready within {READY_WITHIN_S:.0f} s: {late}. A majority of the controllers"
                " must run; `tierlog cluster status` says which do, and the output of the nodes"
                " what they wait for."
            ) from None

    async def kill(self, node_ids: Sequence[int], *, is_hard: bool) -> None:
        """End nodes, cleanly or as in a crash; returns when they have ended.

        Raises RefusedError if one does not run.
        """
        nodes = [self.node(node_id) for node_id in node_ids]
        for node in nodes:
            if node.state is NodeState.STOPPED:
                raise RefusedError(f"{node.name} does not run.")
        await _end(nodes, is_hard=is_hard)

    def pause(self, node_ids: Sequence[int]) -> None:
        """Stop the time of nodes (SIGSTOP). Raises RefusedError if one does not run."""
        nodes = [self.node(node_id) for node_id in node_ids]
        for node in nodes:
            if node.state not in (NodeState.RUNNING, NodeState.STARTING):
                raise RefusedError(f"{node.name} is {node.state.value}, not running.")
        for node in nodes:
            node.pause()

    def resume(self, node_ids: Sequence[int]) -> None:
        """Let nodes that are paused go on. Raises RefusedError if one is not."""
        nodes = [self.node(node_id) for node_id in node_ids]
        for node in nodes:
            if node.state is not NodeState.PAUSED:
                raise RefusedError(f"{node.name} is {node.state.value}, not paused.")
        for node in nodes:
            node.resume()

    async def start(self, node_ids: Sequence[int], *, waits: bool = True) -> None:
        """Start nodes that have ended, and resume those that are paused; one that runs stays.

        Returns when they are ready, if `waits`. Raises RefusedError.
        """
        for node_id in node_ids:
            node = self.node(node_id)
            if node.state is NodeState.PAUSED:
                node.resume()
            elif node.state is NodeState.STOPPING:
                await node.ended.wait()
            if node.state is NodeState.STOPPED:
                seat = self.plan.seats[node_id]
                self._prepare(seat)
                await self._spawn(seat)
        if waits:
            await self._until_ready(node_ids)

    async def add(self, rack: str) -> Seat:
        """Start a new broker; returns it when it is ready. Raises RefusedError."""
        if self.plan.is_one_process:
            raise RefusedError(
                "A cluster of one broker is one process that accepts no other. Begin one with"
                " --brokers 2 or more, or with --controllers 1, in another directory."
            )
        try:
            added = self.plan.added_seat(rack)
        except PlanError as error:
            raise RefusedError(str(error)) from None
        used = {port for seat in self.plan.seats.values() for port in _ports(seat) if port}
        seat = self._with_ports(added, used)
        self.plan = self.plan.with_seat(seat)
        self._nodes[seat.node_id] = self._node(seat)
        self._write_plan()
        await self.start([seat.node_id])
        return seat

    async def forget(self, node_id: int) -> None:
        """End a node and leave it out from now on; its directory stays."""
        await _end([self._nodes[node_id]], is_hard=False)
        del self._nodes[node_id]
        for port in _ports(self.plan.seats[node_id]):
            self._ports.release(port)
        self.plan = self.plan.without(node_id)
        self._write_plan()

    async def stop(self) -> None:
        """Stop all cleanly, brokers before controllers: they need them for it."""
        self._is_stopping = True
        apart = [
            self._nodes[broker.node_id] for broker in self.plan.brokers if not broker.is_controller
        ]
        await _end(apart, is_hard=False)
        await _end(
            [self._nodes[controller.node_id] for controller in self.plan.controllers], is_hard=False
        )

    async def kill_all(self) -> None:
        """End all at once."""
        self._is_stopping = True
        await _end(list(self._nodes.values()), is_hard=True)

    async def close(self) -> None:
        """End what still runs, and let go of the ports."""
        await self.kill_all()
        self._ports.close()

    def status(self) -> ClusterStatus:
        """How the processes stand; what only brokers know is None."""
        return ClusterStatus(
            self.plan.cluster_id,
            self.directory,
            self.plan.bootstrap,
            os.getpid(),
            tuple(map(self._node_status, self.plan.seats.values())),
        )

    def _node_status(self, seat: Seat) -> NodeStatus:
        node = self._nodes[seat.node_id]
        return NodeStatus(
            node_id=seat.node_id,
            name=seat.name,
            roles=seat.roles,
            state=node.state.value,
            pid=node.pid,
            exit_code=node.exit_code,
            address=seat.address,
            controller_address=(f"127.0.0.1:{seat.controller_port}" if seat.is_controller else ""),
            rack=seat.rack,
            is_active_controller=None,
            leads=None,
            replicas=None,
            in_sync=None,
        )


def _ports(seat: Seat) -> tuple[int, int]:
    return seat.port, seat.controller_port


def _first(errors: ExceptionGroup[RefusedError]) -> RefusedError:
    (first, *_) = errors.exceptions
    assert isinstance(first, RefusedError)
    return first


async def _until_ready(node: NodeProcess) -> None:
    """Raises RefusedError if the node ends instead."""
    await node.settled.wait()
    if not node.ready.is_set():
        raise RefusedError(
            f"{node.name} has ended {_ending(node)} before it was ready. Its last line is:"
            f" {node.last_line}"
        )


async def _end(nodes: Sequence[NodeProcess], *, is_hard: bool) -> None:
    """End nodes; those that do not stop in time are killed."""
    running = [node for node in nodes if node.state is not NodeState.STOPPED]
    for node in running:
        if is_hard:
            node.kill()
        else:
            node.terminate()
    try:
        async with asyncio.timeout(_KILLED_WITHIN_S if is_hard else STOPPED_WITHIN_S):
            for node in running:
                await node.ended.wait()
    except TimeoutError:
        if is_hard:
            raise
        await _end(nodes, is_hard=True)


def _ending(node: NodeProcess) -> str:
    code = node.exit_code or 0
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"
