"""One client's connection: frames in, responses out, in order (`SocketServer.Processor`).

A connection has at most one request in progress; Kafka calls it muted meanwhile. Frames that
arrive while an answer is awaited, or has not been taken yet, are kept and follow in order. As soon
as there is one, nothing more is read: a client that asks faster than it listens is held back by its
own TCP window, and what is kept is bounded by the size of one read. While nothing is kept, reading
goes on: so a client that has gone is noticed, and one that takes an answer in parts costs no more.

Requests that arrive together are answered together: responses are queued until the read is used
up, and then leave in one call.

    READY --defer--> WAITING --answer--> READY
    READY --block--> BLOCKED --drain---> READY
    any   --lose---> CLOSED
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from ..clients.errors import ProtocolError
from ..clients.protocol.connection import FrameBuffers, FrameReader
from ..clients.protocol.primitives import size_of
from ..clients.protocol.schema import Chunk
from .transport import Transport

_CORK_BYTES = 256 * 1024
"""Answers to requests that arrived together are sent together, up to this size."""


class ConnectionState(Enum):
    """What the connection is doing."""

    READY = "ready"
    WAITING = "waiting"
    BLOCKED = "blocked"
    CLOSED = "closed"


class ConnectionEvent(Enum):
    """What can happen to it."""

    DEFER = "the answer must wait for something"
    ANSWER = "that answer is there"
    BLOCK = "the peer did not take everything"
    DRAIN = "the peer took the rest"
    LOSE = "the connection is gone"


_S, _E = ConnectionState, ConnectionEvent

TRANSITIONS: dict[tuple[ConnectionState, ConnectionEvent], ConnectionState] = {
    (_S.READY, _E.DEFER): _S.WAITING,
    (_S.WAITING, _E.ANSWER): _S.READY,
    (_S.READY, _E.BLOCK): _S.BLOCKED,
    (_S.BLOCKED, _E.DRAIN): _S.READY,
    (_S.READY, _E.LOSE): _S.CLOSED,
    (_S.WAITING, _E.LOSE): _S.CLOSED,
    (_S.BLOCKED, _E.LOSE): _S.CLOSED,
}
"""Every legal move. What is not here is our own mistake."""

# Python 3.11 looks a member of an enum up in 0.1 µs; here that happens for every request.
_READY = ConnectionState.READY


class Refused(Exception):
    """The request cannot be answered: the connection is closed, and `str(error)` says why."""


Work = asyncio.Future[object] | Coroutine[object, object, object]
"""What an answer may wait for."""


class Deferred(NamedTuple):
    """An answer that is not there yet: what to wait for, and what makes an answer of its result.

    What is to leave at once does so; a client that is held back is answered and then not read.
    """

    work: Work
    respond: "Callable[[asyncio.Future[object]], Answer]"
    at_once: Sequence[Chunk] = ()


Answer = Sequence[Chunk] | Deferred
"""A framed response (empty where none is sent), or the promise of one."""


class Client:
    """Who is at the other end."""

    __slots__ = ("host", "last_request", "listener")

    def __init__(self, host: str, listener: str) -> None:
        self.host = host
        self.listener = listener
        self.last_request: object = None
        """What the one who answers wants to know of it when the next one comes."""


class ConnectionOwner(Protocol):
    """What a connection needs of its server."""

    def answer(self, client: Client, frame: memoryview, /) -> Answer:
        """Answer one request. Raises Refused or ProtocolError to have the connection closed."""
        ...

    def adopt(self, work: Work) -> asyncio.Future[object]:
        """Have it run to its end, owned by the server."""
        ...

    def forget(self, connection: "Connection") -> None:
        """The connection is closed."""
        ...

    @property
    def buffers(self) -> FrameBuffers:
        """Where the frames of its connections may lie, one after the other."""
        ...

    def complain(self, client: Client, reason: str) -> None:
        """Say why a connection is closed; one line, and not too many of them."""
        ...


class Connection:
    """The `Receiver` of one transport."""

    __slots__ = (
        "_corked",
        "_frames",
        "_kept",
        "_loop",
        "_owner",
        "_pending",
        "_transport",
        "client",
        "last_active",
        "state",
    )

    def __init__(
        self, transport: Transport, client: Client, owner: ConnectionOwner, max_bytes: int
    ) -> None:
        self.client = client
        self.state = ConnectionState.READY
        self._transport = transport
        self._owner = owner
        self._frames = FrameReader(max_bytes, owner.buffers)
        self._corked = 0
        self._kept: deque[memoryview] = deque()
        self._pending: asyncio.Future[object] | None = None
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()

    def _move(self, event: ConnectionEvent) -> None:
        self.state = TRANSITIONS[self.state, event]

    def received(self, view: memoryview) -> None:
        """Bytes arrived, valid during this call only."""
        self.last_active = self._loop.time()
        try:
            frame = self._frames.only_frame(view) if self.state is _READY else None
            if frame is not None:
                self._handle(frame)
            else:
                self._handle_all(view)
        except (ProtocolError, Refused) as error:
            self._refuse(error)
            return
        if self.state is not ConnectionState.CLOSED:
            self._settle()

    def _handle_all(self, view: memoryview) -> None:
        """Every request that these bytes complete, until the connection is closed."""
        for frame in self._frames.feed(view):
            if self.state is _READY:
                self._handle(frame)
            elif self.state is ConnectionState.CLOSED:
                return
            else:
                # The view dies with this call, and the frame has to outlive it.
                self._kept.append(memoryview(bytearray(frame)))
            self._frames.release()

    def space(self) -> memoryview | None:
        """Where the rest of a large request that has begun belongs."""
        return self._frames.space()

    def filled(self, size: int) -> None:
        """That rest, or more of it, has arrived."""
        self.last_active = self._loop.time()
        frame = self._frames.received(size)
        if frame is None:
            return
        try:
            if self.state is ConnectionState.READY:
                self._handle(frame)
                self._frames.release()
            else:
                self._frames.keep()
                self._kept.append(frame)
        except (ProtocolError, Refused) as error:
            self._refuse(error)
            return
        self._settle()

    def _handle(self, frame: memoryview) -> None:
        answer = self._owner.answer(self.client, frame)
        if isinstance(answer, Deferred):
            self._defer(answer)
        elif answer:
            self._send(answer)

    def _send(self, answer: Sequence[Chunk]) -> None:
        """Queue a response. One with records is worth a call of its own, others leave together."""
        self._transport.send(answer)
        self._corked += size_of(answer[0])
        if len(answer) > 1 or self._corked > _CORK_BYTES:
            self._flush()

    def _defer(self, answer: Deferred) -> None:
        if answer.at_once:
            self._transport.send(answer.at_once)
        # What was answered before must not wait for what is deferred now.
        self._corked = 0
        self._transport.flush()
        if self.state is ConnectionState.CLOSED:
            _discard(answer.work)
            return
        self._move(ConnectionEvent.DEFER)
        future = self._owner.adopt(answer.work)
        self._pending = future
        respond = answer.respond
        future.add_done_callback(lambda done: self._answered(done, respond))

    def _answered(
        self,
        done: asyncio.Future[object],
        respond: Callable[[asyncio.Future[object]], Answer],
    ) -> None:
        self._pending = None
        if done.cancelled():
            self.close()
            return
        self.last_active = self._loop.time()
        try:
            # Also when the client has gone meanwhile: a failure is told here.
            chunks = respond(done)
        except Refused as error:
            self._refuse(error)
            return
        if self.state is not ConnectionState.WAITING:
            return
        self._move(ConnectionEvent.ANSWER)
        if isinstance(chunks, Deferred):
            self._defer(chunks)
            self._settle()
            return
        if chunks:
            self._send(chunks)
        if self._kept:
            # Those behind it must not add to what the peer has not taken.
            self._flush()
        self._continue()

    def drained(self) -> None:
        """The peer took what had to wait."""
        if self.state is ConnectionState.BLOCKED:
            self._move(ConnectionEvent.DRAIN)
            self._continue()

    def _continue(self) -> None:
        """Take up the frames that were kept, then read on."""
        try:
            while self._kept and self.state is ConnectionState.READY:
                self._handle(self._kept.popleft())
        except (ProtocolError, Refused) as error:
            self._refuse(error)
            return
        self._settle()

    def _settle(self) -> None:
        """Send what is queued; read on only if nothing is in progress."""
        if self._corked and self.state is _READY:
            self._flush()
        if self.state is _READY:
            self._transport.resume_reading()
        elif self._kept:
            self._transport.pause_reading()

    def _flush(self) -> None:
        """Send what is queued, and take no more requests while the peer does not take it."""
        self._corked = 0
        sent = self._transport.flush()
        if not sent and self.state is _READY:
            self._move(ConnectionEvent.BLOCK)

    def _refuse(self, error: Exception) -> None:
        # Whatever was answered before the bad frame is still the client's.
        self._transport.flush()
        if self.state is not ConnectionState.CLOSED:
            self._owner.complain(self.client, str(error))
            self.close()

    @property
    def is_in_progress(self) -> bool:
        """Whether a request is being answered: such a connection is not idle."""
        return self.state in (ConnectionState.WAITING, ConnectionState.BLOCKED)

    def close(self) -> None:
        """Close at once."""
        self._transport.close()

    def disconnected(self) -> None:
        """The transport is gone."""
        if self.state is ConnectionState.CLOSED:
            return
        self._move(ConnectionEvent.LOSE)
        self._kept.clear()
        pending, self._pending = self._pending, None
        if pending is not None and not isinstance(pending, asyncio.Task):
            # A fetch that nobody waits for any more need not stay in a purgatory.
            pending.cancel()
        self._owner.forget(self)


def _discard(work: Work) -> None:
    """Nobody is left to wait for it."""
    if isinstance(work, asyncio.Future):
        work.cancel()
    else:
        work.close()
