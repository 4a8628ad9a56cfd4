"""Clients that announce much and send little or nothing: nobody else is refused, or waits long."""

import asyncio
import random
import struct
from collections.abc import Sequence

import pytest

from tierlog.broker.network import receive_budget
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import Response
from tierlog.broker.network.socket_server import STRANGERS_BYTES_MAX, ConnectionLimits
from tierlog.clients.protocol.connection import FIRST_BUFFER_BYTES, frame as framed
from tierlog.tests.broker.socket_peers import Peer, Running, frame, running, until
from tierlog.tests.security.sasl.sasl_frames import (
    GOOD,
    authenticate,
    handshake,
    read_handshake,
    read_token,
)

from .gated_server import gated

MIB = 1 << 20
SMALL = ConnectionLimits(max_request_bytes=4 * MIB, max_unfinished_bytes=4 * MIB)
LOGIN_BYTES = 512 * 1024
USED_MAX = 2 * SMALL.receive_max_bytes + SMALL.max_request_bytes
"""Twice the budget, and the one request that is admitted without room for it."""


def length(client: ConnectedClient, request: memoryview) -> Response:
    return framed([str(len(request)).encode()])


async def announcing(broker: Running, size: int, sent: int = 14) -> Peer:
    """A client that announces a request, sends some of it, and then nothing."""
    peer = await broker.connect()
    peer.writer.write(struct.pack(">i", size) + bytes(sent))
    return peer


async def in_segments(peer: Peer, body: bytes, at: int) -> bytes:
    """The answer to a request that comes in two segments."""
    whole = frame(body)
    peer.writer.write(whole[:at])
    await peer.writer.drain()
    # The server's loop is this one, and has read the first segment when this has gone round.
    for _ in range(5):
        await asyncio.sleep(0)
    peer.writer.write(whole[at:])
    return await peer.answer()


async def test_whoever_only_announces_requests_takes_no_room_from_those_who_send() -> None:
    async with running(length) as broker:
        for size in (100 * MIB, *[3_276_800] * 8):
            await announcing(broker, size)
        await until(lambda: broker.metric("connection-count") == 9)
        for size in (30_000, 900_000):
            healthy = await broker.connect()
            for at in (9, 20_000):
                assert await in_segments(healthy, bytes(size), at) == str(size).encode()
        budget = broker.server.receive_budget
        assert not budget.waiting
        assert budget.used <= 9 * FIRST_BUFFER_BYTES


@pytest.mark.parametrize("size", [30_000, 120_000])
async def test_newcomers_wait_while_memory_is_full_and_the_silent_are_closed(
    size: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(receive_budget, "_LOOK_S", 0.05)

    async with running(length, SMALL) as broker:
        budget = broker.server.receive_budget
        silent = [await announcing(broker, 120_000, 119_999) for _ in range(100)]
        await until(lambda: budget.used > SMALL.receive_max_bytes)
        healthy = [await broker.connect() for _ in range(40)]
        asked = (in_segments(each, bytes(size), 10_000) for each in healthy)
        assert set(await asyncio.gather(*asked)) == {str(size).encode()}
        assert await silent[0].is_closed_by_the_server()
    assert "sends a request of 120000 bytes too slowly while others wait" in caplog.text
    assert "more requests than can be answered at once" not in caplog.text


async def attack(broker: Running, chance: random.Random) -> None:
    """Announce a request and send it in small pieces, and again if the server has enough of it."""
    while True:
        size = chance.choice((4 * MIB, 2 * MIB, 120_000, 60_000))
        peer = await announcing(broker, size, chance.choice((0, 14, 50_000, size - 1)))
        while not peer.reader.at_eof() and not peer.writer.is_closing():
            await asyncio.sleep(0.02)
            peer.writer.write(bytes(chance.choice((0, 1, 500))))


async def use(broker: Running, sizes: Sequence[int]) -> list[bytes]:
    peer = await broker.connect()
    return [await in_segments(peer, bytes(size), size // 2) for size in sizes]


@pytest.mark.parametrize("seed", range(3))
async def test_everybody_who_sends_is_answered_beside_many_who_hardly_do(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else loses a connection, and memory stays within its bound."""
    monkeypatch.setattr(receive_budget, "_LOOK_S", 0.02)

    chance = random.Random(seed)
    async with running(length, SMALL) as broker, asyncio.TaskGroup() as group:
        attacks = [group.create_task(attack(broker, chance)) for _ in range(30)]
        budget = broker.server.receive_budget
        sizes = [30_000, 120_000, 900, 60_000]
        healthy = [asyncio.ensure_future(use(broker, sizes)) for _ in range(10)]
        while not all(each.done() for each in healthy):
            await asyncio.sleep(0)
            assert budget.used <= USED_MAX
        for each in healthy:
            assert each.result() == [str(size).encode() for size in sizes]
        for attacker in attacks:
            attacker.cancel()


async def test_memory_stays_bounded_when_two_hundred_send_a_part_and_stop() -> None:
    async with running(length, SMALL) as broker:
        budget = broker.server.receive_budget
        for number in range(200):
            await announcing(broker, 4 * MIB, (number % 7) * 100_000 + 14)
            assert budget.used <= USED_MAX
        for _ in range(200):
            await asyncio.sleep(0)
            assert budget.used <= USED_MAX
        healthy = await broker.connect()
        assert await healthy.ask(bytes(1_000)) == b"1000"


async def log_in_with_segments(broker: Running) -> None:
    peer = await broker.connect()
    assert read_handshake(bytes(4) + await in_segments(peer, handshake(), 9)).error_code == 0
    token = authenticate(GOOD)
    assert read_token(bytes(4) + await in_segments(peer, token, 20)).error_code == 0


async def test_logins_in_two_segments_succeed_beside_silent_strangers() -> None:
    async with gated(max_bytes=LOGIN_BYTES) as (broker, _):
        for _ in range(60):
            await announcing(broker, LOGIN_BYTES)
        for _ in range(10):
            await log_in_with_segments(broker)


async def fill_with_strangers(broker: Running) -> receive_budget.ReceiveBudget:
    """Use up the memory of those who are not logged in; returns that memory."""
    strangers = broker.server.strangers
    for _ in range(60):
        await announcing(broker, LOGIN_BYTES, LOGIN_BYTES - 1)
    await until(lambda: strangers.used > STRANGERS_BYTES_MAX)
    return strangers


async def test_logins_in_two_segments_succeed_beside_strangers_who_fill_their_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receive_budget, "_LOOK_S", 0.05)

    async with gated(max_bytes=LOGIN_BYTES) as (broker, _):
        strangers = await fill_with_strangers(broker)
        for _ in range(10):
            await log_in_with_segments(broker)
            assert strangers.used <= 2 * STRANGERS_BYTES_MAX


async def test_a_request_of_a_page_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has begun it holds that much already: nobody need be closed for its sake."""
    monkeypatch.setattr(receive_budget, "_LOOK_S", 600)

    async with gated(max_bytes=LOGIN_BYTES) as (broker, _), asyncio.timeout(60):
        await fill_with_strangers(broker)
        for _ in range(10):
            await log_in_with_segments(broker)
