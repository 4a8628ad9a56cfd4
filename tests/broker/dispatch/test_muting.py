"""A muted client: its response is sent at once, and its next request is read later."""

import asyncio
import socket

from tierlog.broker.dispatch.muting import muted
from tierlog.broker.network.connection import ConnectedClient, Response
from tierlog.tests.broker.socket_peers import frame, running

_LARGE = 32 << 20
"""More than the systems of both ends keep of what is not taken."""


def test_a_muted_client_that_reads_nothing_gets_no_further_responses() -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_a_half_closed_client_gets_the_responses_after_a_mute() -> None:
    async def story() -> None:
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

    asyncio.run(story())
