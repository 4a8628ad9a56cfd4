"""Clients that have sent their last and still listen: they are answered, as by Kafka, and then the
connection ends.

What such a client waits for is given up, and with it what is behind: whether it still listens
nobody can know.
"""

import asyncio
import socket

from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Response
from tierlog.tests.broker.socket_peers import Running, echo, frame, running, saying

_LARGE = 32 << 20
"""More than the systems of both ends keep of what is not taken."""


def large(client: ConnectedClient, request: memoryview) -> Response:
    """Far more than was asked for."""
    return [frame(bytes(_LARGE))]


async def all_that_comes(broker: Running, requests: bytes) -> bytes:
    """What a client is sent that half-closes behind its requests and then takes its time."""
    loop = asyncio.get_running_loop()
    client = socket.create_connection(("127.0.0.1", broker.port))
    client.setblocking(False)
    with client:
        await loop.sock_sendall(client, requests)
        client.shutdown(socket.SHUT_WR)
        received = bytearray()
        async with asyncio.timeout(30):
            while piece := await loop.sock_recv(client, 1 << 20):
                received += piece
                # The server has its turn while there is something to be taken.
                await asyncio.sleep(0)
        return bytes(received)


async def test_all_requests_before_the_end_of_the_stream_are_answered() -> None:
    async with running(echo) as broker:
        requests = b"".join(frame(b"%d" % each) for each in range(1_000))
        assert await all_that_comes(broker, requests) == requests
        assert await all_that_comes(broker, requests + b"\0\0\1") == requests


async def test_an_answer_that_is_larger_than_what_is_taken_at_once_comes_whole() -> None:
    async with running(large) as broker:
        assert len(await all_that_comes(broker, frame(b"x"))) == 4 + _LARGE


async def test_what_is_behind_a_request_that_is_given_up_is_dropped() -> None:
    done: list[bytes] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        done.append(bytes(request))
        if bytes(request) != b"wait":
            return [frame(bytes(request))]
        return DeferredResponse(asyncio.get_running_loop().create_future(), saying(b"never"))

    async with running(answer) as broker:
        requests = [b"first", b"wait", b"second", b"third"]
        received = await all_that_comes(broker, b"".join(map(frame, requests)))
        assert received == frame(b"first")
        assert done == [b"first", b"wait"]


async def test_an_answer_that_a_half_closed_client_does_not_take_counts() -> None:
    gate = asyncio.Event()
    is_answering = asyncio.Event()

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        if bytes(request) != b"large":
            return echo(client, request)
        is_answering.set()
        return DeferredResponse(gate.wait(), saying(bytes(_LARGE)))

    async with running(answer) as broker:
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(frame(b"large"))
            await is_answering.wait()
            client.shutdown(socket.SHUT_WR)
            other = await broker.connect()
            assert await other.ask(b"of another") == b"of another"
            gate.set()
            assert await other.ask(b"of another") == b"of another"
            assert broker.server.unsent_responses.held > _LARGE // 2
