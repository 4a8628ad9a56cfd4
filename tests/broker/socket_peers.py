"""A socket server under test, and the peers that connect to it over real sockets."""

import asyncio
import ssl
import struct
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tierlog.broker.metrics.metrics import Metrics
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import Response
from tierlog.broker.network.sasl_gate import SaslListener
from tierlog.broker.network.socket_listener import Endpoint, SocketNetwork, SocketOptions
from tierlog.broker.network.socket_server import ConnectionLimits, SocketServer
from tierlog.broker.network.tls_transport import TlsAcceptor
from tierlog.broker.network.transport import Network
from tierlog.clients.protocol.connection import frame as framed
from tierlog.clients.protocol.schema import Chunk


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def echo(client: ConnectedClient, request: memoryview) -> Response:
    return framed([bytes(request)])


def saying(body: bytes) -> Callable[[asyncio.Future[object]], Sequence[Chunk]]:
    def respond(done: asyncio.Future[object]) -> Sequence[Chunk]:
        return framed([body])

    return respond


@dataclass
class Peer:
    """A client that speaks frames."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, body: bytes) -> bytes:
        self.writer.write(frame(body))
        return await self.answer()

    async def answer(self) -> bytes:
        async with asyncio.timeout(60):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def is_closed_by_the_server(self) -> bool:
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                return await self.reader.read(1) == b""
            return True


@dataclass
class Running:
    """A started server, and the peers that tests connect to it."""

    server: SocketServer
    port: int
    metrics: Metrics
    peers: list[Peer] = field(default_factory=list[Peer])

    async def connect(self, tls: ssl.SSLContext | None = None) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port, ssl=tls))
        self.peers.append(peer)
        return peer

    def metric(self, name: str) -> float:
        return dict(self.metrics.read())[f"kafka.server:type=socket-server-metrics,name={name}"]


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 -- the condition has no event of its own
            await asyncio.sleep(0)


NO_LIMITS = ConnectionLimits()


@asynccontextmanager
async def running(
    answer: Callable[[ConnectedClient, memoryview], Response] = echo,
    limits: ConnectionLimits = NO_LIMITS,
    network: Network | None = None,
    tls: TlsAcceptor | None = None,
    sasl: SaslListener | None = None,
) -> AsyncGenerator[Running]:
    metrics = Metrics()
    server = SocketServer(network or SocketNetwork(SocketOptions()), limits, metrics)
    secured = {} if tls is None else {"PLAINTEXT": tls}
    ports = await server.bind([Endpoint("PLAINTEXT", "127.0.0.1", 0)], secured)
    server.open(answer, {} if sasl is None else {"PLAINTEXT": sasl})
    started = Running(server, ports["PLAINTEXT"], metrics)
    try:
        yield started
    finally:
        await server.stop()
        for peer in started.peers:
            peer.writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await peer.writer.wait_closed()
