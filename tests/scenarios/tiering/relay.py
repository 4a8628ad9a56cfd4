"""A way to a server that can be closed and opened again, as networks do."""

import socket
import socketserver
import threading
from contextlib import suppress
from typing import Self

from tierlog.bench.harness.requests.probe import free_port

_PIECE_BYTES = 65_536


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, target: int) -> None:
        self.target = target
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Connection)

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that was cut is what a relay is for."""


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        near: socket.socket = self.request
        with socket.create_connection(("127.0.0.1", server.target)) as far:
            server.open |= {near, far}
            back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
            back.start()
            _pass_on(near, far)
            back.join()
            server.open -= {near, far}


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE_BYTES):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Relay:
    """Listens on a port of its own and passes on what comes, while it is open."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._server: _Server | None = None

    def open(self) -> None:
        """Take connections."""
        self._server = _Server(self.port, self._target)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def cut(self) -> None:
        """Refuse connections, and cut those that there are."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        for each in list(server.open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.cut()
