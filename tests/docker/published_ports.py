"""A published port: what connects to an address of the host gets through to a service's address.

Docker's own proxy does the same: it accepts first and connects then, so a client of a service that
is down sees its connection closed.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Self

_CHUNK_BYTES = 1 << 16
_WITHIN_S = 30.0

Address = tuple[str, int]
NewSocket = Callable[[], socket.socket]
Accepted = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


class PublishedPorts:
    """Forwards connections, in a thread with a loop of its own. Use as a context manager."""

    def __init__(
        self, routes: dict[Address, Address], new_socket: NewSocket = socket.socket
    ) -> None:
        """`routes` lead from an address to listen on to the one to connect to."""
        self._routes = routes
        self._new_socket = new_socket
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._running: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_WITHIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WITHIN_S)
        self._loop.close()

    async def _listen(self) -> None:
        for (host, port), target in self._routes.items():
            self._servers.append(await asyncio.start_server(self._accepted(target), host, port))

    def _accepted(self, target: Address) -> Accepted:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                back, there = await self._connect(target)
            except OSError:
                writer.close()
                return
            ends = {writer, there}
            self._open |= ends
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_copy(reader, there))
                    both.create_task(_copy(back, writer))
            finally:
                for end in ends:
                    end.close()
                self._open -= ends
                self._running.discard(task)

        return forward

    async def _connect(self, target: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        end = self._new_socket()
        end.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(end, target)
        except OSError:
            end.close()
            raise
        return await asyncio.open_connection(sock=end)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for writer in self._open:
            writer.transport.abort()
        if self._running:
            await asyncio.wait(self._running, timeout=_WITHIN_S / 2)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()
    with contextlib.suppress(OSError):
        sink.write_eof()
