"""The gate of a listener with SASL: who has not proven who it is gets nothing but the exchange.

The gate stands between one connection and the server. It decides on each frame whether it belongs
to the authentication (`security/sasl/authenticator.py`, which knows no sockets) or to the server.
A failed client waits for its answer, so that passwords cannot be guessed quickly; its connection
is not read meanwhile, and counts as a connection (KIP-306). A session that has ended closes the
connection at its next request, unless that begins a re-authentication (KIP-368).

A listener without SASL has no gate, and no cost.
"""

import asyncio
from collections.abc import Callable, Mapping
from struct import Struct as Format
from typing import NamedTuple

from ...clients.protocol.api import ApiKey
from ...clients.protocol.schema import Chunk
from ...security.sasl.authenticator import Now, OfferedMechanism, Reply, SaslAuthenticator
from ...security.sasl.transitions import SaslState
from ...security.session import SecurityProtocol, Session
from ..metrics.metrics import Metrics
from .connection import ConnectedClient, Connection, ConnectionOwner
from .receive_budget import ReceiveBudget, UnsentResponses
from .response import DeferredResponse, Refused, Response, Work
from .transport import Transport
from .turns import Turns

_KEY = Format(">h")
_LINGER_S = 0.1
"""How long a failed connection stays open after its answer: some clients, such as kafka-python,
lose an answer that arrives together with the end."""
_SERVER = "kafka.server:type=socket-server-metrics"


class SaslLimits(NamedTuple):
    """The bounds of an authentication."""

    max_receive_bytes: int = 524_288
    """The largest frame before the client is authenticated (`sasl.server.max.receive.size`)."""
    failure_delay_s: float = 0.1
    """How long a failed client waits (`connection.failed.authentication.delay.ms`)."""


class SaslMetrics:
    """What is counted of authentications, under Kafka's names (`Selector.SelectorMetrics`)."""

    def __init__(self, metrics: Metrics) -> None:
        def count(name: str) -> Callable[[], None]:
            return metrics.counter(f"{_SERVER},name={name}").add

        self.succeeded = count("successful-authentication-total")
        self.failed = count("failed-authentication-total")
        self.succeeded_again = count("successful-reauthentication-total")
        self.failed_again = count("failed-reauthentication-total")
        self.succeeded_once = count("successful-authentication-no-reauth-total")
        """Of clients that cannot re-authenticate: their version has no lifetime."""
        self.expired = count("expired-connections-killed-count")


class SaslListener(NamedTuple):
    """What the connections of one listener share."""

    protocol: SecurityProtocol
    offered: Mapping[str, OfferedMechanism]
    limits: SaslLimits
    metrics: SaslMetrics
    wall_clock_ms: Callable[[], int]

    def gate(
        self,
        owner: ConnectionOwner,
        client: ConnectedClient,
        strangers: ReceiveBudget,
        max_request_bytes: int,
    ) -> "SaslGate":
        """The gate of a new client, whose session becomes that of nobody.

        `strangers` is charged for what the client sends before it is authenticated; afterwards, its
        requests may have `max_request_bytes`.
        """
        client.session = Session(protocol=self.protocol)
        return SaslGate(self, owner, client, strangers, max_request_bytes)


class SaslGate:
    """The `ConnectionOwner` of one connection of a SASL listener."""

    __slots__ = (
        "_authenticator",
        "_client",
        "_connection",
        "_is_open",
        "_listener",
        "_loop",
        "_max_request_bytes",
        "_owner",
        "_strangers",
    )

    def __init__(
        self,
        listener: SaslListener,
        owner: ConnectionOwner,
        client: ConnectedClient,
        strangers: ReceiveBudget,
        max_request_bytes: int,
    ) -> None:
        self._listener = listener
        self._strangers = strangers
        self._owner = owner
        self._client = client
        self._authenticator = SaslAuthenticator(client.session, listener.offered)
        self._is_open = False
        """Whether requests go to the server."""
        self._loop = asyncio.get_running_loop()
        self._max_request_bytes = max_request_bytes
        self._connection: Connection | None = None

    def connect(self, transport: Transport) -> Connection:
        """The client's connection, of which this gate is the owner."""
        limit = self._listener.limits.max_receive_bytes
        connection = self._connection = Connection(transport, self._client, self, limit)
        return connection

    def answer(self, client: ConnectedClient, frame: memoryview) -> Response:
        """Answer a frame. Raises Refused or ProtocolError if the connection must be closed."""
        if not self._is_open:
            return self._authenticate(frame)
        key = _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else -1
        if key == ApiKey.SASL_HANDSHAKE and self._authenticator.may_authenticate_again(self._now()):
            self._is_open = False
            return self._authenticate(frame)
        expires_at = client.session.expires_at
        if expires_at is not None and self._loop.time() > expires_at:
            self._listener.metrics.expired()
            raise Refused("its session has expired, and it has not authenticated again")
        return self._owner.answer(client, frame)

    def _now(self) -> Now:
        return Now(self._loop.time(), self._listener.wall_clock_ms())

    def _authenticate(self, frame: memoryview) -> Response:
        limit = self._listener.limits.max_receive_bytes
        if len(frame) > limit:
            self._count(has_failed=True)
            raise Refused(
                f"a frame of {len(frame)} bytes before it is authenticated; the limit is {limit} "
                "(sasl.server.max.receive.size)"
            )
        sasl = self._authenticator
        reply = sasl.receive(frame, self._now())
        if reply.failure:
            return self._fail(reply)
        if reply.asks_for_versions:
            return self._owner.answer(self._client, frame)
        if sasl.state is SaslState.COMPLETE:
            self._open()
        return reply.answer

    def _open(self) -> None:
        """Let the client in."""
        self._client.session = self._authenticator.session
        self._is_open = True
        self._count(has_failed=False)
        if self._connection is not None and not self._authenticator.is_reauthenticating:
            self._connection.accept_larger_requests(
                self._max_request_bytes, self._owner.receive_budget
            )

    def _fail(self, reply: Reply) -> Response:
        self._count(has_failed=True)
        if not reply.is_delayed:
            raise Refused(reply.failure)

        def close(_: asyncio.Future[object]) -> list[Chunk]:
            raise Refused(reply.failure)

        def send_answer(_: asyncio.Future[object]) -> DeferredResponse:
            return DeferredResponse(self._later(_LINGER_S), close, reply.answer)

        delay_s = self._listener.limits.failure_delay_s
        return DeferredResponse(self._later(delay_s), send_answer if reply.answer else close)

    def _later(self, seconds: float) -> "asyncio.Future[object]":
        """Done after that time; cancelled if the client leaves before."""
        wake: asyncio.Future[object] = self._loop.create_future()
        timer = self._loop.call_later(seconds, _wake, wake)
        wake.add_done_callback(lambda _: timer.cancel())
        return wake

    def _count(self, *, has_failed: bool) -> None:
        metrics, is_again = self._listener.metrics, self._authenticator.is_reauthenticating
        if has_failed:
            (metrics.failed_again if is_again else metrics.failed)()
        elif is_again:
            metrics.succeeded_again()
        else:
            metrics.succeeded()
            if not self._authenticator.is_lifetime_known:
                metrics.succeeded_once()

    def adopt(self, work: Work) -> asyncio.Future[object]:
        """Let the server own the work."""
        return self._owner.adopt(work)

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection.

        Its buffers are freed at once: a cycle would keep them until the next garbage collection.
        """
        self._connection = None
        self._owner.forget(connection)

    @property
    def receive_budget(self) -> ReceiveBudget:
        """The server's budget for requests before authentication."""
        return self._strangers

    @property
    def unsent_responses(self) -> UnsentResponses:
        """The server's budget for responses."""
        return self._owner.unsent_responses

    @property
    def turns(self) -> Turns:
        """The server's queue."""
        return self._owner.turns

    def report(self, client: ConnectedClient, reason: str) -> None:
        """Log why a connection is closed."""
        self._owner.report(client, reason)


def _wake(future: "asyncio.Future[object]") -> None:
    if not future.done():
        future.set_result(None)
