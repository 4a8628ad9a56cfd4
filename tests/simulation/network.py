"""A network in memory: hosts, connections between them, and what can happen to both.

A process is what was begun inside `on_host`: tasks, timers and callbacks inherit it. To listen on
or connect to a loopback address means its own host. Latency and the size of the pieces in which
bytes arrive are drawn from the loop's seed. A partition loses nothing: what is on its way waits
until it heals, as TCP would send it again; who does not want to wait needs a timeout.
"""

import asyncio
import contextlib
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.transport import Address, End, SimulatedTransport

T = TypeVar("T")
LOOPBACK = frozenset({None, "", "0.0.0.0", "::", "127.0.0.1", "::1", "localhost"})
# Two arrivals of one connection are never at the same time: their order is certain.
_APART_S = 1e-6


@dataclass(eq=False, slots=True)
class Process:
    """What runs on a host until it is killed."""

    host: str
    is_alive: bool = True
    # In the order in which they began, so that every run kills them in the same order.
    tasks: dict[asyncio.Task[Any], None] = field(default_factory=dict[asyncio.Task[Any], None])


_ELSEWHERE = Process("localhost")
_process: contextvars.ContextVar[Process] = contextvars.ContextVar("process", default=_ELSEWHERE)


@contextlib.contextmanager
def on_host(name: str) -> Generator[Process, None, None]:
    """Tasks, servers and connections made inside belong to a new process on this host."""
    process = Process(name)
    token = _process.set(process)
    try:
        yield process
    finally:
        _process.reset(token)


def process_of(context: contextvars.Context) -> Process:
    """The process that a context belongs to."""
    return context.get(_process, _ELSEWHERE)


def is_alive() -> bool:
    """Whether the process that asks has not been killed."""
    return _process.get().is_alive


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the network is like."""

    latency_s_min: float = 0.000_1
    latency_s_max: float = 0.002
    piece_bytes_max: int = 16_384
    window_bytes: int = 65_536


class SimulatedNetwork:
    """See the module. Making one gives it to the loop."""

    def __init__(self, loop: SimulatedLoop, conditions: Conditions | None = None) -> None:
        self._loop = loop
        self._conditions = conditions or Conditions()
        self._servers: dict[Address, SimulatedServer] = {}
        self._ends: dict[SimulatedTransport, None] = {}
        self._parted: set[frozenset[str]] = set()
        self._held: deque[tuple[SimulatedTransport, Callable[[], None]]] = deque()
        self._healed = asyncio.Event()
        self._next_port = 32_768
        loop.network = self
        loop.set_task_factory(_begin_task)

    @property
    def window_bytes(self) -> int:
        return self._conditions.window_bytes

    def piece_bytes(self, available: int) -> int:
        """A length drawn from the seed: senders' writes and receivers' reads do not match."""
        return self._loop.random.randint(1, min(available, self._conditions.piece_bytes_max))

    def _latency_s(self) -> float:
        conditions = self._conditions
        return self._loop.random.uniform(conditions.latency_s_min, conditions.latency_s_max)

    # Connections.

    def free_port(self) -> int:
        """A port that nobody was given before."""
        self._next_port += 1
        return self._next_port

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int
    ) -> "SimulatedServer":
        """Listen; OSError (EADDRINUSE) where someone listens already."""
        name = _process.get().host if host is None or host in LOOPBACK else host
        address = Address(name, port or self.free_port())
        if address in self._servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), str(address))
        server = SimulatedServer(self, address, factory)
        self._servers[address] = server
        return server

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """Connect; waits while the hosts are parted, ConnectionRefusedError if nobody listens."""
        process = _process.get()
        source = process.host
        target = Address(source if host in LOOPBACK else host, port)
        await asyncio.sleep(self._latency_s())
        while self._are_parted(source, target.host):
            await self._healed.wait()
            await asyncio.sleep(self._latency_s())
        server = self._servers.get(target)
        if server is None or not process.is_alive:
            code = errno.ECONNREFUSED
            raise ConnectionRefusedError(code, os.strerror(code), f"{target.host}:{target.port}")
        protocol = factory()
        local = Address(source, self.free_port())
        near = SimulatedTransport(self, End(local, target, contextvars.copy_context()), protocol)
        far_protocol = server.context.run(server.factory)
        far = SimulatedTransport(self, End(target, local, server.context), far_protocol)
        near.peer, far.peer = far, near
        self._ends |= {near: None, far: None}
        far.call(far_protocol.connection_made, far)
        protocol.connection_made(near)
        return near, protocol

    def carry(self, source: SimulatedTransport, arrive: Callable[[], None]) -> None:
        """See `Carrier`."""
        arrival_s = max(self._loop.time() + self._latency_s(), source.last_arrival_s + _APART_S)
        source.last_arrival_s = arrival_s
        context = source.peer.end.context
        self._loop.call_at(arrival_s, self._arrive_or_hold, source, arrive, context=context)

    def _arrive_or_hold(self, source: SimulatedTransport, arrive: Callable[[], None]) -> None:
        is_behind = any(held is source for held, _ in self._held)
        if is_behind or self._are_parted(source.end.local.host, source.end.remote.host):
            self._held.append((source, arrive))
        else:
            arrive()

    def forget(self, transport: SimulatedTransport) -> None:
        """See `Carrier`."""
        self._ends.pop(transport, None)

    def stop_listening(self, server: "SimulatedServer") -> None:
        """The address is free again; connections that are open stay open."""
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    # What can happen.

    def _are_parted(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._parted

    def part(self, hosts: Iterable[str], others: Iterable[str]) -> None:
        """No byte passes between a host of the one group and a host of the other."""
        others = list(others)
        self._parted |= {frozenset((one, other)) for one in hosts for other in others}
        self._healed.clear()

    def heal(self) -> None:
        """End all partitions; what was held arrives now, in its order."""
        self._parted.clear()
        self._healed.set()
        held, self._held = self._held, deque()
        for source, arrive in held:
            self.carry(source, arrive)

    def connections(self, host: str | None = None) -> list[SimulatedTransport]:
        """The open ends, or those on one host."""
        return [end for end in self._ends if host is None or end.end.local.host == host]

    def cut(self, host: str | None = None) -> None:
        """Reset every connection, or those of one host: both ends get ConnectionResetError."""
        for end in self.connections(host):
            end.lose(ConnectionResetError("The connection was cut."))
            end.peer.lose(ConnectionResetError("The connection was cut."))

    def kill(self, process: Process) -> None:
        """End a process: its peers get a reset, nothing that it still does reaches anyone.

        Its tasks are cancelled so that they end; what they do in their clean-up, nobody sees.
        """
        process.is_alive = False
        for end in self.connections():
            if end.end.context.get(_process, _ELSEWHERE) is process:
                self.carry(end, partial(end.peer.lose, ConnectionResetError("gone")))
                end.vanish()
        for address, server in list(self._servers.items()):
            if server.context.get(_process, _ELSEWHERE) is process:
                server.is_open = False
                del self._servers[address]
        for task in list(process.tasks):
            task.cancel()


def _begin_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T] | Generator[Any, None, T],
    **options: Any,  # noqa: ANN401  # whatever asyncio hands on: a name, a context
) -> asyncio.Task[T]:
    """A task that its process knows."""
    task: asyncio.Task[T] = asyncio.Task(cast("Coroutine[Any, Any, T]", work), loop=loop, **options)
    tasks = _process.get().tasks
    tasks[task] = None
    task.add_done_callback(tasks.pop)
    return task


class _Name:
    """What code asks of a listening socket: where it listens."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address


class SimulatedServer(asyncio.AbstractServer):
    """A listening address. Its connections belong to the process that made it."""

    def __init__(
        self,
        network: SimulatedNetwork,
        address: Address,
        factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self.address = address
        self.factory = factory
        self.context = contextvars.copy_context()
        self.is_open = True
        self._network = network

    @property
    def sockets(self) -> tuple[_Name, ...]:
        return (_Name(self.address),) if self.is_open else ()

    def close(self) -> None:
        self.is_open = False
        self._network.stop_listening(self)

    async def wait_closed(self) -> None:
        """Closing takes no time here."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def start_serving(self) -> None:
        """It serves from the start."""

    async def serve_forever(self) -> None:
        """Wait until cancelled, as asyncio's does."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.close()

    def is_serving(self) -> bool:
        return self.is_open
