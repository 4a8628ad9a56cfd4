"""Logins as Kafka's `SaslAuthenticatorTest` plays them, through real sockets."""

import asyncio
import random
import struct

import pytest

from tierlog.broker.metrics.metrics import Metrics
from tierlog.clients.protocol.api import APIS, ApiKey
from tierlog.clients.sasl.scram_keys import SCRAM_SHA_256, SCRAM_SHA_512
from tierlog.tests.broker.socket_peers import Peer, Running, frame
from tierlog.tests.security.sasl.sasl_frames import (
    BAD,
    GOOD,
    authenticate,
    handshake,
    metadata,
    plain,
    read_handshake,
    read_token,
    versions,
)
from tierlog.tests.security.tls.certificates import client_context

from .gated_server import ScramLogin, count, gated, log_in, prove, scram

USERS = {(each.name, "alice"): "pencil" for each in (SCRAM_SHA_256, SCRAM_SHA_512)}
LIMIT = 1024


async def serves_others(broker: Running) -> None:
    """The next client is let in."""
    peer = await broker.connect()
    await log_in(peer)
    assert await peer.ask(metadata()) == b"User:alice"


async def test_several_mechanisms_let_their_clients_in_side_by_side() -> None:
    both = (scram(SCRAM_SHA_256, USERS), scram(SCRAM_SHA_512, USERS))
    async with gated(plain(), *both, max_reauth_ms=3_600_000) as (broker, metrics):
        peers = [await broker.connect() for _ in range(3)]
        for again in range(2):
            await log_in(peers[0])
            assert await prove(peers[1], SCRAM_SHA_256, "alice", "pencil") == 0
            assert await prove(peers[2], SCRAM_SHA_512, "alice", "pencil") == 0
            for peer in peers:
                assert await peer.ask(metadata()) == b"User:alice"
            assert count(metrics, "successful-authentication-total") == 3
            assert count(metrics, "successful-reauthentication-total") == 3 * again


async def test_a_user_without_a_credential_for_one_mechanism_gets_in_by_the_other() -> None:
    users = {(SCRAM_SHA_512.name, "alice"): "pencil"}
    both = (scram(SCRAM_SHA_256, users), scram(SCRAM_SHA_512, users))
    async with gated(*both) as (broker, metrics):
        assert await prove(await broker.connect(), SCRAM_SHA_256, "alice", "pencil") == 58
        assert await prove(await broker.connect(), SCRAM_SHA_512, "alice", "pencil") == 0
        assert count(metrics, "failed-authentication-total") == 1
        assert count(metrics, "successful-authentication-total") == 1


async def test_a_users_name_may_have_the_characters_that_scram_itself_uses() -> None:
    name = "special user= test,scram"
    users = {(SCRAM_SHA_256.name, name): f"{name}-password"}
    async with gated(scram(SCRAM_SHA_256, users)) as (broker, _):
        peer = await broker.connect()
        assert await prove(peer, SCRAM_SHA_256, name, f"{name}-password") == 0
        assert await peer.ask(metadata()) == f"User:{name}".encode()


@pytest.mark.parametrize("bad", [(BAD, 58), (b"\0bob\0open sesame", 58), (b"\0\0x", 58)])
async def test_who_fails_gets_in_with_the_right_password(bad: tuple[bytes, int]) -> None:
    async with gated() as (broker, metrics):
        peer = await broker.connect()
        await peer.ask(handshake())
        answer = read_token(bytes(4) + await peer.ask(authenticate(bad[0])))
        assert answer.error_code == bad[1]
        assert await peer.is_closed_by_the_server()
        await serves_others(broker)
        assert count(metrics, "failed-authentication-total") == 1


@pytest.mark.parametrize("has_tls", [False, True])
async def test_tokens_without_a_header_let_a_client_in_and_fail_without_an_answer(
    has_tls: bool,
) -> None:
    mechanisms = (plain(), scram(SCRAM_SHA_256, USERS))
    tls = client_context() if has_tls else None
    async with gated(*mechanisms, has_tls=has_tls) as (broker, metrics):
        for password, is_let_in in (("pencil", True), ("wrong", False)):
            peer = await broker.connect(tls)
            await peer.ask(handshake(SCRAM_SHA_256.name, version=0))
            login = ScramLogin(SCRAM_SHA_256, "alice", password)
            proof = login.final(await peer.ask(login.first))
            if is_let_in:
                assert (await peer.ask(proof)).startswith(b"v=")
                assert await peer.ask(metadata()) == b"User:alice"
            else:
                peer.writer.write(frame(proof))
                assert await peer.is_closed_by_the_server()
        for token, is_let_in in ((GOOD, True), (BAD, False)):
            peer = await broker.connect(tls)
            await peer.ask(handshake(version=0))
            if is_let_in:
                assert await peer.ask(token) == b""
                assert await peer.ask(metadata()) == b"User:alice"
            else:
                peer.writer.write(frame(token))
                assert await peer.is_closed_by_the_server()
        # Nobody of these can be given the end of a session.
        assert count(metrics, "successful-authentication-no-reauth-total") == 2


async def after_handshake(peer: Peer) -> None:
    await peer.ask(handshake())


async def after_versions(peer: Peer) -> None:
    await peer.ask(versions())


async def at_once(peer: Peer) -> None:
    """Nothing has been sent yet."""


MOMENTS = [at_once, after_versions, after_handshake]


@pytest.mark.parametrize(
    "content",
    [
        struct.pack(">i", 0x7FFF_FFFF),
        struct.pack(">i", -1),
        struct.pack(">i", -0x8000_0000),
        struct.pack(">i", 0),
        struct.pack(">i", LIMIT + 1),
        frame(random.Random(29).randbytes(500)),
        frame(b"\xff" * LIMIT),
        frame(handshake("A" * LIMIT)),
        frame(metadata()),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
async def test_what_is_not_expected_ends_its_own_connection_alone(content: bytes) -> None:
    async with gated(max_bytes=LIMIT) as (broker, metrics):
        for moment in MOMENTS:
            peer = await broker.connect()
            await moment(peer)
            peer.writer.write(content)
            assert await no_success(peer)
        assert broker.server.strangers.used == 0
        await serves_others(broker)
        assert count(metrics, "successful-authentication-total") == 1


async def no_success(peer: Peer) -> bool:
    """Whether the connection ends, with no more than one error before."""
    try:
        answer = await peer.answer()
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return True
    assert 34 in answer
    return await peer.is_closed_by_the_server()


async def test_a_frame_of_the_limit_is_read_and_a_second_one_above_it_is_not() -> None:
    users = {(SCRAM_SHA_256.name, "alice"): "pencil"}
    async with gated(plain(), scram(SCRAM_SHA_256, users), max_bytes=LIMIT) as (broker, _):
        peer = await broker.connect()
        token = authenticate(b"\0alice\0" + b"x" * 900)
        exact = token + bytes(LIMIT - len(token))
        await peer.ask(handshake())
        assert read_token(bytes(4) + await peer.ask(exact)).error_code == 58
        peer = await broker.connect()
        await peer.ask(handshake(SCRAM_SHA_256.name))
        first = ScramLogin(SCRAM_SHA_256, "alice", "pencil").first
        assert read_token(bytes(4) + await peer.ask(authenticate(first))).error_code == 0
        peer.writer.write(frame(authenticate(b"c=" + b"x" * LIMIT)))
        assert await peer.is_closed_by_the_server()


@pytest.mark.parametrize("name", ["GSSAPI", "", "plain", "INVALID", "SCRAM-SHA-256"])
async def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(name: str) -> None:
    async with gated(delay_s=0.05) as (broker, metrics):
        peer = await broker.connect()
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = read_handshake(bytes(4) + await peer.ask(handshake(name)))
        assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN"])
        assert loop.time() - began >= 0.05
        assert await peer.is_closed_by_the_server()
        assert failures(metrics) == 1


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("handshake_version", [0, 1])
async def test_every_version_of_api_versions_may_come_before_a_login(
    version: int, handshake_version: int
) -> None:
    async with gated() as (broker, _):
        peer = await broker.connect()
        assert await peer.ask(versions(version=version)) == b"User:ANONYMOUS"
        await peer.ask(handshake(version=handshake_version))
        await peer.ask(authenticate() if handshake_version else GOOD)
        assert await peer.ask(metadata()) == b"User:alice"


def failures(metrics: Metrics) -> float:
    return count(metrics, "failed-authentication-total")


def test_the_handshakes_version_is_never_raised() -> None:
    """Clients guess from it how tokens are framed (KAFKA-9577)."""
    served = APIS[ApiKey.SASL_HANDSHAKE]
    assert [version for version in range(10) if served.serves(version)] == [0, 1]
