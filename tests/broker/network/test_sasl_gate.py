"""The gate of a SASL listener over real sockets: delays, bounds, sessions that end."""

import asyncio
import gc
import logging
import struct

import pytest

from tierlog.broker.network.sasl_gate import SaslGate
from tierlog.tests.broker.socket_peers import Peer, Running, frame, until
from tierlog.tests.security.sasl.sasl_frames import (
    BAD,
    authenticate,
    handshake,
    metadata,
    read_token,
    versions,
)

from .gated_server import count, gated, log_in


async def test_a_client_is_served_as_who_it_has_proven_to_be() -> None:
    async with gated() as (broker, metrics):
        peer = await broker.connect()
        assert await peer.ask(versions()) == b"User:ANONYMOUS"
        await log_in(peer)
        assert await peer.ask(metadata()) == b"User:alice"
        # The server's own limit is in force from now on.
        assert await peer.ask(metadata() + bytes(100_000)) == b"User:alice"
        # Too late, and the server's business: it answers that.
        assert await peer.ask(authenticate()) == b"User:alice"
        assert await peer.ask(handshake()) == b"User:alice"
        assert await peer.ask(b"") == b"User:alice"
        assert count(metrics, "successful-authentication-total") == 1
        assert count(metrics, "successful-authentication-no-reauth-total") == 0


async def test_requests_that_arrive_with_the_exchange_are_served_behind_it() -> None:
    async with gated() as (broker, _):
        peer = await broker.connect()
        together = (versions(), handshake(), authenticate(), metadata(), metadata())
        peer.writer.write(b"".join(map(frame, together)))
        answers = [await peer.answer() for _ in together]
        assert answers[3:] == [b"User:alice"] * 2


async def test_nothing_but_the_exchange_is_served_before_it() -> None:
    for body in (metadata(), authenticate(), b"", b"GET / HTTP/1.1", bytes(4097)):
        async with gated() as (broker, metrics):
            peer = await broker.connect()
            peer.writer.write(frame(body))
            assert await peer.is_closed_by_the_server()
            assert count(metrics, "successful-authentication-total") == 0


async def test_a_token_above_the_limit_closes_at_its_size() -> None:
    async with gated(max_bytes=1024) as (broker, _):
        peer = await broker.connect()
        await peer.ask(handshake())
        # Only the size and a little of it: nothing is kept for the rest.
        peer.writer.write(frame(authenticate(bytes(2048)))[:64])
        assert await peer.is_closed_by_the_server()
        assert broker.server.receive_budget.used == 0


async def test_a_failed_client_waits_for_its_answer_and_nobody_else_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with gated(delay_s=0.3) as (broker, metrics):
        loop = asyncio.get_running_loop()
        peers = [await broker.connect() for _ in range(20)]
        for peer in peers:
            await peer.ask(handshake())
        began = loop.time()
        for peer in peers:
            # What comes behind a failure is never looked at.
            peer.writer.write(frame(authenticate(BAD)) + frame(metadata()))
        other = await broker.connect()
        await log_in(other)
        for peer in peers:
            answer = read_token(bytes(4) + await peer.answer())
            assert answer.error_code == 58
            assert answer.error_message == "Authentication failed: Invalid username or password"
            assert loop.time() - began >= 0.3
        for peer in peers:
            assert await peer.is_closed_by_the_server()
        assert count(metrics, "failed-authentication-total") == 20
        assert broker.metric("connection-count") == 1
        assert "barley" not in caplog.text


async def test_a_failed_client_that_leaves_is_forgotten_at_once() -> None:
    async with gated(delay_s=600) as (broker, metrics):
        peer = await broker.connect()
        await peer.ask(handshake())
        peer.writer.write(frame(authenticate(BAD)))
        await until(lambda: count(metrics, "failed-authentication-total") == 1)
        assert broker.metric("connection-count") == 1
        peer.writer.close()
        await until(lambda: broker.metric("connection-count") == 0)


async def test_a_session_that_has_ended_closes_at_the_next_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with gated(max_reauth_ms=1) as (broker, metrics):
        peer = await broker.connect()
        await log_in(peer)
        await asyncio.sleep(0.01)
        assert broker.metric("connection-count") == 1
        peer.writer.write(frame(metadata()))
        assert await peer.is_closed_by_the_server()
        assert count(metrics, "expired-connections-killed-count") == 1
        assert "its session has expired" in caplog.text


async def test_a_session_that_has_ended_may_be_begun_anew() -> None:
    async with gated(max_reauth_ms=1) as (broker, metrics):
        peer = await broker.connect()
        await log_in(peer)
        await asyncio.sleep(0.01)
        await log_in(peer)
        assert count(metrics, "successful-reauthentication-total") == 1
        assert count(metrics, "successful-authentication-total") == 1


async def test_a_failed_re_authentication_is_counted_apart() -> None:
    async with gated(max_reauth_ms=3_600_000) as (broker, metrics):
        peer = await broker.connect()
        await log_in(peer)
        await peer.ask(handshake())
        assert read_token(bytes(4) + await peer.ask(authenticate(BAD))).error_code == 58
        assert await peer.is_closed_by_the_server()
        assert count(metrics, "failed-reauthentication-total") == 1
        assert count(metrics, "failed-authentication-total") == 0


async def test_strangers_use_up_no_memory_of_those_who_are_authenticated() -> None:
    async with gated(max_bytes=512 * 1024) as (broker, _):
        alice = await broker.connect()
        await log_in(alice)
        for _ in range(20):
            await announce(broker)
        server = broker.server
        await until(lambda: server.strangers.used >= 20 * ANNOUNCED_BYTES)
        assert server.receive_budget.used == 0
        large = metadata() + bytes(900_000)
        alice.writer.write(frame(large)[:500_000])
        await until(lambda: server.receive_budget.used >= 500_000)
        alice.writer.write(frame(large)[500_000:])
        assert await alice.answer() == b"User:alice"
        await until(lambda: server.receive_budget.used == 0)


async def test_a_login_in_pieces_is_charged_to_strangers_until_it_is_complete() -> None:
    async with gated(max_bytes=512 * 1024) as (broker, _):
        peer, server = await broker.connect(), broker.server
        await peer.ask(handshake())
        token = frame(authenticate())
        # The next request begins in the read that completes the login.
        following = frame(metadata() + bytes(200_000))
        peer.writer.write(token[:20])
        await until(lambda: server.strangers.used == len(token) - 4)
        peer.writer.write(token[20:] + following[:10_000])
        assert read_token(bytes(4) + await peer.answer()).error_code == 0
        await until(lambda: server.receive_budget.used >= 10_000)
        assert server.strangers.used == 0
        peer.writer.write(following[10_000:])
        assert await peer.answer() == b"User:alice"
        await until(lambda: server.receive_budget.used == 0)


def gates_in_memory() -> int:
    return sum(isinstance(each, SaslGate) for each in gc.get_objects())


def test_a_closed_connection_is_freed_without_a_garbage_collection() -> None:
    """A broker collects seldom: strangers who come and go must not leave their buffers behind."""

    async def story() -> None:
        async with gated() as (broker, metrics):
            stranger, alice = await broker.connect(), await broker.connect()
            await stranger.ask(handshake())
            await log_in(alice)
            assert gates_in_memory() == 2
            for each in (stranger, alice):
                each.writer.write(frame(metadata())[:9])
                each.writer.close()
            await until(lambda: not gates_in_memory())
            assert count(metrics, "successful-authentication-total") == 1

    gc.collect()
    gc.disable()
    try:
        asyncio.run(story())
    finally:
        gc.enable()


ANNOUNCED_BYTES = 100_000


async def announce(broker: Running) -> Peer:
    """A stranger that sends a part of a large request."""
    stranger = await broker.connect()
    stranger.writer.write(struct.pack(">i", 512 * 1024) + bytes(ANNOUNCED_BYTES))
    return stranger


def test_a_plain_text_client_of_a_sasl_ssl_listener_is_named_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with gated(has_tls=True) as (broker, _):
            _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(frame(versions()))
            await until(lambda: "does not speak TLS" in caplog.text)
            writer.transport.abort()

    with caplog.at_level(logging.INFO):
        asyncio.run(story())
    assert "; set security.protocol=SASL_SSL on that client" in caplog.text
