"""HTTP: what is answered and to whom, and that nobody can hold the broker up by it."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from tierlog.bench.harness.requests.admin import create_topic, delete_topic
from tierlog.broker.broker import StartError
from tierlog.broker.metrics.metrics import Metrics
from tierlog.broker.network import http_endpoint
from tierlog.broker.network.http_endpoint import HttpEndpoint
from tierlog.broker.network.http_message import (
    Request,
    Response,
    encode_response,
    parse_request,
    plain,
    refusal,
)
from tierlog.broker.network.socket_listener import SocketNetwork, SocketOptions
from tierlog.broker.network.transport import Network
from tierlog.broker.status.status_site import StatusSite
from tierlog.tests.simulation.streams import StreamNetwork

from ...broker_process import BrokerThread
from ...waiting import wait_until
from ..exposition_reader import parse_exposition

NETWORKS: list[Callable[[], Network]] = [lambda: SocketNetwork(SocketOptions()), StreamNetwork]
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost:9404\r\n\r\n"


@asynccontextmanager
async def served(network: Network) -> AsyncGenerator[int]:
    """The port of an endpoint that shows one counter."""
    metrics = Metrics()
    metrics.counter("d:type=T,name=n").add(3)
    site = StatusSite(metrics, str, lambda: None)
    endpoint = HttpEndpoint(network, site.answer_health)
    port = await endpoint.start("127.0.0.1", 0)
    try:
        async with asyncio.timeout(20):
            yield port
    finally:
        endpoint.stop()


async def exchange(port: int, *pieces: bytes) -> bytes:
    """Send the pieces one after another and read until the endpoint closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("network", NETWORKS)
async def test_a_scrape_is_answered_and_the_connection_closed(
    network: Callable[[], Network],
) -> None:
    async with served(network()) as port:
        answer = await exchange(port, GET)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
        assert b"Content-Length: %d\r\n" % len(body) in head
        assert parse_exposition(body.decode()) == {("d_T_Count", (("name", "n"),)): 3}


@pytest.mark.parametrize("network", NETWORKS)
async def test_a_request_may_come_in_pieces(network: Callable[[], Network]) -> None:
    async with served(network()) as port:
        pieces = [GET[position : position + 1] for position in range(len(GET))]
        assert (await exchange(port, *pieces)).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("network", NETWORKS)
async def test_a_head_without_end_is_cut_off(network: Callable[[], Network]) -> None:
    async with served(network()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for _ in range(100):
                writer.write(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9_000)
                await writer.drain()
            assert await reader.read() == b""
        except ConnectionError:
            # What we had not read of it may be answered with a reset.
            assert reader.at_eof() or reader.exception() is not None
        writer.close()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("nbytes", [8_100, 8_200, 30_000])
async def test_too_many_cookies_get_their_own_error(
    network: Callable[[], Network], nbytes: int
) -> None:
    """All servers of one host share their cookies in a browser."""
    async with served(network()) as port:
        cookies = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nCookie: c=" + b"x" * nbytes
        answer = await exchange(port, cookies[:5_000], cookies[5_000:], b"\r\n\r\n")
        assert answer.split(b" ")[1] == (b"200" if nbytes < 8_192 else b"431")


async def test_who_sends_no_more_after_the_request_is_answered_all_the_same() -> None:
    """As `nc` does. The answer is collected meanwhile."""
    async with served(SocketNetwork(SocketOptions())) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET)
        writer.write_eof()
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()


@pytest.mark.parametrize("burst_s", [0.01, 60])
async def test_connections_that_come_too_fast_wait_for_their_turn(
    burst_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_endpoint, "BURST_S", burst_s)
    fewest = http_endpoint.BURST_MAX
    answered, is_full = list[bytes](), asyncio.Event()

    async def ask(port: int) -> None:
        with suppress(ConnectionError):
            answered.append(await exchange(port, GET))
        if len(answered) == (50 if burst_s < 1 else fewest):
            is_full.set()

    endpoint = HttpEndpoint(SocketNetwork(SocketOptions()), lambda _: plain(200, "ok"))
    port = await endpoint.start("127.0.0.1", 0)
    async with asyncio.timeout(60), asyncio.TaskGroup() as clients:
        for _ in range(50):
            clients.create_task(ask(port))
        await is_full.wait()
        before = list(answered)
        # Who is in the backlog is reset.
        endpoint.stop()
    assert len(before) == (50 if burst_s < 1 else fewest)
    assert all(each.startswith(b"HTTP/1.1 200 OK") for each in before)


async def test_probes_are_answered_beside_any_number_of_slow_clients() -> None:
    """Which keep all connections that there may be, and come again when they lose one."""
    endpoint = HttpEndpoint(SocketNetwork(SocketOptions()), lambda _: plain(200, "ok"))
    port = await endpoint.start("127.0.0.1", 0)
    slow: list[asyncio.StreamWriter] = []
    async with asyncio.timeout(20):
        for _ in range(3):
            for _ in range(http_endpoint.CONNECTIONS_MAX):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /healthz HTTP/1.1\r\n")
                slow.append(writer)
            for _ in range(5):
                assert (await exchange(port, GET)).startswith(b"HTTP/1.1 200 OK")
    endpoint.stop()
    for each in slow:
        each.close()


async def test_whoever_has_not_sent_its_request_makes_room_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """200 connections that say nothing wait in the backlog before a probe, and come again."""
    monkeypatch.setattr(http_endpoint, "_PATIENCE_S", 60)

    async def keep_still(port: int) -> None:
        while True:
            with suppress(ConnectionError), socket.socket() as silent:
                silent.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(silent, ("127.0.0.1", port))
                await loop.sock_recv(silent, 1)

    endpoint = HttpEndpoint(SocketNetwork(SocketOptions()), lambda _: plain(200, "ok"))
    port = await endpoint.start("127.0.0.1", 0)
    silent = [asyncio.ensure_future(keep_still(port)) for _ in range(200)]
    async with asyncio.timeout(20):
        for _ in range(3):
            assert (await exchange(port, GET)).startswith(b"HTTP/1.1 200 OK")
    for each in silent:
        each.cancel()
    await asyncio.wait(silent)
    endpoint.stop()


async def test_the_address_with_the_most_connections_makes_room() -> None:
    """And of it whoever has come first, unless it waits for the broker."""
    endpoint = HttpEndpoint(SocketNetwork(SocketOptions()), lambda _: plain(200, "ok"))
    port = await endpoint.start("127.0.0.1", 0)
    few = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
    many = [
        await asyncio.open_connection("127.0.0.1", port)
        for _ in range(http_endpoint.CONNECTIONS_MAX)
    ]
    async with asyncio.timeout(20):
        assert not await many[0][0].read()
        few[1].write(GET)
        assert (await few[0].read()).startswith(b"HTTP/1.1 200 OK")
    endpoint.stop()
    for _, each in [few, *many]:
        each.close()


SITE = "page\n"


def answered(head: bytes, names: list[str] | None = None) -> bytes:
    """What an endpoint with one page at every address answers."""
    request = parse_request(head)
    refused = refusal(request, names or [])
    return b"".join(encode_response(refused or Response(200, SITE.encode(), etag="e1"), request))


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET /metrics HTTP/1.1", b"200"),
        (b"GET /metrics?name[]=x HTTP/1.0", b"200"),
        (b"HEAD /metrics HTTP/1.1", b"200"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"OPTIONS /api/v1/topics HTTP/1.1", b"405"),
        (b"GET /metrics", b"400"),
        (b"GET /metrics SPDY/3", b"400"),
        (b"\x00\x00\x00\x1c\x00\x12\x00\x03", b"400"),
        (b"", b"400"),
    ],
)
def test_every_first_line_has_its_status(line: bytes, status: bytes) -> None:
    answer = answered(line + b"\r\nHost: localhost:9404")
    assert answer.split(b" ")[1] == status
    assert (b"\r\nAllow: GET, HEAD\r\n" in answer) == (status == b"405")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"127.0.0.1:9404", b"200"),
        (b"[::1]:9404", b"200"),
        (b"10.1.2.3", b"200"),
        (b"LocalHost", b"200"),
        (b"broker-1.example:9404", b"200"),
        (b"evil.example", b"421"),
        (b"127.0.0.1.evil.example", b"421"),
        (b"localhost.evil.example:9404", b"421"),
        (b"", b"421"),
        (b"localhost\r\nHost: evil.example", b"421"),
        (b"\xff\xfe", b"421"),
    ],
)
def test_only_who_knows_the_broker_by_its_own_name_is_answered(host: bytes, status: bytes) -> None:
    """A page of evil.example whose name leads to 127.0.0.1 has its own name in Host."""
    answer = answered(b"GET /metrics HTTP/1.1\r\nHost: " + host, ["broker-1.example"])
    assert answer.split(b" ")[1] == status
    assert (SITE.encode() in answer) == (status == b"200")


_LINK = b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: "


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"Sec-Fetch-Site: same-origin", b"200"),
        (b"Sec-Fetch-Site: none", b"200"),
        (b"Sec-Fetch-Site: cross-site", b"403"),
        (b"Sec-Fetch-Site: same-site", b"403"),
        (b"Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site", b"403"),
        (b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors", b"403"),
        # Somebody follows a link to the page; a frame of another page is none of that.
        (_LINK + b"document", b"200"),
        (_LINK + b"iframe", b"403"),
    ],
)
def test_a_browser_that_asks_for_another_site_is_refused(lines: bytes, status: bytes) -> None:
    answer = answered(b"GET /api/v1/topics HTTP/1.1\r\nHost: localhost\r\n" + lines)
    assert answer.split(b" ")[1] == status


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost",
        b"HEAD / HTTP/1.1",
        b'GET / HTTP/1.1\r\nIf-None-Match: "e1"',
        b"GET / HTTP/1.1\r\nHost: evil.example",
        b"GET / HTTP/1.1\r\nSec-Fetch-Site: cross-site",
        b"DELETE / HTTP/1.1",
        b"nonsense",
    ],
)
def test_every_answer_has_the_policy_and_none_lets_another_origin_read(head: bytes) -> None:
    lines = answered(head).split(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    fields = dict(line.decode().split(": ", 1) for line in lines)
    policy = fields["Content-Security-Policy"].split("; ")
    assert "default-src 'none'" in policy
    assert {f"{each} 'none'" for each in ("base-uri", "form-action", "frame-ancestors")} < {*policy}
    assert not any("unsafe" in each or "*" in each for each in policy)
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert fields["Referrer-Policy"] == "no-referrer"
    assert fields["Cross-Origin-Resource-Policy"] == "same-origin"
    assert not [name for name in fields if name.startswith("Access-Control")]


def test_head_is_get_without_the_page() -> None:
    get, head = answered(b"GET /metrics HTTP/1.1"), answered(b"HEAD /metrics HTTP/1.1")
    assert get == head + SITE.encode()


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        (b'"e1"', b"304"),
        (b'W/"e1"', b"304"),
        (b'"e0", "e1"', b"304"),
        (b"*", b"304"),
        (b'"e0"', b"200"),
        (b"e1", b"200"),
    ],
)
def test_who_has_the_body_does_not_get_it_again(tags: bytes, status: bytes) -> None:
    answer = answered(b"GET / HTTP/1.1\r\nIf-None-Match: " + tags)
    assert answer.split(b" ")[1] == status
    assert b'ETag: "e1"\r\n' in answer
    assert answer.endswith(SITE.encode()) == (status == b"200")


def test_a_path_is_decoded_part_by_part() -> None:
    request = parse_request(b"GET /api/v1/topics/a%2Fb%3Cimg%3E?from=1 HTTP/1.1")
    assert request is not None
    assert request.segments == ("api", "v1", "topics", "a/b<img>")
    assert (request.query, request.value("host")) == ("from=1", "")


@pytest.mark.parametrize("network", NETWORKS)
async def test_an_answer_that_takes_time_is_sent_to_all_who_still_wait(
    network: Callable[[], Network],
) -> None:
    loop = asyncio.get_running_loop()
    pending: asyncio.Future[Response] = loop.create_future()
    asked, all_wait = list[str](), asyncio.Event()

    def site(request: Request) -> asyncio.Future[Response]:
        asked.append(request.path)
        if len(asked) == 3:
            all_wait.set()
        return pending

    endpoint = HttpEndpoint(network(), site)
    port = await endpoint.start("127.0.0.1", 0)
    async with asyncio.timeout(20), asyncio.TaskGroup() as clients:
        _, gone = await asyncio.open_connection("127.0.0.1", port)
        gone.write(GET)
        waiting = [clients.create_task(exchange(port, GET)) for _ in range(2)]
        await all_wait.wait()
        gone.close()
        await gone.wait_closed()
        pending.set_result(plain(200, "late"))
    for each in waiting:
        assert each.result().endswith(b"\r\n\r\nlate\n")
    endpoint.stop()


def test_a_broker_serves_its_metrics_only_at_the_configured_address(tmp_path: Path) -> None:
    with BrokerThread(tmp_path / "off") as broker:
        assert broker.broker is not None
        assert broker.broker.metrics_port == -1
    with BrokerThread(tmp_path / "on", {"tierlog.metrics.port": "0"}) as broker:
        assert broker.broker is not None
        url = f"http://127.0.0.1:{broker.broker.metrics_port}/metrics"
        with urlopen(url, timeout=20) as answer:
            found = parse_exposition(answer.read().decode())
        waiting = (("name", "PurgatorySize"), ("delayedOperation", "Produce"))
        assert found["kafka_server_DelayedOperationPurgatory_Value", waiting] == 0


def test_a_port_in_use_is_a_sentence_and_no_start(tmp_path: Path) -> None:
    with BrokerThread(tmp_path / "first", {"tierlog.metrics.port": "0"}) as first:
        assert first.broker is not None
        port = str(first.broker.metrics_port)
        second = BrokerThread(tmp_path / "second", {"tierlog.metrics.port": port})
        with pytest.raises(StartError, match=f"Cannot serve metrics on 127.0.0.1:{port}") as raised:
            second.__enter__()
        assert str(raised.value).endswith("or set another tierlog.metrics.port.")


def test_the_metrics_of_a_topic_go_when_it_is_deleted(tmp_path: Path) -> None:
    tier = {"rsm.config.url": (tmp_path / "remote").as_uri(), "tierlog.metrics.port": "0"}
    tiered = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
    with BrokerThread(tmp_path / "logs", tier) as broker:
        assert broker.broker is not None
        url = f"http://127.0.0.1:{broker.broker.metrics_port}/metrics"

        def topics() -> set[str]:
            with urlopen(url, timeout=20) as answer:
                series = parse_exposition(answer.read().decode())
            return {value for _, labels in series for key, value in labels if key == "topic"}

        for name in ("stays", "goes"):
            create_topic(broker.bootstrap, name, tiered)
        wait_until(lambda: topics() == {"stays", "goes"}, 30, lambda: str(topics()))
        delete_topic(broker.bootstrap, "goes")
        wait_until(lambda: topics() == {"stays"}, 30, lambda: str(topics()))
