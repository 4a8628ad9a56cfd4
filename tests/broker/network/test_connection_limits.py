"""Who may connect, how many and how fast, and who has been silent for too long."""

import asyncio
import struct

from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.connection_rates import ConnectionRates
from tierlog.broker.network.response import DeferredResponse, Response
from tierlog.broker.network.socket_server import ConnectionLimits
from tierlog.clients.protocol.connection import frame as framed
from tierlog.tests.broker.socket_peers import frame, running, saying, until


async def test_one_address_may_open_only_so_many_connections() -> None:
    limits = ConnectionLimits(max_connections_per_ip=2)
    async with running(limits=limits) as broker:
        first, second = await broker.connect(), await broker.connect()
        await first.ask(b"1")
        await second.ask(b"2")
        third = await broker.connect()
        assert await third.is_closed_by_the_server()
        first.writer.close()
        await first.writer.wait_closed()
        await until(lambda: broker.metric("connection-count") == 1)
        fourth = await broker.connect()
        assert await fourth.ask(b"4") == b"4"


async def test_an_override_lifts_the_limit_of_one_address() -> None:
    limits = ConnectionLimits(
        max_connections_per_ip=0, max_connections_per_ip_overrides={"127.0.0.1": 5}
    )
    async with running(limits=limits) as broker:
        assert await (await broker.connect()).ask(b"1") == b"1"


async def test_further_clients_wait_until_there_is_room() -> None:
    async with running(limits=ConnectionLimits(max_connections=1)) as broker:
        first = await broker.connect()
        await first.ask(b"1")
        second = await broker.connect()
        second.writer.write(frame(b"2"))
        assert await first.ask(b"still") == b"still"
        assert broker.metric("connection-count") == 1
        first.writer.close()
        assert await second.answer() == b"2"


async def test_clients_that_come_too_fast_wait_in_the_backlog_and_are_all_served() -> None:
    async with running(limits=ConnectionLimits(max_creation_rate=1)) as here:
        for _ in range(10):
            assert await (await here.connect()).ask(b"x") == b"x"
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(3):
            assert await (await here.connect()).ask(b"x") == b"x"
        # After the twelfth in the first seconds nobody is accepted for a second at least.
        assert loop.time() - begun > 0.9


async def test_waiting_clients_get_no_answer_and_close_with_the_server() -> None:
    loop = asyncio.get_running_loop()
    async with running() as here:
        here.server.rates.address_limit = lambda address: 0.1
        peer = await here.connect()
        while here.metric("connection-refused-total") < 1:
            peer = await here.connect()
            await asyncio.sleep(0.01)
        begun = loop.time()
        peer.writer.write(frame(b"x"))
        assert await peer.is_closed_by_the_server()
        assert loop.time() - begun > 0.5
        last = await here.connect()
    assert await last.is_closed_by_the_server()


async def test_an_address_above_its_rate_is_closed_and_served_again_within_it() -> None:
    async with running() as here:
        here.server.rates.address_limit = lambda address: 1.0
        for _ in range(10):
            assert await (await here.connect()).ask(b"x") == b"x"
        refused = 0
        while refused < 5:
            peer = await here.connect()
            try:
                assert await peer.ask(b"x") == b"x"
            except (asyncio.IncompleteReadError, ConnectionError):
                refused += 1
        here.server.rates.address_limit = lambda address: None
        assert await (await here.connect()).ask(b"x") == b"x"


def test_an_address_gets_its_rate_however_often_it_tries() -> None:
    rates = ConnectionRates()
    rates.address_limit = lambda address: 1.0
    served = [n for n in range(1_000) if rates.delay_s("10.0.0.7", n / 10) == 0]
    # 100 seconds, and the first 10 connections at once.
    assert 100 <= len(served) <= 110


async def test_a_silent_connection_is_closed_and_a_half_request_counts_as_silence() -> None:
    async with running(limits=ConnectionLimits(max_idle_ms=200)) as broker:
        silent, half = await broker.connect(), await broker.connect()
        half.writer.write(struct.pack(">i", 100) + b"only the beginning")
        assert await silent.is_closed_by_the_server()
        assert await half.is_closed_by_the_server()


async def test_a_connection_that_waits_for_its_answer_is_silent_as_well() -> None:
    """As in Kafka, whose selector counts bytes and knows nothing of requests in progress."""
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        return DeferredResponse(gate, saying(b"late"))

    async with running(answer, ConnectionLimits(max_idle_ms=100)) as broker:
        waiting = await broker.connect()
        waiting.writer.write(frame(b"x"))
        assert await waiting.is_closed_by_the_server()
        assert gate.cancelled()


async def test_a_client_that_never_reads_its_answer_is_silent() -> None:
    def answer(client: ConnectedClient, request: memoryview) -> Response:
        return framed([bytes(64 << 20)])

    async with running(answer, ConnectionLimits(max_idle_ms=200)) as broker:
        deaf = await broker.connect()
        deaf.writer.write(frame(b"x"))
        await until(lambda: broker.metric("connection-close-total") == 1)


async def test_a_client_that_reads_slowly_is_not_silent() -> None:
    """Its answer takes longer than a connection may be silent."""
    size = 40 << 20

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        return framed([bytes(size)])

    async with running(answer, ConnectionLimits(max_idle_ms=1_500)) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(b"x"))
        loop = asyncio.get_running_loop()
        begun, received = loop.time(), 0
        while loop.time() - begun < 3.5:
            received += len(await peer.reader.read(1 << 16))
            await asyncio.sleep(0.01)
        assert received < size, "Nothing of it had to wait."
        await peer.reader.readexactly(size + 4 - received)
