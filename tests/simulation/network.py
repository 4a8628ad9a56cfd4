"""A network in memory: hosts, connections between them, and what can happen to both.

A process runs on the host that `on_host` named when its tasks were made: tasks inherit it. To
listen on or connect to a loopback address means that host. Latency and the size of the pieces in
which bytes arrive are drawn from the loop's seed. A partition loses nothing: what is on its way
waits until it heals, as TCP would send it again; who does not want to wait needs a timeout.
"""

import asyncio
import contextlib
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial

from tierlog.tests.simulation.loop import SimulatedLoop
from tierlog.tests.simulation.transport import Address, End, SimulatedTransport

LOOPBACK = frozenset({None, "", "0.0.0.0", "::", "127.0.0.1", "::1", "localhost"})
_host: contextvars.ContextVar[str] = contextvars.ContextVar("host", default="localhost")
# Two arrivals of one connection are never at the same time: their order is certain.
_APART_S = 1e-6


@contextlib.contextmanager
def on_host(name: str) -> Generator[None, None, None]:
    """Tasks, servers and connections made inside belong to this host."""
    token = _host.set(name)
    try:
        yield
    finally:
        _host.reset(token)


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
        name = _host.get() if host is None or host in LOOPBACK else host
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
        source = _host.get()
        target = Address(source if host in LOOPBACK else host, port)
        await asyncio.sleep(self._latency_s())
        while self._are_parted(source, target.host):
            await self._healed.wait()
            await asyncio.sleep(self._latency_s())
        server = self._servers.get(target)
        if server is None:
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

    def crash(self, host: str) -> None:
        """The process on a host is gone: its ends are told nothing, their peers get a reset.

        Its tasks are the caller's to cancel.
        """
        for end in self.connections(host):
            if end.peer.end.local.host != host:
                self.carry(end, partial(end.peer.lose, ConnectionResetError("gone")))
            end.vanish()
        for address in [address for address in self._servers if address.host == host]:
            self._servers.pop(address).is_open = False


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
