"""Attacks on re-authentication (KIP-368): storms, other users and mechanisms, requests between."""

import asyncio

import pytest

from tierlog.broker.metrics.metrics import Metrics
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Response
from tierlog.clients.protocol.connection import frame as framed
from tierlog.clients.sasl.scram_keys import SCRAM_SHA_256, SCRAM_SHA_512
from tierlog.security.sasl import authenticator
from tierlog.tests.broker.socket_peers import Peer, Running, frame, until
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

from .gated_server import count, gated, log_in, prove, scram

HOUR_MS = 3_600_000
BOB = b"\0bob\0swordfish"
PRODUCE = b"\0\0\0\x09"


class Held:
    """A server that answers some requests when the test says so, each with its client's name."""

    def __init__(self, *, is_pipelined: bool = False) -> None:
        self.waiting: list[asyncio.Future[object]] = []
        self.client: ConnectedClient | None = None
        self._is_pipelined = is_pipelined

    def answer(self, client: ConnectedClient, request: memoryview) -> Response:
        name = client.session.principal.encode()
        if bytes(request[:4]) != PRODUCE:
            return framed([name])
        self.client = client
        self.waiting.append(asyncio.get_running_loop().create_future())

        def respond(done: asyncio.Future[object]) -> Response:
            return framed([b"held for " + name])

        return DeferredResponse(self.waiting[-1], respond, is_pipelined=self._is_pipelined)


def send(peer: Peer, *bodies: bytes) -> None:
    """Send frames in one go."""
    peer.writer.write(b"".join(map(frame, bodies)))


async def error_of_token(peer: Peer) -> int:
    return read_token(bytes(4) + await peer.answer()).error_code


async def error_of_handshake(peer: Peer) -> int:
    return read_handshake(bytes(4) + await peer.answer()).error_code


async def logged_in(broker: Running) -> Peer:
    peer = await broker.connect()
    await log_in(peer)
    return peer


def again(metrics: Metrics) -> tuple[float, float]:
    """How many re-authentications have succeeded and failed."""
    return (
        count(metrics, "successful-reauthentication-total"),
        count(metrics, "failed-reauthentication-total"),
    )


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test lasts as long as the interval between two re-authentications."""
    monkeypatch.setattr(authenticator, "REAUTHENTICATION_INTERVAL_S", 3_600.0)


@pytest.mark.usefixtures("soon")
async def test_a_storm_of_re_authentications_comes_through_once() -> None:
    """What comes too soon is a request like any other, which the server answers with an error."""
    async with gated(max_reauth_ms=HOUR_MS) as (broker, metrics):
        peer = await logged_in(broker)
        send(peer, handshake(), authenticate(), *[handshake(), authenticate()] * 300)
        assert await error_of_handshake(peer) == 0
        assert await error_of_token(peer) == 0
        for _ in range(600):
            assert await peer.answer() == b"User:alice"
        assert again(metrics) == (1, 0)


async def test_a_session_without_an_end_is_never_proven_again() -> None:
    async with gated() as (broker, metrics):
        peer = await logged_in(broker)
        send(peer, *[handshake(), authenticate(BOB)] * 100)
        for _ in range(200):
            assert await peer.answer() == b"User:alice"
        assert again(metrics) == (0, 0)


@pytest.mark.parametrize("token", [BOB, BAD, b"bob\0alice\0open sesame", b""])
async def test_nothing_behind_a_proof_that_fails_is_served(token: bytes) -> None:
    served: list[bytes] = []

    def note(client: ConnectedClient, request: memoryview) -> Response:
        served.append(client.session.principal.encode())
        return framed([served[-1]])

    async with gated(answers=note, max_reauth_ms=HOUR_MS) as (broker, metrics):
        peer = await logged_in(broker)
        send(peer, metadata(), handshake(), authenticate(token), *[metadata()] * 20)
        assert await peer.answer() == b"User:alice"
        assert await error_of_handshake(peer) == 0
        assert await error_of_token(peer) == 58
        assert await peer.is_closed_by_the_server()
        assert served == [b"User:alice"]
        assert again(metrics) == (0, 1)


async def test_another_mechanism_is_refused_though_its_proof_is_right() -> None:
    users = {(each.name, "alice"): "pencil" for each in (SCRAM_SHA_256, SCRAM_SHA_512)}
    both = (scram(SCRAM_SHA_256, users), scram(SCRAM_SHA_512, users))
    async with gated(plain(), *both, max_reauth_ms=HOUR_MS) as (broker, metrics):
        peer = await broker.connect()
        assert await prove(peer, SCRAM_SHA_256, "alice", "pencil") == 0
        assert await prove(peer, SCRAM_SHA_512, "alice", "pencil") == 58
        assert await peer.is_closed_by_the_server()
        peer = await broker.connect()
        assert await prove(peer, SCRAM_SHA_256, "alice", "pencil") == 0
        await peer.ask(handshake())
        assert read_token(bytes(4) + await peer.ask(authenticate(GOOD))).error_code == 58
        assert again(metrics) == (0, 2)


async def test_a_user_whose_credential_is_gone_is_cut_off_when_it_proves_itself_again() -> None:
    users = {(SCRAM_SHA_256.name, "alice"): "pencil"}
    async with gated(scram(SCRAM_SHA_256, users), max_reauth_ms=HOUR_MS) as (broker, metrics):
        peer = await broker.connect()
        assert await prove(peer, SCRAM_SHA_256, "alice", "pencil") == 0
        users.clear()
        # Its session goes on until it ends.
        assert await peer.ask(metadata()) == b"User:alice"
        assert await prove(peer, SCRAM_SHA_256, "alice", "pencil") == 58
        assert await peer.is_closed_by_the_server()
        assert again(metrics) == (0, 1)


@pytest.mark.parametrize("body", [metadata(), versions(), handshake(), PRODUCE + bytes(20)])
async def test_no_request_is_served_between_handshake_and_proof(body: bytes) -> None:
    async with gated(max_reauth_ms=HOUR_MS) as (broker, metrics):
        peer = await logged_in(broker)
        send(peer, handshake(), body, authenticate(), metadata())
        assert await error_of_handshake(peer) == 0
        with pytest.raises(asyncio.IncompleteReadError):
            while True:
                assert b"User:" not in await peer.answer()
        assert again(metrics) == (0, 1)


async def test_a_large_frame_is_none_of_a_proof_though_the_client_may_send_large_requests() -> None:
    async with gated(max_bytes=1024, max_reauth_ms=HOUR_MS) as (broker, metrics):
        peer = await logged_in(broker)
        large = metadata() + bytes(100_000)
        assert await peer.ask(large) == b"User:alice"
        await peer.ask(handshake())
        send(peer, authenticate(bytes(100_000)))
        assert await peer.is_closed_by_the_server()
        assert again(metrics) == (0, 1)


@pytest.mark.parametrize("is_pipelined", [False, True])
@pytest.mark.parametrize("token", [GOOD, BOB])
async def test_what_was_requested_before_is_answered_before_and_as_it_was(
    token: bytes, is_pipelined: bool
) -> None:
    held = Held(is_pipelined=is_pipelined)

    async with gated(answers=held.answer, max_reauth_ms=HOUR_MS) as (broker, metrics):
        peer = await logged_in(broker)
        send(peer, PRODUCE + bytes(20), handshake(), authenticate(token), metadata())
        await until(lambda: bool(held.waiting))
        # The proof waits for its turn.
        assert again(metrics) == (0, 0)
        held.waiting[0].set_result(None)
        assert await peer.answer() == b"held for User:alice"
        assert await error_of_handshake(peer) == 0
        if token is GOOD:
            assert await error_of_token(peer) == 0
            assert await peer.answer() == b"User:alice"
        else:
            assert await error_of_token(peer) == 58
            assert await peer.is_closed_by_the_server()


async def test_a_request_that_waits_at_the_end_of_its_session_is_answered_and_the_next_is_not() -> (
    None
):
    held = Held(is_pipelined=True)

    async with gated(answers=held.answer, max_reauth_ms=HOUR_MS) as (broker, metrics):
        peer = await logged_in(broker)
        send(peer, PRODUCE + bytes(20))
        await until(lambda: bool(held.waiting))
        assert held.client is not None
        held.client.session = held.client.session._replace(expires_at=0.0)
        send(peer, PRODUCE + bytes(20), metadata())
        await until(lambda: count(metrics, "expired-connections-killed-count") == 1)
        held.waiting[0].set_result(None)
        assert await peer.answer() == b"held for User:alice"
        assert await peer.is_closed_by_the_server()
        assert len(held.waiting) == 1


@pytest.mark.usefixtures("soon")
async def test_an_ended_session_may_not_begin_again_sooner_than_a_second_after_the_last() -> None:
    async with gated(max_reauth_ms=1) as (broker, metrics):
        peer = await logged_in(broker)
        await asyncio.sleep(0.01)
        await log_in(peer)
        await asyncio.sleep(0.01)
        send(peer, handshake())
        assert await peer.is_closed_by_the_server()
        assert again(metrics) == (1, 0)
        assert count(metrics, "expired-connections-killed-count") == 1


async def test_who_begins_to_prove_itself_and_stops_is_served_nothing_more() -> None:
    """The end of the old session does not matter any more, and neither does time."""
    async with gated(max_reauth_ms=1) as (broker, metrics):
        peer = await logged_in(broker)
        await peer.ask(handshake())
        await asyncio.sleep(0.01)
        assert count(metrics, "expired-connections-killed-count") == 0
        answer = await peer.ask(authenticate())
        assert read_token(bytes(4) + answer).error_code == 0
        assert again(metrics) == (1, 0)


@pytest.mark.parametrize("leaves", ["at once", "when it is answered"])
async def test_many_who_fail_at_once_hold_up_nobody_and_leave_nothing_behind(leaves: str) -> None:
    async with gated(delay_s=0.2, max_reauth_ms=HOUR_MS) as (broker, metrics):
        peers = [await logged_in(broker) for _ in range(30)]
        for peer in peers:
            send(peer, handshake(), authenticate(BOB))
            if leaves == "at once":
                peer.writer.close()
        await until(lambda: again(metrics) == (0, 30))
        other = await logged_in(broker)
        assert await other.ask(metadata()) == b"User:alice"
        await until(lambda: broker.metric("connection-count") == 1)
        assert broker.server.strangers.used == broker.server.receive_budget.used == 0
