"""A client that leaves while its request waits: whatever the broker has begun for it ends.

Its connection is released at once, nothing unexpected is reported to the loop, and no request
behind the one that waits is handled.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Generator
from typing import cast

import pytest

from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Response, Work
from tierlog.broker.request.large_requests import LargeRequests
from tierlog.tests.broker.socket_peers import frame, running, saying, until

WAIT = b"\0\0wait"
"""It begins like a Produce, so that it may be owed."""


def future() -> "asyncio.Future[object]":
    return asyncio.get_running_loop().create_future()


def gathered() -> "asyncio.Future[object]":
    return cast("asyncio.Future[object]", asyncio.gather(future(), future()))


def shielded() -> Work:
    return asyncio.shield(future())


def in_slices() -> Work:
    def work() -> Generator[None, None, object]:
        while True:
            yield

    return LargeRequests().submit(work())


def in_time() -> Work:
    async def work() -> None:
        await asyncio.sleep(0.05)

    return work()


FORMS: list[Callable[[], Work]] = [future, gathered, shielded, in_slices, in_time]


@pytest.mark.parametrize("is_pipelined", [False, True])
@pytest.mark.parametrize("form", FORMS)
async def test_all_that_was_begun_for_a_client_ends_when_it_leaves(
    form: Callable[[], Work], is_pipelined: bool, caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[bytes] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        handled.append(bytes(request))
        work = form()
        may_be_deferred = is_pipelined and isinstance(work, asyncio.Future)
        return DeferredResponse(work, saying(b"done"), is_pipelined=may_be_deferred)

    async with running(answer) as broker:
        for _ in range(30):
            with socket.create_connection(("127.0.0.1", broker.port)) as client:
                client.sendall(frame(WAIT))
                await until(lambda: broker.metric("connection-count") == 1)
                await until(lambda: bool(handled))
                handled.clear()
                client.sendall(frame(b"\1\1behind") * 100)
            await until(lambda: broker.metric("connection-count") == 0)
        assert broker.server.receive_budget.used == 0
    assert not handled
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_a_response_that_is_made_in_several_steps_ends_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun: list[asyncio.Future[object]] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        first = future()
        asyncio.get_running_loop().call_soon(first.set_result, None)

        def respond(_: asyncio.Future[object]) -> Response:
            begun.append(gathered())
            return DeferredResponse(begun[-1], saying(b"done"))

        return DeferredResponse(first, respond)

    async with running(answer) as broker:
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(frame(b"\1\1"))
            await until(lambda: bool(begun))
        await until(lambda: broker.metric("connection-count") == 0)
        assert begun[0].done()
    assert not caplog.records


async def test_the_responses_before_the_one_that_waits_are_sent_whole() -> None:
    """A client that has only closed its sending side still reads them."""
    large = bytes(32 << 20)

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        if bytes(request) == b"\1large":
            return [frame(large)]
        return DeferredResponse(gathered(), saying(b"never"))

    loop = asyncio.get_running_loop()
    async with running(answer) as broker:
        client = socket.create_connection(("127.0.0.1", broker.port))
        client.setblocking(False)
        with client:
            await loop.sock_sendall(client, frame(b"\1large") + frame(WAIT) + frame(WAIT))
            client.shutdown(socket.SHUT_WR)
            received = 0
            while piece := await loop.sock_recv(client, 1 << 20):
                received += len(piece)
            assert received == len(frame(large))
