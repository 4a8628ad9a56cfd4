"""Connections over real sockets: framing, order, back-pressure, and who gets closed."""

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tierlog.broker.network import receive_budget
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Refused, Response
from tierlog.broker.network.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.network.socket_server import ConnectionLimits
from tierlog.broker.network.transport import Network
from tierlog.clients.protocol.connection import frame as framed
from tierlog.storage.files import OsFiles
from tierlog.tests.broker.socket_peers import frame, running, saying, until
from tierlog.tests.simulation.streams import StreamNetwork

NETWORKS: list[Callable[[], Network]] = [lambda: SocketNetwork(SocketOptions()), StreamNetwork]


@pytest.mark.parametrize("network", NETWORKS)
async def test_requests_are_answered_in_order(network: Callable[[], Network]) -> None:
    async with running(network=network()) as broker:
        peer = await broker.connect()
        requests = [bytes([number]) * (number * 700) for number in range(60)]
        peer.writer.write(b"".join(map(frame, requests)))
        assert [await peer.answer() for _ in requests] == requests


@pytest.mark.parametrize("network", NETWORKS)
async def test_a_large_request_arrives_whole(network: Callable[[], Network]) -> None:
    async with running(network=network()) as broker:
        peer = await broker.connect()
        body = bytes(range(256)) * 20_000
        assert await peer.ask(body) == body
        assert await peer.ask(b"small") == b"small"


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


async def test_a_waiting_request_holds_back_those_behind_it_and_no_other_connection() -> None:
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    seen: list[bytes] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        body = bytes(request)
        seen.append(body)
        if body == b"wait":
            return DeferredResponse(gate, saying(b"waited"))
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


async def test_what_is_read_ahead_of_a_waiting_client_is_not_overwritten_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All connections read into one buffer: who keeps bytes of it has them copied."""
    monkeypatch.setattr(receive_budget, "_LOOK_AHEAD_S", 0.05)

    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    seen: list[bytes] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        body = bytes(request)
        seen.append(body)
        return DeferredResponse(gate, saying(b"waited")) if body == b"wait" else framed([body])

    async with running(answer) as broker:
        first, second = await broker.connect(), await broker.connect()
        first.writer.write(frame(b"wait"))
        await until(lambda: bool(seen))
        first.writer.write(frame(b"of the first"))
        await until(lambda: broker.server.receive_budget.used > 0)
        assert await second.ask(b"of the other") == b"of the other"
        gate.set_result(None)
        assert await first.answer() == b"waited"
        assert await first.answer() == b"of the first"
        assert seen == [b"wait", b"of the other", b"of the first"]


async def test_a_large_request_that_must_wait_keeps_its_bytes_while_others_are_answered() -> None:
    """Buffers of large requests are used again: not those of requests still to be answered."""
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        body = bytes(request)
        return DeferredResponse(gate, saying(b"waited")) if body == b"wait" else framed([body])

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


async def test_a_coroutine_is_awaited_and_what_it_waits_for_is_cancelled_on_stop() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def quick() -> bytes:
        await asyncio.sleep(0)
        return b"quick"

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        if bytes(request) == b"slow":
            return DeferredResponse(slow(), saying(b"slow"))
        return DeferredResponse(quick(), saying(b"quick"))

    async with running(answer) as broker:
        peer = await broker.connect()
        assert await peer.ask(b"quick") == b"quick"
        other = await broker.connect()
        other.writer.write(frame(b"slow"))
        assert await peer.ask(b"quick") == b"quick"
    assert ended == ["ended"]


async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    answered = 0

    def answer(client: ConnectedClient, request: memoryview) -> Response:
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


async def test_answers_that_come_later_do_not_pile_up_before_a_client_that_does_not_read() -> None:
    answered = 0

    async def later() -> None:
        await asyncio.sleep(0)

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        nonlocal answered
        if bytes(request) == b"other":
            return framed([b"other"])
        answered += 1
        return DeferredResponse(later(), saying(bytes(1_000_000)))

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


async def test_regions_of_files_are_sent_as_they_lie(tmp_path: Path) -> None:
    content = bytes(range(256)) * 40_000
    files = OsFiles()
    handle = files.open(str(tmp_path / "segment"), create=True)
    handle.write_at(0, content)

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        position, size = struct.unpack(">ii", request)
        return framed([b"head", handle.region(position, size), b"tail"])

    for network in NETWORKS:
        async with running(answer, network=network()) as broker:
            peer = await broker.connect()
            for position, size in ((0, len(content)), (7, 100), (1_000, 70_000), (5, 0)):
                expected = b"head" + content[position : position + size] + b"tail"
                assert await peer.ask(struct.pack(">ii", position, size)) == expected
    handle.close()


@pytest.mark.parametrize("size", [-1, -2147483648, 1_001, 2147483647])
async def test_an_impossible_size_closes_that_connection_only(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ConnectionLimits(max_request_bytes=1_000)
    async with running(limits=limits) as broker:
        bad, good = await broker.connect(), await broker.connect()
        bad.writer.write(frame(b"before") + struct.pack(">i", size))
        assert await bad.answer() == b"before"
        assert await bad.is_closed_by_the_server()
        assert await good.ask(b"x" * 1_000) == b"x" * 1_000
    assert len(caplog.records) == 1
    assert "Closed the connection from 127.0.0.1" in caplog.text


async def test_refused_requests_make_few_lines_however_many_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(client: ConnectedClient, request: memoryview) -> Response:
        raise Refused("no such thing")

    async with running(answer) as broker:
        for _ in range(50):
            peer = await broker.connect()
            peer.writer.write(frame(b"x"))
            assert await peer.is_closed_by_the_server()
    assert 1 <= len(caplog.records) <= 10


async def test_a_client_that_goes_away_gives_up_what_it_waited_for() -> None:
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        return DeferredResponse(gate, saying(b"never"))

    async with running(answer) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(b"x"))
        await peer.writer.drain()
        peer.writer.close()
        await until(gate.cancelled)


async def test_many_clients_connect_at_once() -> None:
    async with running() as broker:
        peers = await asyncio.gather(*(broker.connect() for _ in range(300)))
        answers = await asyncio.gather(*(peer.ask(b"hello") for peer in peers))
        assert set(answers) == {b"hello"}
        assert broker.metric("connection-creation-total") == 300
