"""The way to a store is as slow as it was told to be, changes nothing, and counts what passes."""

import http.client
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tierlog.bench.harness.peers.slow_proxy import (
    Counts,
    Link,
    Seen,
    SlowProxy,
    counts_of,
    kind_of,
    read_one_by_one,
)
from tierlog.bench.harness.requests.probe import free_port

BODY = bytes(range(256)) * 400


class Store(BaseHTTPRequestHandler):
    """Keeps what is put and gives it back: whole, in chunks, or with the end of the connection."""

    protocol_version = "HTTP/1.1"
    kept: dict[str, bytes]

    def do_PUT(self) -> None:
        if self.headers["Transfer-Encoding"] == "chunked":
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers["Content-Length"]))
        self.kept[self.path] = content
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        path, _, how = self.path.partition("?")
        content = self.kept.get(path, b"")
        if ranged := self.headers["Range"]:
            first, last = ranged.removeprefix("bytes=").split("-")
            content = content[int(first) : int(last) + 1]
        self.send_response(200)
        if how == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(content), 1000):
                piece = content[start : start + 1000]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
            return
        if how == "close":
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = how == "close"

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.kept.get(self.path, b""))))
        self.end_headers()

    def do_DELETE(self) -> None:
        self.kept.pop(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """The requests are nobody's news."""


@pytest.fixture
def store() -> Generator[int, None, None]:
    """The port of a store with one object."""
    handler = type("OneStore", (Store,), {"kept": {"/tier/here": BODY}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def ask(
    proxy: SlowProxy, *requests: tuple[str, str, bytes | None, dict[str, str]]
) -> list[tuple[int, bytes]]:
    """Statuses and bodies of requests over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    answers: list[tuple[int, bytes]] = []
    for method, target, body, headers in requests:
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        answers.append((answer.status, answer.read()))
    connection.close()
    return answers


def test_what_is_put_comes_back_and_every_kind_is_counted(store: int) -> None:
    with SlowProxy(free_port(), store) as proxy:
        answers = ask(
            proxy,
            ("PUT", "/tier/a", BODY, {}),
            ("PUT", "/tier/b", BODY[:10], {"Expect": "100-continue"}),
            ("GET", "/tier/a", None, {}),
            ("GET", "/tier/a", None, {"Range": "bytes=10-19"}),
            ("GET", "/tier/a?chunked", None, {}),
            ("HEAD", "/tier/a", None, {}),
            ("GET", "/tier?list-type=2&prefix=a", None, {}),
            ("DELETE", "/tier/b", None, {}),
            ("GET", "/tier/a?close", None, {}),
        )
        assert [body for _, body in answers] == [
            *(b"", b"", BODY, BODY[10:20], BODY, b"", b"", b"", BODY)
        ]
        assert {status for status, _ in answers} == {200, 204}
        size = len(BODY)
        assert proxy.counts == Counts(2, 5, 1, 1, size + 10, 3 * size + 10)


def test_a_body_in_chunks_is_passed_on_and_its_content_counted(store: int) -> None:
    with SlowProxy(free_port(), store) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
        pieces = iter([BODY[:5], BODY[5:2000]])
        connection.request("PUT", "/tier/c", pieces, encode_chunked=True)
        assert connection.getresponse().read() == b""
        connection.close()
        assert ask(proxy, ("GET", "/tier/c", None, {})) == [(200, BODY[:2000])]
        assert proxy.counts.to_store == 2000


def test_each_request_waits_for_the_latency_but_those_together_wait_together(store: int) -> None:
    with SlowProxy(free_port(), store, Link(latency_ms=150)) as proxy:
        began = time.perf_counter()
        for_it: dict[str, str] = {}
        ask(proxy, *[("GET", "/tier/here", None, for_it)] * 4)
        one_by_one = time.perf_counter() - began
        asking = [
            threading.Thread(target=ask, args=(proxy, ("GET", "/tier/here", None, {})))
            for _ in range(4)
        ]
        began = time.perf_counter()
        for each in asking:
            each.start()
        for each in asking:
            each.join()
        together = time.perf_counter() - began
    assert one_by_one >= 4 * 0.15
    assert together < one_by_one


def test_all_bodies_of_a_direction_share_the_bandwidth(store: int) -> None:
    """Two readers of 102,400 bytes each at 400 kB/s: half a second for both together."""
    with SlowProxy(free_port(), store, Link(mb_per_s=0.4)) as proxy:
        reading = [
            threading.Thread(target=ask, args=(proxy, ("GET", "/tier/here", None, {})))
            for _ in range(2)
        ]
        began = time.perf_counter()
        for each in reading:
            each.start()
        for each in reading:
            each.join()
        assert time.perf_counter() - began >= 2 * len(BODY) / 400_000


def test_the_same_can_be_asked_once_more_one_by_one(store: int) -> None:
    with SlowProxy(free_port(), store, Link(latency_ms=20)) as proxy:
        ask(proxy, *[("GET", "/tier/here", None, {"Range": f"bytes={n}-{n + 9}"}) for n in (0, 50)])
        asked = proxy.seen()
        assert counts_of(asked) == proxy.counts
        assert [(each.kind, each.range, each.received) for each in asked] == [
            ("read", "bytes=0-9", 10),
            ("read", "bytes=50-59", 10),
        ]
        assert read_one_by_one(proxy.port, asked) >= 2 * 0.02
        assert proxy.counts.read == 4
        again = proxy.seen(2)
        assert [each.target for each in again] == [each.target for each in asked]
        assert all(isinstance(each, Seen) for each in again)


def test_a_store_that_is_gone_closes_the_connection(store: int) -> None:
    with SlowProxy(free_port(), free_port()) as proxy:
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(proxy, ("GET", "/tier/here", None, {}))
        assert proxy.counts == Counts()


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("PUT", "/tier/a/b.log?partNumber=1", "write"),
        ("POST", "/tier/a/b.log?uploads", "write"),
        ("POST", "/tier?delete", "delete"),
        ("DELETE", "/tier/a", "delete"),
        ("GET", "/tier?list-type=2", "list"),
        ("GET", "/tier/", "list"),
        ("GET", "/tier/a", "read"),
        ("HEAD", "/tier/a", "read"),
        ("HEAD", "/tier", "read"),
    ],
)
def test_a_request_is_billed_as_stores_do(method: str, target: str, kind: str) -> None:
    assert kind_of(method, target) == kind
