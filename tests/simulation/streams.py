"""The network of a broker on the streams of the running loop: a simulated loop's are in memory."""

import asyncio
from collections.abc import Sequence
from typing import cast

from tierlog.broker.network.transport import (
    Listener,
    OnConnected,
    Piece,
    Receiver,
    Securing,
    log_unreadable,
)
from tierlog.clients.protocol.schema import Chunk
from tierlog.storage.files import FileRegion

_BUFFER_BYTES = 4 * 1024 * 1024
"""As much as a socket's transport sends before the other connections get their turn."""


class StreamTransport(asyncio.Protocol):
    """A `Transport` on an asyncio transport: regions are read, and the loop buffers writes."""

    def __init__(self, on_connected: OnConnected) -> None:
        self._on_connected = on_connected
        self._stream: asyncio.Transport | None = None
        self._queue: list[Piece] = []
        self._blocked = False
        self._receiver: Receiver | None = None
        self.peer_host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._stream = transport
        peer = cast("tuple[str, int] | None", transport.get_extra_info("peername"))
        self.peer_host = peer[0] if peer else ""
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._on_connected(self)

    def attach(self, receiver: Receiver) -> None:
        """Start calling `receiver`."""
        self._receiver = receiver

    def data_received(self, data: bytes) -> None:
        if self._receiver is not None:
            # A writable copy, because offsets are written in place.
            self._receiver.received(memoryview(bytearray(data)))

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        if self._receiver is not None:
            self._receiver.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.disconnected()

    def pause_reading(self) -> None:
        if self._stream is not None and not self._stream.is_closing():
            self._stream.pause_reading()

    def resume_reading(self) -> None:
        if self._stream is not None and not self._stream.is_closing():
            self._stream.resume_reading()

    def read_ahead(self) -> memoryview | None:
        """None: the event loop does all reading."""
        return None

    def send(self, chunks: Sequence[Chunk]) -> None:
        self._queue.extend(cast("Sequence[Piece]", chunks))

    def flush(self) -> bool:
        queue, self._queue = self._queue, []
        if self._stream is not None and queue:
            try:
                pieces = [
                    each.read_all() if isinstance(each, FileRegion) else each for each in queue
                ]
            except OSError as error:
                log_unreadable(error)
                self.close()
                return True
            self._stream.writelines(pieces)
        return not self._blocked

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._stream is None else self._stream.get_write_buffer_size()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.abort()

    def end(self) -> None:
        """Like `SocketTransport.end`; the loop first sends what it has buffered."""
        if self._stream is not None:
            self._stream.close()


class StreamListener:
    """A listener made by the running loop's `create_server`."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        port: object = server.sockets[0].getsockname()[1] if server.sockets else 0
        self.port = port if isinstance(port, int) else 0

    def pause_accepting(self) -> None:
        """Does nothing: asyncio's server cannot pause. `SocketServer` closes excess connections."""

    def resume_accepting(self) -> None:
        """See `pause_accepting`."""

    def close(self) -> None:
        self._server.close()


class StreamNetwork:
    """A `Network` on the running loop's own transports, which a simulation may replace."""

    async def listen(
        self, host: str, port: int, on_connected: OnConnected, secured: Securing | None = None
    ) -> Listener:
        assert secured is None, "Only sockets have secured transports."
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: StreamTransport(on_connected), host or None, port)
        return StreamListener(server)
