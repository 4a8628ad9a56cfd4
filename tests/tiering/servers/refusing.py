"""A server of HTTP that gives one answer to everything: what a store says to those it turns away.

For answers that the servers of the tests cannot be brought to: Google's 401, S3's SlowDown.
"""

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class RefusingServer:
    """`answer` and `body` are what everybody gets from now on."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b""
        self.bytes_kept_back = 0
        """How many bytes more than the body an answer says that it has."""
        self.is_endless = False
        """Whether an answer is the body again and again, until the client closes."""
        self.sent = 0
        """Bytes of such answers."""
        self.asked = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                owner.asked += 1
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(owner.status)
                for name, value in owner.headers.items():
                    self.send_header(name, value)
                if not owner.is_endless:
                    size = len(owner.body) + owner.bytes_kept_back
                    self.send_header("Content-Length", str(size))
                self.send_header("Connection", "close")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(owner.body)
                with suppress(OSError):
                    while owner.is_endless:
                        self.wfile.write(owner.body)
                        owner.sent += len(owner.body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer  # http.server's names

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.port = self._server.server_port

    def answers(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.body, self.headers = status, body.encode(), headers or {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
