"""A proxy that makes an object store slower, and counts the traffic.

It runs between a broker and any HTTP store, and passes on what both send. Every request waits for
the latency before it is passed on, however many are in flight, as with a store that is far away or
slow to send its first byte. All bodies of one direction share the bandwidth. Requests are counted
as stores bill them: those that write, read, list and delete, and the bytes of bodies.

It runs in a thread of the harness, with its own event loop.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import astuple, dataclass, field
from typing import Self

from .http_message import HEAD_MAX, BrokenMessageError, Head, body_pieces, read_head

_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Link:
    """The latency before each request, and the MB/s of each direction (None: no limit)."""

    latency_ms: float = 0.0
    mb_per_s: float | None = None


@dataclass(slots=True)
class Counts:
    """The traffic so far. A request is counted when its response has been passed on."""

    write: int = 0
    read: int = 0
    list: int = 0
    delete: int = 0
    to_store: int = 0
    from_store: int = 0

    def add(self, kind: str, sent: int, received: int) -> None:
        """Count one request of this kind."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.to_store += sent
        self.from_store += received

    def __sub__(self, before: "Counts") -> "Counts":
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Counts(*(now - then for now, then in pairs))


@dataclass(frozen=True, slots=True)
class Seen:
    """One answered request: its kind and target, and when it arrived and its response was sent."""

    kind: str
    target: str
    range: str
    began_s: float
    ended_s: float
    sent: int
    """Bytes of the request's body."""
    received: int
    """Bytes of the response's body."""


def counts_of(requests: list[Seen]) -> Counts:
    """The sums over these requests."""
    counts = Counts()
    for request in requests:
        counts.add(request.kind, request.sent, request.received)
    return counts


def kind_of(method: str, target: str) -> str:
    """The kind of a request, as a store bills it."""
    path, _, query = target.partition("?")
    if method == "DELETE" or (method == "POST" and query.split("=")[0] == "delete"):
        return "delete"
    if method in ("PUT", "POST"):
        return "write"
    # A GET of the bucket itself lists it.
    return "list" if method == "GET" and "/" not in path.strip("/") else "read"


@dataclass
class _Lane:
    """The bandwidth of one direction: a sender waits until its bytes would be transferred."""

    bytes_per_s: float | None
    free_at: float = 0.0

    async def send(self, nbytes: int) -> None:
        if self.bytes_per_s is None:
            return
        now = time.monotonic()
        self.free_at = max(now, self.free_at) + nbytes / self.bytes_per_s
        await asyncio.sleep(self.free_at - now)


@dataclass
class SlowProxy:
    """A proxy on `port` for the store at 127.0.0.1:`store_port`. Use as a context manager."""

    port: int
    store_port: int
    link: Link = field(default_factory=Link)

    def __post_init__(self) -> None:
        rate = None if self.link.mb_per_s is None else self.link.mb_per_s * 1e6
        self._up, self._down = _Lane(rate), _Lane(rate)
        self._counts = Counts()
        self._seen: list[Seen] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slow-proxy")
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def counts(self) -> Counts:
        """The traffic so far."""
        return Counts(*astuple(self._counts))

    def seen(self, since: int = 0) -> list[Seen]:
        """The answered requests, without the first `since`."""
        return self._seen[since:]

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_STOP_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_STOP_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=HEAD_MAX)

    async def _stop(self) -> None:
        self._server.close()
        await asyncio.sleep(0)  # those that were just accepted begin
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # their sockets are closed
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        store_writer: asyncio.StreamWriter | None = None
        try:
            store_reader, store_writer = await asyncio.open_connection(
                "127.0.0.1", self.store_port, limit=HEAD_MAX
            )
            while await self._exchange(reader, writer, store_reader, store_writer):
                pass
        except (OSError, BrokenMessageError, asyncio.IncompleteReadError):
            # One side has closed: the other's connection is closed too, and clients retry.
            pass
        except asyncio.CancelledError:
            # Streams would report the end of all connections in `_stop` as an error.
            pass
        finally:
            self._connections.discard(task)
            for each in (writer, store_writer):
                if each is not None:
                    each.close()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        store_reader: asyncio.StreamReader,
        store_writer: asyncio.StreamWriter,
    ) -> bool:
        """Pass on one request and its response; returns whether another may follow."""
        request = await read_head(reader)
        if request is None:
            return False
        began_s = time.monotonic()
        if await self._refuse(request, reader, writer):
            return False
        if request.get("expect") == "100-continue":
            # Do not ask the store whether it accepts the body: it always does.
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request = request.without("expect")
        await asyncio.sleep(self.link.latency_ms / 1000)
        up = body_pieces(reader, request, until_close=False)
        sent, end = await self._pass(request.encoded(), up, store_writer, self._up)
        store_writer.write(end)
        await store_writer.drain()
        answer = await read_head(store_reader)
        if answer is None:
            raise BrokenMessageError("The store closed the connection without a response.")
        if self._loses_answer():
            return False
        method, target, _ = request.first_line.split(" ", 2)
        received, end = 0, answer.encoded()
        if method != "HEAD" and answer.status not in (204, 304):
            down = body_pieces(store_reader, answer, until_close=answer.wants_close)
            received, end = await self._pass(end, down, writer, self._down)
        # Counted before the end is passed on, so that a client with the whole response finds it.
        self._counts.add(kind_of(method, target), sent, received)
        self._seen.append(
            Seen(
                kind_of(method, target),
                target,
                request.get("range"),
                began_s,
                time.monotonic(),
                sent,
                received,
            )
        )
        writer.write(end)
        await writer.drain()
        return not (request.wants_close or answer.wants_close)

    async def _refuse(
        self, request: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether a request was answered here, and the connection is to be closed."""
        return False

    def _loses_answer(self) -> bool:
        """Whether the client's connection is closed instead of passing on an answer."""
        return False

    async def _pass(
        self,
        head: bytes,
        pieces: AsyncIterator[tuple[bytes, int]],
        writer: asyncio.StreamWriter,
        lane: _Lane,
    ) -> tuple[int, bytes]:
        """Pass on a head and its body at the lane's rate, except for the last piece.

        Returns the number of content bytes of the body, and that piece.
        """
        content, held = 0, head
        async for piece, nbytes in pieces:
            writer.write(held)
            await writer.drain()
            await lane.send(nbytes)
            content, held = content + nbytes, piece
        return content, held


def read_one_by_one(port: int, requests: list[Seen]) -> float:
    """Send these requests again, one at a time; returns the seconds."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.perf_counter()
    for request in requests:
        connection.request(
            "GET", request.target, headers={"Range": request.range} if request.range else {}
        )
        connection.getresponse().read()
    elapsed = time.perf_counter() - began
    connection.close()
    return elapsed
