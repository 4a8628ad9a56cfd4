"""Connections over real sockets: framing, order, back-pressure, limits, and who gets closed."""

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.broker.connection import (
    TRANSITIONS,
    Answer,
    Client,
    ConnectionEvent,
    ConnectionState,
    Deferred,
    Refused,
)
from tierlog.broker.listeners import Endpoint
from tierlog.broker.metrics import Metrics
from tierlog.broker.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.socket_server import ConnectionLimits, SocketServer
from tierlog.broker.transport import Network, StreamNetwork
from tierlog.clients.protocol.connection import frame as framed
from tierlog.clients.protocol.schema import Chunk
from tierlog.storage.files import OsFiles


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def echo(client: Client, request: memoryview) -> Answer:
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
        async with asyncio.timeout(10):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def is_closed_by_the_server(self) -> bool:
        async with asyncio.timeout(10):
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

    async def connect(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self.peers.append(peer)
        return peer

    def metric(self, name: str) -> float:
        return dict(self.metrics.read())[f"kafka.server:type=socket-server-metrics,name={name}"]


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 -- the condition has no event of its own
            await asyncio.sleep(0)


NO_LIMITS = ConnectionLimits()


@asynccontextmanager
async def running(
    answer: Callable[[Client, memoryview], Answer] = echo,
    limits: ConnectionLimits = NO_LIMITS,
    network: Network | None = None,
) -> AsyncGenerator[Running]:
    metrics = Metrics()
    server = SocketServer(network or SocketNetwork(SocketOptions()), limits, metrics)
    ports = await server.bind([Endpoint("PLAINTEXT", "127.0.0.1", 0)])
    server.open(answer)
    started = Running(server, ports["PLAINTEXT"], metrics)
    try:
        yield started
    finally:
        await server.stop()
        for peer in started.peers:
            peer.writer.close()
            with suppress(ConnectionError):
                await peer.writer.wait_closed()


NETWORKS: list[Callable[[], Network]] = [lambda: SocketNetwork(SocketOptions()), StreamNetwork]


@pytest.mark.parametrize("network", NETWORKS)
def test_requests_are_answered_in_order(network: Callable[[], Network]) -> None:
    async def story() -> None:
        async with running(network=network()) as broker:
            peer = await broker.connect()
            requests = [bytes([number]) * (number * 700) for number in range(60)]
            peer.writer.write(b"".join(map(frame, requests)))
            assert [await peer.answer() for _ in requests] == requests

    asyncio.run(story())


@pytest.mark.parametrize("network", NETWORKS)
def test_a_large_request_arrives_whole(network: Callable[[], Network]) -> None:
    async def story() -> None:
        async with running(network=network()) as broker:
            peer = await broker.connect()
            body = bytes(range(256)) * 20_000
            assert await peer.ask(body) == body
            assert await peer.ask(b"small") == b"small"

    asyncio.run(story())


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.binary(max_size=5_000), min_size=1, max_size=6),
    st.lists(st.integers(1, 3_000), min_size=1, max_size=10),
)
def test_any_way_of_cutting_the_stream_gives_the_same_answers(
    requests: list[bytes], cuts: list[int]
) -> None:
    async def story() -> None:
        async with running() as broker:
            peer = await broker.connect()
            stream = b"".join(map(frame, requests))
            position = 0
            for number in range(len(stream)):
                if position >= len(stream):
                    break
                size = cuts[number % len(cuts)]
                peer.writer.write(stream[position : position + size])
                await peer.writer.drain()
                await asyncio.sleep(0)
                position += size
            assert [await peer.answer() for _ in requests] == requests

    asyncio.run(story())


def test_a_waiting_request_holds_back_those_behind_it_and_no_other_connection() -> None:
    async def story() -> None:
        gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        seen: list[bytes] = []

        def answer(client: Client, request: memoryview) -> Answer:
            body = bytes(request)
            seen.append(body)
            if body == b"wait":
                return Deferred(gate, saying(b"waited"))
            return framed([body])

        async with running(answer) as broker:
            first, second = await broker.connect(), await broker.connect()
            first.writer.write(frame(b"one") + frame(b"wait") + frame(b"behind"))
            assert await first.answer() == b"one"
            assert await second.ask(b"other") == b"other"
            assert b"behind" not in seen
            gate.set_result(None)
            assert await first.answer() == b"waited"
            assert await first.answer() == b"behind"

    asyncio.run(story())


def test_a_large_request_that_must_wait_keeps_its_bytes_while_others_are_answered() -> None:
    """Buffers of large requests are used again: not those of requests still to be answered."""

    async def story() -> None:
        gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def answer(client: Client, request: memoryview) -> Answer:
            body = bytes(request)
            return Deferred(gate, saying(b"waited")) if body == b"wait" else framed([body])

        async with running(answer) as broker:
            first, second = await broker.connect(), await broker.connect()
            large = [bytes([number]) * 700_000 for number in range(1, 7)]
            assert await first.ask(large[0]) == large[0]
            # Read while the first is waited for, and kept until then.
            first.writer.write(frame(b"wait") + frame(large[1]))
            for body in large[2:]:
                assert await second.ask(body) == body
            gate.set_result(None)
            assert await first.answer() == b"waited"
            assert await first.answer() == large[1]
            assert await second.ask(large[0]) == large[0]

    asyncio.run(story())


def test_a_coroutine_is_awaited_and_what_it_waits_for_is_cancelled_on_stop() -> None:
    async def story() -> None:
        ended: list[str] = []

        async def slow() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("ended")

        async def quick() -> bytes:
            await asyncio.sleep(0)
            return b"quick"

        def answer(client: Client, request: memoryview) -> Answer:
            if bytes(request) == b"slow":
                return Deferred(slow(), saying(b"slow"))
            return Deferred(quick(), saying(b"quick"))

        async with running(answer) as broker:
            peer = await broker.connect()
            assert await peer.ask(b"quick") == b"quick"
            other = await broker.connect()
            other.writer.write(frame(b"slow"))
            assert await peer.ask(b"quick") == b"quick"
        assert ended == ["ended"]

    asyncio.run(story())


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    async def story() -> None:
        answered = 0

        def answer(client: Client, request: memoryview) -> Answer:
            nonlocal answered
            answered += 1
            return framed([bytes(1_000_000)])

        async with running(answer) as broker:
            deaf, other = await broker.connect(), await broker.connect()
            deaf.writer.write(frame(b"x") * 2_000)
            for _ in range(20):
                await other.ask(b"x")
            assert answered < 200
            for _ in range(2_000):
                assert len(await deaf.answer()) == 1_000_000

    asyncio.run(story())


def test_answers_that_come_later_do_not_pile_up_before_a_client_that_does_not_read() -> None:
    async def story() -> None:
        answered = 0

        async def later() -> None:
            await asyncio.sleep(0)

        def answer(client: Client, request: memoryview) -> Answer:
            nonlocal answered
            if bytes(request) == b"other":
                return framed([b"other"])
            answered += 1
            return Deferred(later(), saying(bytes(1_000_000)))

        async with running(answer) as broker:
            deaf, other = await broker.connect(), await broker.connect()
            # All of them arrive in one read.
            deaf.writer.write(frame(b"x") * 200)
            for _ in range(1_000):
                await other.ask(b"other")
            # As much as the system takes for it, and one more.
            assert answered < 50
            for _ in range(200):
                assert len(await deaf.answer()) == 1_000_000

    asyncio.run(story())


def test_regions_of_files_are_sent_as_they_lie(tmp_path: Path) -> None:
    async def story() -> None:
        content = bytes(range(256)) * 40_000
        files = OsFiles()
        handle = files.open(str(tmp_path / "segment"), create=True)
        handle.write_at(0, content)

        def answer(client: Client, request: memoryview) -> Answer:
            position, size = struct.unpack(">ii", request)
            return framed([b"head", handle.region(position, size), b"tail"])

        for network in NETWORKS:
            async with running(answer, network=network()) as broker:
                peer = await broker.connect()
                for position, size in ((0, len(content)), (7, 100), (1_000, 70_000), (5, 0)):
                    expected = b"head" + content[position : position + size] + b"tail"
                    assert await peer.ask(struct.pack(">ii", position, size)) == expected
        handle.close()

    asyncio.run(story())


@pytest.mark.parametrize("size", [-1, -2147483648, 1_001, 2147483647])
def test_an_impossible_size_closes_that_connection_only(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        limits = ConnectionLimits(max_request_bytes=1_000)
        async with running(limits=limits) as broker:
            bad, good = await broker.connect(), await broker.connect()
            bad.writer.write(frame(b"before") + struct.pack(">i", size))
            assert await bad.answer() == b"before"
            assert await bad.is_closed_by_the_server()
            assert await good.ask(b"x" * 1_000) == b"x" * 1_000

    asyncio.run(story())
    assert len(caplog.records) == 1
    assert "Closed the connection from 127.0.0.1" in caplog.text


def test_refused_requests_make_few_lines_however_many_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(client: Client, request: memoryview) -> Answer:
        raise Refused("no such thing")

    async def story() -> None:
        async with running(answer) as broker:
            for _ in range(50):
                peer = await broker.connect()
                peer.writer.write(frame(b"x"))
                assert await peer.is_closed_by_the_server()

    asyncio.run(story())
    assert 1 <= len(caplog.records) <= 10


def test_one_address_may_open_only_so_many_connections() -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_an_override_lifts_the_limit_of_one_address() -> None:
    async def story() -> None:
        limits = ConnectionLimits(
            max_connections_per_ip=0, max_connections_per_ip_overrides={"127.0.0.1": 5}
        )
        async with running(limits=limits) as broker:
            assert await (await broker.connect()).ask(b"1") == b"1"

    asyncio.run(story())


def test_further_clients_wait_until_there_is_room() -> None:
    async def story() -> None:
        async with running(limits=ConnectionLimits(max_connections=1)) as broker:
            first = await broker.connect()
            await first.ask(b"1")
            second = await broker.connect()
            second.writer.write(frame(b"2"))
            assert await first.ask(b"still") == b"still"
            assert broker.metric("connection-count") == 1
            first.writer.close()
            assert await second.answer() == b"2"

    asyncio.run(story())


def test_clients_that_come_too_fast_wait_in_the_backlog_and_are_all_served() -> None:
    async def story() -> None:
        async with running(limits=ConnectionLimits(max_creation_rate=1)) as here:
            for _ in range(10):
                assert await (await here.connect()).ask(b"x") == b"x"
            loop = asyncio.get_running_loop()
            begun = loop.time()
            for _ in range(3):
                assert await (await here.connect()).ask(b"x") == b"x"
            # After the twelfth in the first seconds nobody is accepted for a second at least.
            assert loop.time() - begun > 0.9

    asyncio.run(story())


def test_those_who_are_kept_waiting_are_told_nothing_and_go_with_the_server() -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_an_address_above_its_rate_is_closed_and_served_again_within_it() -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_a_silent_connection_is_closed_and_a_half_request_counts_as_silence() -> None:
    async def story() -> None:
        async with running(limits=ConnectionLimits(max_idle_ms=200)) as broker:
            silent, half = await broker.connect(), await broker.connect()
            half.writer.write(struct.pack(">i", 100) + b"only the beginning")
            assert await silent.is_closed_by_the_server()
            assert await half.is_closed_by_the_server()

    asyncio.run(story())


def test_a_connection_that_waits_for_its_answer_is_not_silent() -> None:
    async def story() -> None:
        gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def answer(client: Client, request: memoryview) -> Answer:
            return Deferred(gate, saying(b"late"))

        async with running(answer, ConnectionLimits(max_idle_ms=100)) as broker:
            silent, waiting = await broker.connect(), await broker.connect()
            waiting.writer.write(frame(b"x"))
            assert await silent.is_closed_by_the_server()
            gate.set_result(None)
            assert await waiting.answer() == b"late"

    asyncio.run(story())


def test_a_client_that_goes_away_gives_up_what_it_waited_for() -> None:
    async def story() -> None:
        gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def answer(client: Client, request: memoryview) -> Answer:
            return Deferred(gate, saying(b"never"))

        async with running(answer) as broker:
            peer = await broker.connect()
            peer.writer.write(frame(b"x"))
            await peer.writer.drain()
            peer.writer.close()
            await until(gate.cancelled)

    asyncio.run(story())


def test_many_clients_connect_at_once() -> None:
    async def story() -> None:
        async with running() as broker:
            peers = await asyncio.gather(*(broker.connect() for _ in range(300)))
            answers = await asyncio.gather(*(peer.ask(b"hello") for peer in peers))
            assert set(answers) == {b"hello"}
            assert broker.metric("connection-creation-total") == 300

    asyncio.run(story())


@pytest.mark.parametrize("event", ConnectionEvent)
@pytest.mark.parametrize("state", ConnectionState)
def test_the_states_move_as_drawn(state: ConnectionState, event: ConnectionEvent) -> None:
    ready, waiting = ConnectionState.READY, ConnectionState.WAITING
    blocked, closed = ConnectionState.BLOCKED, ConnectionState.CLOSED
    drawn = {
        (ready, ConnectionEvent.DEFER): waiting,
        (waiting, ConnectionEvent.ANSWER): ready,
        (ready, ConnectionEvent.BLOCK): blocked,
        (blocked, ConnectionEvent.DRAIN): ready,
    }
    expected = drawn.get((state, event))
    if event is ConnectionEvent.LOSE and state is not closed:
        expected = closed
    assert TRANSITIONS.get((state, event)) is expected
