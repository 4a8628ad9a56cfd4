"""Every kind of listener in front of a real broker: four protocols, for clients and controllers.

Nothing is left out but the wire: a plain connection hands its bytes to the server directly, and one
with TLS through a pair of sockets.
"""

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from tierlog.bench.harness.requests.probe import free_port
from tierlog.broker.broker import Broker
from tierlog.broker.config.config import read_config
from tierlog.broker.dispatch.apis import Apis
from tierlog.broker.metrics.metrics import Metrics
from tierlog.broker.network.sasl_gate import SaslLimits, SaslListener, SaslMetrics
from tierlog.broker.network.socket_listener import Endpoint
from tierlog.broker.network.socket_server import ConnectionLimits, SocketServer
from tierlog.broker.network.tls_transport import TlsAcceptor
from tierlog.broker.network.transport import (
    AttachableTransport,
    Listener,
    Network,
    OnConnected,
    Receiver,
    Securing,
    SharedScratch,
)
from tierlog.clients.kafka_uuid import Uuid
from tierlog.clients.protocol.schema import Chunk
from tierlog.security.sasl.authenticator import OfferedMechanism
from tierlog.security.session import SecurityProtocol
from tierlog.storage.directory.log_dir import LogDir, MetaProperties
from tierlog.storage.files import OsFiles
from tierlog.tests.security.sasl.sasl_frames import plain
from tierlog.tests.security.tls.certificates import client_context, server

PROTOCOLS: tuple[SecurityProtocol, ...] = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
BROKER, CONTROLLER = "NODES", "CONTROL"
"""The names of the listeners."""
_TURNS_MAX = 20_000
"""An answer needs a few turns of the loop."""


def _sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


class Line(Protocol):
    """A client's end of one connection."""

    transport: AttachableTransport

    async def send(self, frame: bytes, sent: int | None = None) -> None:
        """Send a frame, which is given without its size: that many bytes of it, or all."""
        ...

    async def answer(self) -> bytes | None:
        """The next frame; None if the server has closed the connection before one."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed the connection."""
        ...

    def leave(self) -> None:
        """Close the connection."""
        ...


class _Frames:
    """Cuts what arrives into frames."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def next(self) -> bytes | None:
        if len(self.bytes) < 4:
            return None
        (size,) = struct.unpack_from(">i", self.bytes)
        if len(self.bytes) < 4 + size:
            return None
        frame = bytes(self.bytes[4 : 4 + size])
        del self.bytes[: 4 + size]
        return frame


class MemoryTransport:
    """A `Transport` that hands bytes over in memory."""

    peer_host = "127.0.0.1"
    unsent_bytes = 0

    def __init__(self) -> None:
        self.receiver: Receiver | None = None
        self.is_closed = False
        self.arrived = _Frames()

    def attach(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            assert isinstance(chunk, (bytes, bytearray, memoryview))
            self.arrived.bytes += chunk

    def flush(self) -> bool:
        return True

    def pause_reading(self) -> None:
        """Nothing is sent before the last answer has arrived."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def read_ahead(self) -> memoryview | None:
        return None

    def close(self) -> None:
        receiver, self.receiver, self.is_closed = self.receiver, None, True
        if receiver is not None:
            receiver.disconnected()

    end = close


class PlainLine:
    """A connection in plain text."""

    def __init__(self, on_connected: OnConnected) -> None:
        self.memory = MemoryTransport()
        self.transport: AttachableTransport = self.memory
        on_connected(self.memory)

    async def send(self, frame: bytes, sent: int | None = None) -> None:
        assert self.memory.receiver is not None, "The server has closed the connection."
        self.memory.receiver.received(memoryview(_sized(frame)[:sent]))

    async def answer(self) -> bytes | None:
        for _ in range(_TURNS_MAX):
            frame = self.memory.arrived.next()
            if frame is not None or self.memory.is_closed:
                return frame
            await asyncio.sleep(0)
        raise AssertionError("There is no answer.")

    @property
    def is_closed(self) -> bool:
        return self.memory.is_closed

    def leave(self) -> None:
        self.memory.close()


class TlsLine:
    """A connection with TLS."""

    def __init__(
        self, on_connected: OnConnected, secured: Securing, scratch: SharedScratch
    ) -> None:
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        self._socket = ours
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = _context()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._frames = _Frames()
        self.is_closed = False
        self.transport = secured.accept(theirs, "127.0.0.1", scratch)
        on_connected(self.transport)

    async def shake(self) -> None:
        """Complete the handshake."""
        for _ in range(_TURNS_MAX):
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._exchange()
        raise AssertionError("The handshake does not end.")

    async def _exchange(self) -> None:
        if self._outgoing.pending:
            with suppress(ConnectionError):
                self._socket.send(self._outgoing.read())
        await asyncio.sleep(0)
        try:
            arrived = self._socket.recv(65_536)
        except BlockingIOError:
            return
        except ConnectionError:
            arrived = b""
        self._incoming.write(arrived)
        self.is_closed |= not arrived

    async def send(self, frame: bytes, sent: int | None = None) -> None:
        self._tls.write(_sized(frame)[:sent])
        await self._exchange()

    def begin_handshake(self) -> None:
        """Send the first half of the handshake's first message."""
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        hello = self._outgoing.read()
        self._socket.send(hello[: len(hello) // 2])

    async def answer_to_plain_text(self, frame: bytes) -> bytes:
        """All bytes that come back for a frame without TLS, until the server closes."""
        self._socket.send(_sized(frame))
        content = b""
        for _ in range(_TURNS_MAX):
            await asyncio.sleep(0)
            with suppress(BlockingIOError):
                try:
                    arrived = self._socket.recv(65_536)
                except ConnectionResetError:
                    # What the server has not read makes the system say so.
                    arrived = b""
                if not arrived:
                    return content
                content += arrived
        raise AssertionError("The server does not close the connection.")

    async def answer(self) -> bytes | None:
        for _ in range(_TURNS_MAX):
            with suppress(ssl.SSLWantReadError, ssl.SSLEOFError):
                while content := self._tls.read(65_536):
                    self._frames.bytes += content
            frame = self._frames.next()
            if frame is not None or self.is_closed:
                return frame
            await self._exchange()
        raise AssertionError("There is no answer.")

    def strand(self) -> None:
        """Drop the client's side but for its socket: what is left in memory is the server's."""
        del self._tls, self._incoming, self._outgoing

    def leave(self) -> None:
        self._socket.close()
        self.transport.close()


_contexts: list[ssl.SSLContext] = []


def _context() -> ssl.SSLContext:
    if not _contexts:
        _contexts.append(client_context())
    return _contexts[0]


class _Listening:
    """A listener in memory."""

    port = 1

    def pause_accepting(self) -> None:
        """Nobody waits."""

    resume_accepting = close = pause_accepting


class MemoryNetwork:
    """A `Network` of one listener, to which `connect` leads."""

    def __init__(self) -> None:
        self._on_connected: deque[OnConnected] = deque()
        self._secured: Securing | None = None
        self._scratch = SharedScratch()

    async def listen(
        self, host: str, port: int, on_connected: OnConnected, secured: Securing | None = None
    ) -> Listener:
        self._on_connected.append(on_connected)
        self._secured = secured
        return _Listening()

    async def connect(self, *, shakes: bool = True) -> PlainLine | TlsLine:
        """A new client; over TLS it has completed the handshake if it `shakes`."""
        (on_connected,) = self._on_connected
        if self._secured is None:
            return PlainLine(on_connected)
        line = TlsLine(on_connected, self._secured, self._scratch)
        if shakes:
            await line.shake()
        return line


class Kind(NamedTuple):
    """A listener of one kind."""

    name: str
    protocol: SecurityProtocol
    server: SocketServer
    metrics: Metrics
    port: int

    @property
    def connection_count(self) -> int:
        """How many connections the server has."""
        server = "kafka.server:type=socket-server-metrics,name=connection-count"
        return int(dict(self.metrics.read())[server])

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


async def _broker(folder: Path) -> Broker:
    """A broker that is its own controller."""
    meta = MetaProperties("5L6g3nShT-eMCtK--X86sw", 1, Uuid(bytes([1]) * 16))
    LogDir(OsFiles(), str(folder)).write_meta_properties(meta)
    port = free_port()
    stated = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": BROKER,
        "listeners": f"{BROKER}://127.0.0.1:0,{CONTROLLER}://127.0.0.1:{port}",
        "listener.security.protocol.map": f"{BROKER}:PLAINTEXT,{CONTROLLER}:PLAINTEXT",
        "log.dirs": str(folder),
    }
    broker = Broker(read_config(stated))
    await broker.start()
    return broker


@asynccontextmanager
async def started_broker(folder: Path) -> AsyncGenerator[Apis]:
    """The dispatch of a running broker."""
    broker = await _broker(folder)
    try:
        assert broker.context is not None
        yield Apis(broker.context)
    finally:
        await broker.stop()


@asynccontextmanager
async def kind_of(
    apis: Apis,
    network: Network,
    name: str,
    protocol: SecurityProtocol,
    failure_delay_s: float = 0.0,
) -> AsyncGenerator[Kind]:
    """A listener of that name and protocol in front of the broker, until the end."""
    metrics = Metrics()
    listening = SocketServer(network, ConnectionLimits(), metrics)
    acceptor = TlsAcceptor(server(), 60.0, protocol)
    tls = {name: acceptor} if protocol.endswith("SSL") else {}
    ports = await listening.bind([Endpoint(name, "127.0.0.1", 0)], tls)
    logins: dict[str, SaslListener] = {}
    if protocol.startswith("SASL_"):
        offered = {"PLAIN": OfferedMechanism(plain())}
        limits = SaslLimits(failure_delay_s=failure_delay_s)
        logins[name] = SaslListener(protocol, offered, limits, SaslMetrics(metrics), lambda: 0)
    listening.open(apis.answer, logins)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(listening.stop)
        yield Kind(name, protocol, listening, metrics, ports[name])
