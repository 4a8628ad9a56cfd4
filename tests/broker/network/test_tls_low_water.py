"""How TLS connections wait for the rest of a request: rarely woken, and never too late."""

import asyncio
import random
import ssl
import struct
from contextlib import suppress

import pytest

from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Response
from tierlog.broker.network.tls_transport import LOW_WATER_BYTES, TlsAcceptor, TlsTransport
from tierlog.clients.protocol.connection import frame as framed
from tierlog.tests.broker.socket_peers import Running, frame, running, saying, until
from tierlog.tests.security.tls.certificates import client_context, server

SIZES = (5, 900, 17_000, 70_000, 300_000)
PATIENCE_S = 20.0


class ByHand:
    """A client that encrypts by hand, so that what it sends can be cut anywhere."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context().wrap_bio(
            self.incoming, self.outgoing, server_hostname="localhost"
        )
        self.plain = b""

    async def shake(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.writer.write(self.outgoing.read())
                self.incoming.write(await self.reader.read(65_536))
        self.writer.write(self.outgoing.read())

    def encrypted(self, plain: bytes) -> bytes:
        self.tls.write(plain)
        return self.outgoing.read()

    async def answer(self) -> bytes:
        """The next answer, which has four bytes."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.plain) < 8:
                with suppress(ssl.SSLWantReadError):
                    self.plain += self.tls.read(65_536)
                    continue
                self.incoming.write(await self.reader.read(65_536))
        answer, self.plain = self.plain[4:8], self.plain[8:]
        return answer


async def connected(broker: Running) -> ByHand:
    client = ByHand(*await asyncio.open_connection("127.0.0.1", broker.port))
    await client.shake()
    return client


def size_of(body: memoryview) -> bytes:
    return struct.pack(">i", len(body))


def at_once_or_later(client: ConnectedClient, request: memoryview) -> Response:
    """Answer every third request after the loop has gone round."""
    size = size_of(request)
    if len(request) % 3:
        return framed([size])
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    return DeferredResponse(done, saying(size))


@pytest.mark.parametrize("seed", range(12))
async def test_however_requests_are_cut_each_is_answered_before_more_is_sent(seed: int) -> None:
    """What comes after the last request would wake a connection that waits for too much."""
    chance = random.Random(seed)
    sizes = [chance.choice(SIZES) + chance.randrange(3) for _ in range(12)]

    async with running(at_once_or_later, tls=TlsAcceptor(server(), PATIENCE_S)) as broker:
        client = await connected(broker)
        while sizes:
            some = [sizes.pop() for _ in range(min(len(sizes), chance.randint(1, 3)))]
            cipher = b"".join(client.encrypted(frame(bytes(size))) for size in some)
            while cipher:
                cut = chance.choice((1, 5, 700, 16_400, 33_000, 500_000))
                client.writer.write(cipher[:cut])
                cipher = cipher[cut:]
                await client.writer.drain()
                await asyncio.sleep(0)
            answers = [await client.answer() for _ in some]
            assert answers == [struct.pack(">i", size) for size in some]
        client.writer.close()


async def test_a_large_request_wakes_the_connection_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    wait_for = TlsTransport._wait_for  # pyright: ignore[reportPrivateUsage]  # no call shows it

    def note(transport: TlsTransport, nbytes: int) -> None:
        asked.append(min(nbytes, LOW_WATER_BYTES))
        wait_for(transport, nbytes)

    monkeypatch.setattr(TlsTransport, "_wait_for", note)

    async with running(at_once_or_later, tls=TlsAcceptor(server(), PATIENCE_S)) as broker:
        client = await connected(broker)
        client.writer.write(client.encrypted(frame(b"first")))
        assert await client.answer() == struct.pack(">i", 5)
        asked.clear()
        cipher = client.encrypted(frame(bytes(100_000)))
        client.writer.write(cipher[:20_000])
        await until(lambda: asked[-1:] == [LOW_WATER_BYTES])
        client.writer.write(cipher[20_000:-10])
        await until(lambda: asked[-1] == 10)
        client.writer.write(cipher[-10:])
        assert await client.answer() == struct.pack(">i", 100_000)
        assert asked[-1] <= 1
        assert len(asked) <= 3 + len(cipher) // LOW_WATER_BYTES + 1
        client.writer.close()
