"""Produce requests that wait for followers hold up neither each other nor the order of answers."""

import asyncio
from collections.abc import Callable

import pytest

from tierlog.broker.network.connection import ConnectedClient, DeferredResponse, Response
from tierlog.broker.network.ordered_answers import OWED_MAX
from tierlog.broker.network.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.network.transport import Network, StreamNetwork
from tierlog.clients.protocol.connection import frame as framed
from tierlog.tests.broker.socket_peers import frame, running, saying, until

NETWORKS: list[Callable[[], Network]] = [lambda: SocketNetwork(SocketOptions()), StreamNetwork]


class Gates:
    """Answers each request: `p…` waits with others behind it, `w…` alone, the rest at once."""

    def __init__(self) -> None:
        self.gates: dict[bytes, asyncio.Future[object]] = {}
        self.handled: list[bytes] = []

    def answer(self, client: ConnectedClient, request: memoryview) -> Response:
        body = bytes(request)
        self.handled.append(body)
        if body[:1] not in (b"p", b"w"):
            return framed([body])
        gate = self.gates[body] = asyncio.get_running_loop().create_future()
        return DeferredResponse(gate, saying(body), is_pipelined=body[:1] == b"p")

    def is_ahead(self, requests: list[bytes]) -> bool:
        """Whether as many of the requests as may be are handled."""
        done = sum(gate.done() for gate in self.gates.values())
        return len(self.gates) == min(done + OWED_MAX, len(requests))

    def open(self, *bodies: bytes) -> None:
        for body in bodies:
            self.gates[body].set_result(None)


@pytest.mark.parametrize("network", NETWORKS)
def test_what_is_ready_first_is_answered_in_the_order_of_the_requests(
    network: Callable[[], Network],
) -> None:
    async def story() -> None:
        gates = Gates()
        async with running(gates.answer, network=network()) as broker:
            peer = await broker.connect()
            requests = [b"p1", b"at once", b"p2", b"p3"]
            peer.writer.write(b"".join(map(frame, requests)))
            await until(lambda: gates.handled == requests)
            gates.open(b"p2", b"p3")
            other = await broker.connect()
            assert await other.ask(b"of another") == b"of another"
            gates.open(b"p1")
            assert [await peer.answer() for _ in requests] == requests
            assert await peer.ask(b"next") == b"next"

    asyncio.run(story())


@pytest.mark.parametrize("network", NETWORKS)
def test_only_so_many_requests_are_handled_ahead(network: Callable[[], Network]) -> None:
    async def story() -> None:
        gates = Gates()
        async with running(gates.answer, network=network()) as broker:
            peer = await broker.connect()
            requests = [b"p%d" % number for number in range(OWED_MAX + 2)]
            peer.writer.write(b"".join(map(frame, requests)))
            await until(lambda: len(gates.handled) == OWED_MAX)
            other = await broker.connect()
            assert await other.ask(b"of another") == b"of another"
            assert gates.handled == [*requests[:OWED_MAX], b"of another"]
            for request in requests:
                gates.open(request)
                assert await peer.answer() == request
                await until(lambda: gates.is_ahead(requests))

    asyncio.run(story())


def test_a_request_that_waits_alone_is_answered_after_those_before_it() -> None:
    async def story() -> None:
        gates = Gates()
        async with running(gates.answer) as broker:
            peer = await broker.connect()
            requests = [b"p1", b"w2", b"behind"]
            peer.writer.write(b"".join(map(frame, requests)))
            await until(lambda: b"w2" in gates.gates)
            gates.open(b"w2")
            other = await broker.connect()
            assert await other.ask(b"of another") == b"of another"
            assert b"behind" not in gates.handled
            gates.open(b"p1")
            assert [await peer.answer() for _ in requests] == requests

    asyncio.run(story())


def test_nothing_waits_for_a_client_that_has_gone() -> None:
    async def story() -> None:
        gates = Gates()
        async with running(gates.answer) as broker:
            peer = await broker.connect()
            peer.writer.write(frame(b"p1") + frame(b"p2"))
            await until(lambda: len(gates.gates) == 2)
            peer.writer.close()
            await until(lambda: all(gate.cancelled() for gate in gates.gates.values()))

    asyncio.run(story())
