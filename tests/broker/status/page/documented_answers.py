"""The page with the answers that docs/status-page.md shows, behind the policy that it states."""

import copy
import hashlib
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tierlog.tests.house_rules import ROOT

PAGE = ROOT / "broker" / "status" / "page"
DOCUMENT = ROOT / "docs" / "status-page.md"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_EXAMPLE = re.compile(
    r"^## `GET /api/v1/(?P<name>\S+?)`\n(?:(?!^## ).)*?^```json\n(?P<text>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def documented() -> dict[str, Any]:
    """The example answer of each resource, such as `overview` and `topics/T`."""
    return {
        match["name"]: json.loads(match["text"])
        for match in _EXAMPLE.finditer(DOCUMENT.read_text())
    }


class Answers:
    """What the server answers; a test may change it while it runs."""

    def __init__(self) -> None:
        self.resources = copy.deepcopy(documented())
        self.is_silent = False
        """Whether connections are closed without an answer."""
        self.statuses: list[int] = []
        """Of requests to the API, in their order."""

    def partition(self) -> dict[str, Any]:
        """The partition of the documented topic."""
        first: dict[str, Any] = self.resources["topics/T"]["partitions"][0]
        return first

    def body(self, path: str) -> tuple[int, str, bytes]:
        """Status, content type and body for a path."""
        if path.startswith("/api/v1/"):
            name = path.removeprefix("/api/v1/")
            name = "topics/T" if name == "topics/orders" else name
            if name in self.resources:
                return 200, "application/json", json.dumps(self.resources[name]).encode()
            return 404, "application/json", b'{"error": "There is no such topic."}'
        file = PAGE / (path[1:] or "index.html")
        if not file.is_file():
            return 404, "text/plain", b""
        return 200, _TYPES[file.suffix], file.read_bytes()


class _Handler(BaseHTTPRequestHandler):
    answers: Answers

    def log_message(self, format: str, *args: object) -> None:
        """Silent: a failed test shows what the page shows."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.answers.is_silent:
            self.close_connection = True
            return
        status, content_type, body = self.answers.body(path)
        etag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
        if self.headers.get("If-None-Match") == etag:
            status, body = 304, b""
        if path.startswith("/api/"):
            self.answers.statuses.append(status)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", etag)
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def served(answers: Answers) -> Generator[str]:
    """The address of a server that gives these answers, with a slash at its end."""
    handler = type("Handler", (_Handler,), {"answers": answers})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, name="answers")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
