"""A server that gives each connection a thread, for the player and the recorder."""

import contextlib
import socket
import threading
from collections.abc import Callable

from tierlog.bench.harness.requests.probe import free_port


class Server:
    """Listens on a port of 127.0.0.1 from `start` to `stop`, as often as it is asked."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        """`serve` is called with each connection, in a thread of its own."""
        self._serve = serve
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self.port = free_port()

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._begin(self._accept, self._listener)

    def _begin(self, target: Callable[[socket.socket], None], argument: socket.socket) -> None:
        thread = threading.Thread(target=target, args=(argument,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections.add(connection)
            self._begin(self._run, connection)

    def _run(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def stop(self) -> None:
        """Close the listener and all connections, and wait for their threads."""
        if self._listener is None:
            return
        shut(self._listener)
        self._listener.close()
        self._listener = None
        with self._lock:
            for connection in self._connections:
                shut(connection)
        for thread in self._threads:
            thread.join(10)
        self._threads.clear()


def shut(connection: socket.socket) -> None:
    """Wake up whoever waits for the connection."""
    with contextlib.suppress(OSError):  # The other side was faster.
        connection.shutdown(socket.SHUT_RDWR)
