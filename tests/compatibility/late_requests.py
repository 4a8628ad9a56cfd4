"""A proxy that holds requests of transactions up, and sends copies of them once more, later.

What a network may do to a client that gave up on a connection and took another: its old request is
still on its way, and arrives when the client has long gone on. The copies go to the broker on
connections of their own; nobody waits for their answers but the proxy.
"""

import random
import socket
import struct
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from tierlog.clients.protocol.api import ApiKey

DISTURBED = frozenset({ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT})
LONGEST_DELAY_S = 0.01
LATEST_COPY_S = 0.8
_SENDERS = 32


class LateRequests:
    """Listens on `port` for clients of the broker on `target_port`."""

    def __init__(self, target_port: int, seed: int = 0) -> None:
        self.copies = 0
        self._chance = random.Random(seed)
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._senders = ThreadPoolExecutor(_SENDERS)
        self._sent: list[Future[None]] = []
        self._closed = threading.Event()
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._listener.close()
        self._senders.shutdown(cancel_futures=True)

    def settle(self) -> None:
        """Wait for the last copies; raises what went wrong with any."""
        for each in self._sent:
            each.result()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                # The listener is closed: that is the end.
                return
            broker = socket.create_connection(self._target)
            for source, target, is_request in ((client, broker, True), (broker, client, False)):
                pump = (source, target, is_request)
                threading.Thread(target=self._pump, args=pump, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        try:
            with source.makefile("rb") as stream:
                while len(size := stream.read(4)) == 4:
                    frame = size + stream.read(struct.unpack(">i", size)[0])
                    if is_request and struct.unpack_from(">h", frame, 4)[0] in DISTURBED:
                        self._disturb(frame)
                    target.sendall(frame)
        except OSError:
            # Either side was killed, as the tests do; the other end is told below.
            pass
        finally:
            for side in (source, target):
                side.close()

    def _disturb(self, frame: bytes) -> None:
        self._closed.wait(self._chance.random() * LONGEST_DELAY_S)
        for _ in range(self._chance.choice((1, 1, 2))):
            later_s = self._chance.random() * LATEST_COPY_S
            self._sent.append(self._senders.submit(self._copy, frame, later_s))

    def _copy(self, frame: bytes, later_s: float) -> None:
        self._closed.wait(later_s)
        with socket.create_connection(self._target, timeout=30) as connection:
            connection.sendall(frame)
            assert connection.recv(4), "The broker has closed the connection."
        self.copies += 1
