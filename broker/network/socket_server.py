"""The socket server: owns all connections of the broker, their limits and their unfinished work.

The limits are Kafka's:

- A connection above `max.connections.per.ip` (with overrides) is closed at once.
- At `max.connections`, further clients stay in the backlog until another client disconnects; above
  `max.connection.creation.rate`, they stay there for a while.
- A connection that has been idle for `connections.max.idle.ms` is closed.
- `socket.request.max.bytes` bounds a request.
- A connection above the `connection_creation_rate` quota of its address is kept waiting, and then
  closed.

The connection of a client that sends an invalid request is closed without a response, as in Kafka.
That logs one line, and at most one such line a second however many clients misbehave.
"""

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...clients.protocol.connection import FrameBuffers
from ...clients.runtime.task_owner import TaskOwner
from ..metrics.metrics import Metrics
from .connection import Answer, ConnectedClient, Connection
from .connection_rates import UNLIMITED, ConnectionRates
from .receive_budget import SHORT_READ_BYTES, ReceiveBudget, UnsentResponses
from .response import Response, Work
from .socket_listener import Endpoint
from .transport import AttachableTransport, Listener, Network
from .turns import Turns

if TYPE_CHECKING:
    from .sasl_gate import SaslListener
    from .tls_transport import TlsAcceptor

_log = logging.getLogger(__name__)

_REPORT_INTERVAL_S = 1.0
_MAX_DEFERRED = 100_000
_KEPT_WAITING_MAX = 1_000
STRANGERS_BYTES_MAX = 16 * 1024 * 1024
"""The memory for partial requests of all clients of SASL listeners that are not authenticated yet.
They cannot use up the budget of those who are. A login that arrives whole needs none of it, and
one in pieces waits for those who are slow at sending theirs."""

_SERVER = "kafka.server:type=socket-server-metrics"


class ConnectionLimits(NamedTuple):
    """The configuration's limits on connections."""

    max_request_bytes: int = 104_857_600
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    max_connections_per_ip_overrides: Mapping[str, int] = {}
    max_idle_ms: int = 600_000
    max_creation_rate: int = UNLIMITED
    max_unfinished_bytes: int = 104_857_600
    max_queued_bytes: int = -1
    max_unsent_bytes: int = 67_108_864

    @property
    def receive_max_bytes(self) -> int:
        """The memory budget of unanswered requests; the largest request always fits."""
        bounds = [each for each in (self.max_unfinished_bytes, self.max_queued_bytes) if each > 0]
        return max(self.max_request_bytes, min(bounds))


class SocketServer:
    """Listens for clients, and is the `ConnectionOwner` of their connections."""

    def __init__(
        self,
        network: Network,
        limits: ConnectionLimits,
        metrics: Metrics,
    ) -> None:
        self.answer: Answer = _not_open
        self._network = network
        self._limits = limits
        self._listeners: dict[str, Listener] = {}
        self._tls: dict[str, TlsAcceptor] = {}
        # Those that accept clients, but for pauses.
        self._accepting: list[Listener] = []
        self._connections: dict[Connection, None] = {}
        self.turns = Turns()
        self.receive_budget = ReceiveBudget(limits.receive_max_bytes, FrameBuffers())
        # With buffers of its own: they are marked short without regard to those of others.
        self.strangers = ReceiveBudget(STRANGERS_BYTES_MAX, FrameBuffers(), SHORT_READ_BYTES)
        self.unsent_responses = UnsentResponses(limits.max_unsent_bytes)
        self._per_ip: Tally[str] = Tally()
        # Failures are reported with the response, so the owner need not keep them.
        self._tasks = TaskOwner(_MAX_DEFERRED, on_failure=lambda task, failure: None)
        self._sasl: Mapping[str, SaslListener] = {}
        self._is_open = False
        self._sweep: asyncio.TimerHandle | None = None
        self.rates = ConnectionRates()
        # Set while accepting is paused because connections came too fast.
        self._rest: asyncio.TimerHandle | None = None
        # Connections that came too fast for their address, until they are closed.
        self._kept_waiting: dict[AttachableTransport, asyncio.TimerHandle] = {}
        self._next_report = 0.0
        self._unreported = 0
        self._created = metrics.counter(f"{_SERVER},name=connection-creation-total")
        self._closed = metrics.counter(f"{_SERVER},name=connection-close-total")
        self._refused = metrics.counter(f"{_SERVER},name=connection-refused-total")
        self._failed = metrics.counter(f"{_SERVER},name=failed-authentication-total")
        metrics.gauge(f"{_SERVER},name=connection-count", lambda: len(self._connections))
        # Kafka has these two gauges for its MemoryPool.
        metrics.gauge("kafka.network:type=SocketServer,name=MemoryPoolUsed", self._memory_used)
        metrics.gauge("kafka.network:type=SocketServer,name=MemoryPoolAvailable", self._memory_left)

    def _memory_used(self) -> int:
        return self.receive_budget.used + self.strangers.used

    def _memory_left(self) -> int:
        return max(0, self._limits.receive_max_bytes - self.receive_budget.used)

    async def bind(
        self, endpoints: Sequence[Endpoint], tls: "Mapping[str, TlsAcceptor] | None" = None
    ) -> dict[str, int]:
        """Bind the addresses without accepting; returns the listeners' ports. Raises OSError.

        `tls` has the listeners that speak TLS.
        """
        self._tls.update(tls or {})
        ports: dict[str, int] = {}
        for endpoint in endpoints:
            listener = await self._network.listen(
                endpoint.host,
                endpoint.port,
                partial(self._on_connected, endpoint.name),
                self._tls.get(endpoint.name),
            )
            self._listeners[endpoint.name] = listener
            ports[endpoint.name] = listener.port
        return ports

    def open(
        self,
        answer: Answer,
        sasl: "Mapping[str, SaslListener]",
        names: Collection[str] | None = None,
    ) -> None:
        """Start accepting clients on these listeners, or on all; `answer` handles all requests.

        `sasl` has the listeners at which clients must authenticate.
        """
        self.answer = answer
        self._sasl = sasl
        was_open, self._is_open = self._is_open, True
        self._accepting = [
            listener
            for name, listener in self._listeners.items()
            if names is None or name in names or listener in self._accepting
        ]
        self._accept_if_there_is_room()
        if not was_open:
            self._schedule_sweep()

    def limit(self, limits: ConnectionLimits) -> None:
        """Change the limits; connections beyond a new maximum stay open."""
        self._limits = limits
        self.receive_budget.limit(limits.receive_max_bytes)
        self.unsent_responses.max_bytes = limits.max_unsent_bytes
        if self._is_open:
            self._accept_if_there_is_room()

    def _accept_if_there_is_room(self) -> None:
        is_full = len(self._connections) >= self._limits.max_connections
        for listener in self._accepting:
            if is_full or self._rest is not None:
                listener.pause_accepting()
            else:
                listener.resume_accepting()

    def _rest_for(self, seconds: float) -> None:
        """Leave further clients in the backlog for that long."""
        if self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(seconds, self._end_rest)
            self._accept_if_there_is_room()

    def _end_rest(self) -> None:
        self._rest = None
        self._accept_if_there_is_room()

    def _on_connected(self, listener: str, transport: AttachableTransport) -> None:
        # A listener that cannot pause accepts every client, also before it is opened.
        if self._listeners.get(listener) not in self._accepting:
            transport.close()
            return
        host = transport.peer_host
        limits = self._limits
        limit = limits.max_connections_per_ip_overrides.get(host, limits.max_connections_per_ip)
        client = ConnectedClient(host, listener)
        now = asyncio.get_running_loop().time()
        delay_s = self.rates.delay_s(host, now)
        if delay_s > 0:
            self._refused.add()
            self.report(client, "its address opens connections faster than its quota allows")
            self._close_later(transport, delay_s)
            return
        if self._per_ip[host] >= limit or len(self._connections) >= limits.max_connections:
            self._refused.add()
            self.report(
                client, f"the limit on connections is reached; its address has {self._per_ip[host]}"
            )
            transport.close()
            return
        rest_s = self.rates.rest_s(limits.max_creation_rate, now)
        if rest_s > 0:
            self._rest_for(rest_s)
        connection = self._connection(transport, client)
        self._connections[connection] = None
        self._per_ip[host] += 1
        self._created.add()
        if len(self._connections) >= limits.max_connections:
            for each in self._accepting:
                each.pause_accepting()
        tls = self._tls.get(listener)
        if tls is not None:
            if listener not in self._sasl:
                client.session = tls.session
            tls.watch(
                transport,
                partial(self._identify, tls, client),
                partial(self._report_failed, client),
            )
        transport.attach(connection)

    def _connection(self, transport: AttachableTransport, client: ConnectedClient) -> Connection:
        max_bytes = self._limits.max_request_bytes
        sasl = self._sasl.get(client.listener) if self._sasl else None
        if sasl is None:
            return Connection(transport, client, self, max_bytes)
        return sasl.gate(self, client, self.strangers, max_bytes).connect(transport)

    def _identify(
        self, tls: "TlsAcceptor", client: ConnectedClient, certificate: bytes | None
    ) -> str | None:
        """Note whose connection it is; returns why it is not let in, or None.

        At a listener with SASL that says who it is, whatever the certificate says.
        """
        if client.listener in self._sasl:
            return None
        session = tls.identify(client.session, certificate)
        if isinstance(session, str):
            return session
        client.session = session
        return None

    def _report_failed(self, client: ConnectedClient, reason: str) -> None:
        """Count and log a client that has not proven what its listener requires."""
        self._failed.add()
        self.report(client, reason)

    def _close_later(self, transport: AttachableTransport, delay_s: float) -> None:
        """Close after a delay, without reading; at once if too many are waiting already."""
        if len(self._kept_waiting) >= _KEPT_WAITING_MAX:
            transport.close()
            return
        self._kept_waiting[transport] = asyncio.get_running_loop().call_later(
            delay_s, self._let_go, transport
        )

    def _let_go(self, transport: AttachableTransport) -> None:
        del self._kept_waiting[transport]
        transport.close()

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        host = connection.client.host
        self._connections.pop(connection, None)
        self._closed.add()
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]
        if len(self._connections) == self._limits.max_connections - 1:
            self._accept_if_there_is_room()

    def adopt(self, work: Work) -> asyncio.Future[object]:
        """Own the work: a future is returned as is, a coroutine becomes a task of the server."""
        if isinstance(work, asyncio.Future):
            return work
        return self._tasks.start(work, "request")

    def report(self, client: ConnectedClient, reason: str) -> None:
        """Log in one line why a connection is closed, at most once a second."""
        now = asyncio.get_running_loop().time()
        if now < self._next_report:
            self._unreported += 1
            return
        more = f" ({self._unreported} similar messages suppressed)" if self._unreported else ""
        self._unreported = 0
        self._next_report = now + _REPORT_INTERVAL_S
        _log.warning("Closed the connection from %s: %s%s", client.host, reason, more)

    def _schedule_sweep(self) -> None:
        idle_s = self._limits.max_idle_ms / 1000
        if idle_s > 0:
            interval_s = min(max(idle_s / 8, 0.05), 30.0)
            self._sweep = asyncio.get_running_loop().call_later(interval_s, self._close_idle)

    def _close_idle(self) -> None:
        now = asyncio.get_running_loop().time()
        oldest = now - self._limits.max_idle_ms / 1000
        for connection in list(self._connections):
            if connection.last_active < oldest:
                connection.close()
        self._schedule_sweep()

    def stop_accepting(self) -> None:
        """Accept no further clients; the connected ones stay."""
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        self._accepting.clear()

    def disconnect(self) -> None:
        """Close all listeners and connections at once: nothing more is read, handled or sent."""
        self.stop_accepting()
        for timer in (self._sweep, self._rest):
            if timer is not None:
                timer.cancel()
        for transport, timer in self._kept_waiting.items():
            timer.cancel()
            transport.close()
        self._kept_waiting.clear()
        self.receive_budget.stop()
        self.strangers.stop()
        for connection in list(self._connections):
            connection.close()

    async def stop(self) -> None:
        """Close everything, and wait for unfinished work to end."""
        self.disconnect()
        await self._tasks.stop()


def _not_open(client: ConnectedClient, frame: memoryview) -> Response:
    raise AssertionError("No client is connected before the server is open.")
