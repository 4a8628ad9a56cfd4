"""A muted client: its response is sent at once, and its next request is read later."""

import asyncio
import socket

from tierlog.broker.dispatch.muting import mute_after, muted
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Response
from tierlog.tests.broker.socket_peers import frame, running, saying, until

_LARGE = 32 << 20
"""More than the systems of both ends keep of what is not taken."""


async def test_a_muted_client_that_reads_nothing_gets_no_further_responses() -> None:
    answered: list[bytes] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        answered.append(bytes(request))
        return muted(asyncio.get_running_loop(), [frame(bytes(_LARGE))], 0.02)

    async with running(answer) as broker:
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.setblocking(False)
            for _ in range(10):
                await loop.sock_sendall(client, frame(b"fetch"))
                await asyncio.sleep(0.05)
            assert len(answered) == 1


async def test_a_half_closed_client_gets_the_responses_after_a_mute() -> None:
    def answer(client: ConnectedClient, request: memoryview) -> Response:
        response = [frame(bytes(request))]
        if bytes(request) != b"fetch":
            return response
        return muted(asyncio.get_running_loop(), response, 0.1)

    async with running(answer) as broker:
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.setblocking(False)
            requests = b"".join(map(frame, (b"fetch", b"commit", b"fetch", b"leave")))
            await loop.sock_sendall(client, requests)
            client.shutdown(socket.SHUT_WR)
            received = bytearray()
            async with asyncio.timeout(10):
                while piece := await loop.sock_recv(client, 1 << 16):
                    received += piece
            assert received == requests


async def test_a_client_is_muted_after_a_response_that_comes_later() -> None:
    loop = asyncio.get_running_loop()
    handled: list[bytes] = []
    work: asyncio.Future[object] = loop.create_future()

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        handled.append(bytes(request))
        if len(handled) > 1:
            return [frame(b"second")]
        return mute_after(loop, DeferredResponse(work, saying(b"first")), 0.1)

    async with running(answer) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(b"1") + frame(b"2"))
        await until(lambda: bool(handled))
        began = loop.time()
        work.set_result(None)
        assert await peer.answer() == b"first"
        assert await peer.answer() == b"second"
        assert loop.time() - began >= 0.1
