"""TLS connections over real sockets: frames, order, back-pressure, and who is not let in."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tierlog.broker.network import tls_transport
from tierlog.broker.network.connection import ConnectedClient
from tierlog.broker.network.response import DeferredResponse, Response
from tierlog.broker.network.tls_transport import TlsAcceptor
from tierlog.clients.protocol.connection import frame as framed
from tierlog.clients.protocol.schema import Chunk
from tierlog.storage.files import OsFiles
from tierlog.tests.broker.socket_peers import Running, frame, running, saying, until
from tierlog.tests.security.tls.certificates import (
    client_context,
    person,
    server,
)

LONG_S = 60.0


def anybody() -> TlsAcceptor:
    return TlsAcceptor(server(), LONG_S)


def known_people(rules: str = "DEFAULT") -> TlsAcceptor:
    return TlsAcceptor(server("required", rules), LONG_S)


async def test_requests_are_answered_in_order() -> None:
    async with running(tls=anybody()) as broker:
        peer = await broker.connect(client_context())
        requests = [bytes([number]) * (number * 700) for number in range(60)]
        peer.writer.write(b"".join(map(frame, requests)))
        assert [await peer.answer() for _ in requests] == requests
        assert broker.metric("failed-authentication-total") == 0


async def test_a_large_request_arrives_whole_and_what_follows_it_too() -> None:
    async with running(tls=anybody()) as broker:
        peer = await broker.connect(client_context())
        body = bytes(range(256)) * 20_000
        peer.writer.write(frame(body) + frame(b"small") + frame(body[:90_000]))
        assert await peer.answer() == body
        assert await peer.answer() == b"small"
        assert await peer.answer() == body[:90_000]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_protocols_are_served(version: ssl.TLSVersion) -> None:
    async with running(tls=anybody()) as broker:
        context = client_context()
        context.minimum_version = context.maximum_version = version
        peer = await broker.connect(context)
        assert await peer.ask(b"hello") == b"hello"


async def test_a_client_that_reads_slowly_gets_all_regions_of_a_file(tmp_path: Path) -> None:
    content = bytes(range(256)) * 40_000
    file = OsFiles().open(str(tmp_path / "segment"), create=True)
    file.write_at(0, content)

    def regions(client: ConnectedClient, request: memoryview) -> Response:
        parts: Sequence[Chunk] = [b"head", file.region(0, len(content)), b"tail"]
        return framed(parts)

    async with running(regions, tls=anybody()) as broker:
        peer = await broker.connect(client_context())
        for _ in range(3):
            peer.writer.write(frame(b"?"))
        for _ in range(3):
            await asyncio.sleep(0.02)
            assert await peer.answer() == b"head" + content + b"tail"
    file.close()


def test_a_certificate_gives_its_owner_a_name() -> None:
    sessions: list[object] = []

    def note(client: ConnectedClient, request: memoryview) -> Response:
        sessions.append(client.session)
        return framed([client.session.principal.encode()])

    async def names(acceptor: TlsAcceptor, context: ssl.SSLContext) -> bytes:
        async with running(note, tls=acceptor) as broker:
            return await (await broker.connect(context)).ask(b"who")

    alice = client_context(person("alice"))
    assert b"CN=alice" in asyncio.run(names(known_people(), alice))
    rules = "RULE:^CN=(.*?),.*$/$1/U,DEFAULT"
    assert asyncio.run(names(known_people(rules), alice)) == b"User:ALICE"
    assert asyncio.run(names(anybody(), alice)) == b"User:ANONYMOUS"
    asking = TlsAcceptor(server("requested"), LONG_S)
    assert asyncio.run(names(asking, client_context())) == b"User:ANONYMOUS"
    assert b"CN=alice" in asyncio.run(names(asking, alice))


async def is_let_in(broker: Running, context: ssl.SSLContext) -> bool:
    """Whether a client is served. With TLS 1.3, it learns the opposite with its first read."""
    try:
        peer = await broker.connect(context)
        return await peer.ask(b"hello") == b"hello"
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        (lambda: client_context(), "peer did not return a certificate"),
        (lambda: client_context(person("eve", "theirs")), "its certificate is not accepted"),
        (lambda: client_context(person("old", has_expired=True)), "certificate has expired"),
        (lambda: client_context(person("alice"), trusts="theirs"), "its TLS handshake"),
    ],
)
async def test_who_cannot_show_a_good_certificate_is_not_let_in(
    context: Callable[[], ssl.SSLContext], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tls=known_people()) as broker:
        assert not await is_let_in(broker, context())
        await until(lambda: broker.metric("failed-authentication-total") == 1)
        assert await is_let_in(broker, client_context(person("alice")))
    assert reason in caplog.text


async def test_whose_name_no_rule_matches_is_not_let_in() -> None:
    async with running(tls=known_people("RULE:^CN=alice,.*$/alice/")) as broker:
        assert await is_let_in(broker, client_context(person("alice")))
        assert not await is_let_in(broker, client_context(person("bob")))


@pytest.mark.parametrize("begin", [b"\x00\x00\x00\x04abcd", b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03"])
async def test_what_is_no_handshake_is_answered_with_nothing(begin: bytes) -> None:
    async with running(tls=anybody()) as broker:
        peer = await broker.connect()
        peer.writer.write(begin)
        assert await peer.is_closed_by_the_server()
        assert broker.metric("failed-authentication-total") == 1


async def test_a_look_at_the_port_is_no_failure() -> None:
    async with running(tls=anybody()) as broker:
        peer = await broker.connect()
        peer.writer.close()
        await until(lambda: broker.metric("connection-close-total") == 1)
        assert broker.metric("failed-authentication-total") == 0


async def test_a_handshake_that_does_not_end_is_cut_off() -> None:
    async with running(tls=TlsAcceptor(server(), 0.05)) as broker:
        peer = await broker.connect()
        peer.writer.write(b"\x16\x03\x01\x02\x00\x01")
        assert await peer.is_closed_by_the_server()
        assert broker.metric("failed-authentication-total") == 1


async def test_a_handshake_that_is_too_long_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "HANDSHAKE_BYTES_MAX", 100)

    async with running(tls=anybody()) as broker:
        assert not await is_let_in(broker, client_context())


async def test_many_handshakes_at_once_all_end() -> None:
    async with running(tls=anybody()) as broker:
        context = client_context()
        peers = await asyncio.gather(*(broker.connect(context) for _ in range(30)))
        assert [await each.ask(b"x") for each in peers] == [b"x"] * 30


async def test_half_of_a_handshake_and_garbage_after_it_end_only_their_connection() -> None:
    async with running(tls=anybody()) as broker:
        peer = await broker.connect(client_context())
        assert await peer.ask(b"x") == b"x"
        raw = peer.writer.get_extra_info("socket")
        other = socket.socket(fileno=socket.dup(raw.fileno()))
        other.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
            await peer.answer()
        assert (await (await broker.connect(client_context())).ask(b"y")) == b"y"
        other.close()


async def test_a_client_that_leaves_frees_what_its_request_waits_for() -> None:
    waiting: list[asyncio.Future[object]] = []

    def later(client: ConnectedClient, request: memoryview) -> Response:
        waiting.append(asyncio.get_running_loop().create_future())
        return DeferredResponse(waiting[-1], saying(b"late"))

    async with running(later, tls=anybody()) as broker:
        for is_apart in (False, True):
            peer = await broker.connect(client_context())
            peer.writer.write(frame(b"first"))
            if is_apart:
                await until(lambda: bool(waiting))
            peer.writer.write(frame(b"second"))
            await until(lambda: bool(waiting))
            peer.writer.transport.abort()
            await until(waiting.pop().cancelled)


async def test_a_client_that_says_it_sends_no_more_gets_its_answer() -> None:
    def ask(port: int) -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", port), 20) as raw:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65_536))
            tls.write(frame(b"last words"))
            with suppress(ssl.SSLWantReadError):
                tls.unwrap()
            raw.sendall(outgoing.read())
            while received := raw.recv(65_536):
                incoming.write(received)
        return tls.read(100)

    async with running(tls=anybody()) as broker:
        answer = await asyncio.to_thread(ask, broker.port)
        assert answer == frame(b"last words")
        assert broker.metric("failed-authentication-total") == 0
