"""Requests and answers in memory: bounded for all connections together, and fairly shared."""

import asyncio
import struct
from collections.abc import Callable

import pytest

from tierlog.broker.config.config import read_config
from tierlog.broker.config.settings import connection_limits
from tierlog.broker.network import receive_budget
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Response
from tierlog.broker.network.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.network.socket_server import ConnectionLimits
from tierlog.broker.network.transport import Network
from tierlog.clients.errors import KafkaError
from tierlog.clients.protocol.connection import frame as framed
from tierlog.tests.broker.socket_peers import Peer, Running, frame, running, saying, until
from tierlog.tests.simulation.streams import StreamNetwork

NETWORKS: list[Callable[[], Network]] = [lambda: SocketNetwork(SocketOptions()), StreamNetwork]
MIB = 1 << 20
LIMITS = ConnectionLimits(max_request_bytes=4 * MIB, max_unfinished_bytes=4 * MIB)


def length(client: ConnectedClient, request: memoryview) -> Response:
    return framed([str(len(request)).encode()])


def begin(peer: Peer, size: int, sent: int) -> None:
    """Announce a request, and send that much of it."""
    peer.writer.write(struct.pack(">i", size) + bytes(sent))


async def counted(broker: Running, peer: Peer, size: int, sent: int) -> None:
    """Begin a request, and wait until the server has begun to take it in."""
    budget = broker.server.receive_budget
    before = budget.used, budget.waiting
    begin(peer, size, sent)
    await until(lambda: (budget.used, budget.waiting) != before)


async def begun(broker: Running, *sizes: int) -> list[Peer]:
    """Clients that have each sent all of a request but its last byte, one after another."""
    peers: list[Peer] = []
    for size in sizes:
        peers.append(await broker.connect())
        await counted(broker, peers[-1], size, size - 1)
    return peers


@pytest.mark.parametrize("network", NETWORKS)
async def test_unfinished_requests_do_not_grow_beyond_the_bound(
    network: Callable[[], Network],
) -> None:
    async with running(length, LIMITS, network()) as broker:
        peers = await begun(broker, *[3 * MIB] * 12)
        for _ in range(200):
            await asyncio.sleep(0)
            # One in full, and of the others what came while memory was not short.
            assert broker.server.receive_budget.used <= 6 * MIB
        other = await broker.connect()
        assert await other.ask(b"small") == b"5"
        for peer in peers:
            peer.writer.close()
        await until(lambda: broker.metric("connection-count") == 1)
        await until(lambda: broker.server.receive_budget.used == 0)
        assert broker.server.receive_budget.waiting == 0


@pytest.mark.parametrize("network", NETWORKS)
async def test_whoever_waits_for_room_is_answered_in_the_end(
    network: Callable[[], Network],
) -> None:
    async with running(length, LIMITS, network()) as broker:
        peers = [await broker.connect() for _ in range(9)]
        sizes = [(number % 4 + 1) * MIB - number for number in range(9)]
        answers = [
            asyncio.ensure_future(peer.ask(bytes(size)))
            for peer, size in zip(peers, sizes, strict=True)
        ]
        assert await asyncio.gather(*answers) == [str(size).encode() for size in sizes]
        assert broker.server.receive_budget.used == 0


@pytest.mark.parametrize("size", [50_000, 128 * 1024])
async def test_small_requests_do_not_wait_behind_large_ones(size: int) -> None:
    async with running(length, LIMITS) as broker:
        first, *_ = await begun(broker, 4 * MIB, 4 * MIB, 4 * MIB)
        small = await broker.connect()
        begin(small, size, size - 1)
        await asyncio.sleep(0)
        small.writer.write(b"x")
        assert await small.answer() == str(size).encode()
        first.writer.write(b"x")
        assert await first.answer() == str(4 * MIB).encode()


async def test_of_those_that_wait_the_smallest_is_admitted_first() -> None:
    async with running(length, LIMITS) as broker:
        first, large, small = await begun(broker, 4 * MIB, 3 * MIB, 2 * MIB)
        large.writer.write(b"x")
        small.writer.write(b"x")
        first.writer.write(b"x")
        assert await first.answer() == str(4 * MIB).encode()
        done, waiting = await asyncio.wait(
            [asyncio.ensure_future(each.answer()) for each in (large, small)],
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert next(iter(done)).result() == str(2 * MIB).encode()
        for answer in waiting:
            answer.cancel()


async def test_newcomers_wait_beside_a_request_that_exceeds_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody is closed for being slow here.
    monkeypatch.setattr(receive_budget, "_LOOK_S", 3_600)
    size, part = 30_000, 16_000

    async with running(length, LIMITS) as broker:
        budget = broker.server.receive_budget
        newcomers: list[Peer] = []

        async def arrive(until_used: int) -> None:
            while budget.used <= until_used:
                newcomers.append(await broker.connect())
                await counted(broker, newcomers[-1], size, part)

        await arrive(LIMITS.receive_max_bytes // 3)
        (large,) = await begun(broker, 4 * MIB)
        await arrive(2 * LIMITS.receive_max_bytes)
        large.writer.write(b"x")
        assert await large.answer() == str(4 * MIB).encode()
        for each in newcomers:
            each.writer.write(bytes(size - part))
        for each in newcomers:
            assert await each.answer() == str(size).encode()


async def test_large_requests_one_after_another_do_not_raise_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive_budget, "_LOOK_S", 3_600)
    size, part = 3 * MIB, 16_000
    bound = 2 * LIMITS.receive_max_bytes + size

    async with running(length, LIMITS) as broker:
        budget = broker.server.receive_budget

        async def arrive() -> None:
            """One more client begins a request that is admitted after the large ones, and stops."""
            begin(await broker.connect(), 4 * MIB, part)
            for _ in range(20):
                await asyncio.sleep(0)

        for large in await begun(broker, *[size] * 6):
            while (used := budget.used) <= bound:
                await arrive()
                if budget.used == used:
                    break
            assert budget.used <= bound
            large.writer.write(b"x")
            assert await large.answer() == str(size).encode()


async def test_who_holds_room_and_sends_nothing_loses_it_to_those_who_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(receive_budget, "_LOOK_S", 0.05)

    async with running(length, LIMITS) as broker:
        stalled, waiting = await begun(broker, 4 * MIB, 3 * MIB)
        assert await stalled.is_closed_by_the_server()
        waiting.writer.write(b"x")
        assert await waiting.answer() == str(3 * MIB).encode()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "sends a request of 4194304 bytes too slowly" in caplog.text


async def test_who_stalls_while_nobody_waits_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_budget, "_LOOK_S", 0.01)

    async with running(length, LIMITS) as broker:
        (slow,) = await begun(broker, 4 * MIB)
        await asyncio.sleep(0.1)
        slow.writer.write(b"x")
        assert await slow.answer() == str(4 * MIB).encode()


async def test_a_second_request_begun_with_the_end_of_the_first_needs_room_of_its_own() -> None:
    async with running(length, LIMITS) as broker:
        one, two = await begun(broker, MIB, 3 * MIB)
        one.writer.write(b"x" + struct.pack(">i", 4 * MIB) + b"begun")
        assert await one.answer() == str(MIB).encode()
        await until(lambda: broker.server.receive_budget.waiting == 1)
        two.writer.write(b"x")
        assert await two.answer() == str(3 * MIB).encode()
        one.writer.write(bytes(4 * MIB - 5))
        assert await one.answer() == str(4 * MIB).encode()


async def test_what_lies_behind_waiting_requests_is_bounded_too() -> None:
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        parked = bytes(request) == b"wait"
        return (
            DeferredResponse(asyncio.shield(gate), saying(b"")) if parked else framed([b"served"])
        )

    async with running(answer, LIMITS) as broker:
        behind = frame(b"wait") + frame(bytes(100)) * 5_000
        for _ in range(60):
            peer = await broker.connect()
            peer.writer.write(behind)
        other = await broker.connect()
        for _ in range(50):
            assert await other.ask(b"small") == b"served"
        assert broker.server.receive_budget.used <= LIMITS.receive_max_bytes * 5 // 4


async def test_what_lies_behind_waiting_requests_takes_no_room_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive_budget, "_LOOK_AHEAD_S", 0.05)

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        if bytes(request) != b"wait":
            return framed([str(len(request)).encode()])
        return DeferredResponse(asyncio.get_running_loop().create_future(), saying(b"never"))

    async with running(answer, LIMITS) as broker:
        for _ in range(60):
            peer = await broker.connect()
            peer.writer.write(frame(b"wait") + frame(bytes(100)) * 5_000)
        large = await broker.connect()
        assert await large.ask(bytes(3 * MIB)) == str(3 * MIB).encode()


async def test_answers_that_nobody_takes_are_bounded_and_the_largest_debt_goes_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answered: list[int] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        (size,) = struct.unpack(">i", request)
        answered.append(size)
        return framed([bytes(size)])

    limits = ConnectionLimits(max_unsent_bytes=64 * MIB)
    async with running(answer, limits) as broker:
        budget = broker.server.unsent_responses
        deaf = [await broker.connect() for _ in range(6)]
        for peer in deaf:
            peer.writer.write(frame(struct.pack(">i", 24 * MIB)))
            await until(lambda: bool(answered))
            answered.clear()
            await asyncio.sleep(0)
            assert budget.held <= 64 * MIB
        modest = await broker.connect()
        assert len(await modest.ask(struct.pack(">i", 8 * MIB))) == 8 * MIB
    assert "has not read" in caplog.text


async def test_one_answer_may_be_larger_than_the_bound() -> None:
    def answer(client: ConnectedClient, request: memoryview) -> Response:
        return framed([bytes(32 * MIB)])

    async with running(answer, ConnectionLimits(max_unsent_bytes=MIB)) as broker:
        peer = await broker.connect()
        assert len(await peer.ask(b"x")) == 32 * MIB


def test_kafkas_bound_counts_where_it_is_stated() -> None:
    assert connection_limits(read_config({}).values).receive_max_bytes == 104_857_600
    stated = {"socket.request.max.bytes": "1000000", "queued.max.request.bytes": "2000000"}
    assert connection_limits(read_config(stated).values).receive_max_bytes == 2_000_000
    # The largest request must find room.
    larger = {"socket.request.max.bytes": "200000000"}
    assert connection_limits(read_config(larger).values).receive_max_bytes == 200_000_000
    stated["queued.max.request.bytes"] = "999999"
    with pytest.raises(KafkaError, match=r"queued.max.request.bytes must be larger or equal to"):
        connection_limits(read_config(stated).values)


async def test_requests_whose_answers_are_not_there_yet_count_until_they_are() -> None:
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    arrived: list[int] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        arrived.append(len(request))
        return DeferredResponse(asyncio.shield(gate), saying(b"done"), held_bytes=len(request))

    async with running(answer, LIMITS) as broker:
        budget = broker.server.receive_budget
        peers = [await broker.connect() for _ in range(6)]
        answers = [asyncio.ensure_future(peer.ask(bytes(3 * MIB))) for peer in peers]
        await until(lambda: bool(arrived))
        for _ in range(2_000):
            await asyncio.sleep(0)
            assert budget.used <= 5 * MIB
        assert len(arrived) == 1
        gate.set_result(None)
        assert await asyncio.gather(*answers) == [b"done"] * len(peers)
        assert budget.used == 0


async def test_a_request_that_is_answered_takes_no_room_from_the_one_behind_it() -> None:
    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    used: list[int] = []

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        used.append(broker.server.receive_budget.used)
        return DeferredResponse(asyncio.shield(gate), saying(b"done"), held_bytes=len(request))

    async with running(answer, LIMITS) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(bytes(3 * MIB)) + frame(b"behind"))
        await until(lambda: broker.server.receive_budget.used > 3 * MIB)
        gate.set_result(None)
        assert [await peer.answer() for _ in range(2)] == [b"done"] * 2
        assert used[1] < MIB


async def test_who_waits_for_an_answer_is_not_taken_for_one_who_stalls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive_budget, "_LOOK_S", 0.01)

    gate: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def answer(client: ConnectedClient, request: memoryview) -> Response:
        return DeferredResponse(asyncio.shield(gate), saying(b"done"), held_bytes=len(request))

    async with running(answer, LIMITS) as broker:
        peers = [await broker.connect() for _ in range(2)]
        answers = [asyncio.ensure_future(peer.ask(bytes(4 * MIB))) for peer in peers]
        budget = broker.server.receive_budget
        await until(lambda: (budget.waiting, budget.used >= 4 * MIB) == (1, True))
        await asyncio.sleep(0.1)
        gate.set_result(None)
        assert await asyncio.gather(*answers) == [b"done"] * 2


async def test_room_held_by_who_has_gone_is_given_back() -> None:
    def answer(client: ConnectedClient, request: memoryview) -> Response:
        never: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        return DeferredResponse(never, saying(b"never"), held_bytes=len(request))

    async with running(answer, LIMITS) as broker:
        peer = await broker.connect()
        peer.writer.write(frame(bytes(3 * MIB)))
        await until(lambda: broker.server.receive_budget.used >= 3 * MIB)
        peer.writer.close()
        await until(lambda: broker.server.receive_budget.used == 0)
