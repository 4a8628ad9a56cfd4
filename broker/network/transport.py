"""The transports: how a connection's bytes are received and sent.

A connection sees only `Transport`, and is the transport's `Receiver`. There are two
implementations:

- `SocketTransport` owns a non-blocking socket. Bytes arrive by `recv_into` in one scratch buffer
  that all connections of the loop share; responses leave by `sendmsg`, large file regions by
  `sendfile` (docs/decisions/011). It costs about a third as much per byte as asyncio's streams.
- `TlsTransport` (`tls_transport.py`) owns a non-blocking socket too, and speaks TLS on it.

The rules: the bytes passed to `received` are valid only during the call; copy them to keep them.
`send` only queues and `flush` sends, so that the responses to many small requests that arrived
together are sent together. Bytes that cannot be sent yet stay queued until `Receiver.drained` is
called; the connection must handle no more requests until then, which bounds the queue.
"""

import asyncio
import errno
import logging
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeGuard, cast

from ...clients.protocol.primitives import size_of
from ...clients.protocol.schema import Chunk
from ...clients.runtime.own_descriptors import keep_from_forks
from ...storage.files import FileRegion, RegionCutError
from ...storage.system_calls import MORE_FOLLOWS
from .hangup_watch import HangupWatch

_log = logging.getLogger(__name__)

SCRATCH_BYTES = 512 * 1024
"""Bytes read from the socket in one call. Only a request that the end of the buffer cuts off is
copied: a larger buffer cuts off fewer requests, but fits the processor's cache less well."""

_SMALL_REGION_BYTES = 32 * 1024
"""Up to this size, reading a region is cheaper than a `sendfile` call of its own."""

_FLUSH_BYTES = 4 * 1024 * 1024
"""The most that one connection sends before the other ones get their turn."""

_MAX_BUFFERS = 64


class Receiver(Protocol):
    """What a transport needs from its connection."""

    @property
    def readable_bytes(self) -> int:
        """How many bytes it can handle now. Others stay in the socket's receive buffer."""
        ...

    @property
    def missing_bytes(self) -> int:
        """How many bytes are certain to come, because a request has partly arrived; or 0."""
        ...

    def received(self, view: memoryview) -> None:
        """Bytes arrived. They are overwritten once this returns."""
        ...

    def space(self) -> memoryview | None:
        """The buffer for the rest of a large request, to save a copy; None if there is none."""
        ...

    def filled(self, size: int) -> None:
        """`size` bytes have arrived in `space()`."""
        ...

    def progressed(self) -> None:
        """The peer has read some of the unsent bytes."""
        ...

    def drained(self) -> None:
        """The peer has read all unsent bytes."""
        ...

    def on_unread_input(self) -> None:
        """Bytes arrived while `readable_bytes` is 0: reading pauses until `resume_reading`."""
        ...

    def hung_up(self) -> None:
        """The peer sends no more; this was noticed while reading was paused.

        What it sent before can still be read.
        """
        ...

    def disconnected(self) -> None:
        """The connection is closed, for whatever reason. Called once, as the last call."""
        ...


class Transport(Protocol):
    """The network side of one connection."""

    @property
    def peer_host(self) -> str: ...

    def send(self, chunks: Sequence[Chunk]) -> None:
        """Queue a response."""
        ...

    def flush(self) -> bool:
        """Send what is queued; False if some of it must wait for the peer."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses in memory that are not sent yet, without records."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def read_ahead(self) -> memoryview | None:
        """What has arrived while reading is paused; valid until anything else is read.

        Empty at the end of the stream; None if nothing has arrived, or if it cannot be read.
        """
        ...

    def close(self) -> None:
        """Close at once; what is queued is dropped."""
        ...


Piece = bytes | bytearray | memoryview | FileRegion
"""A chunk; in a broker a file region is always part of a segment's file."""


def log_unreadable(error: OSError) -> None:
    """Log an error of the disk; those of a connection, which its peer has closed, are usual."""
    if error.errno == errno.EIO and not isinstance(error, RegionCutError):
        _log.error(
            "Closed a connection, because the records to be sent cannot be read from the disk: %s",
            error,
        )


def close_for_all(connection: socket.socket) -> None:
    """Close a socket, also if a process that was forked has a copy of it that is still open."""
    # It is not connected any more where that fails.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _is_large(piece: Piece) -> TypeGuard[FileRegion]:
    """Whether this piece is sent with a `sendfile` call of its own."""
    return type(piece) is FileRegion and piece.nbytes > _SMALL_REGION_BYTES


def answer_bytes(piece: Piece) -> int:
    """The bytes of a piece in memory; 0 for records, which are queued as views or file regions."""
    if isinstance(piece, memoryview):
        # The rest of a partly sent response is a view of bytes too.
        return len(piece) if isinstance(piece.obj, bytes) else 0
    return len(piece) if isinstance(piece, bytes) else 0


class SharedScratch:
    """What the sockets of one listener share: the receive buffer and the hang-up watch.

    The buffer is filled and emptied within one callback; the watch is for sockets that are not
    read.
    """

    __slots__ = ("buffer", "hangups", "view")

    def __init__(self) -> None:
        self.buffer = bytearray(SCRATCH_BYTES)
        self.view = memoryview(self.buffer)
        self.hangups = HangupWatch()


class OwnedSocket(ABC):
    """What transports share that own a non-blocking socket: reading begins, pauses and ends."""

    __slots__ = (
        "_fd",
        "_loop",
        "_queue",
        "_reading",
        "_receiver",
        "_scratch",
        "_socket",
        "_writing",
        "peer_host",
    )

    def __init__(self, connected: socket.socket, peer_host: str, scratch: SharedScratch) -> None:
        self.peer_host = peer_host
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._fd = connected.fileno()
        self._scratch = scratch
        self._queue: deque[Piece] = deque()
        self._reading = False
        self._writing = False
        self._receiver: Receiver | None = None
        keep_from_forks(connected)

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)
            self._scratch.hangups.add(self._fd, self._hung_up)

    def resume_reading(self) -> None:
        if not self._reading and self._receiver is not None:
            self._reading = True
            self._scratch.hangups.remove(self._fd)
            self._loop.add_reader(self._fd, self._readable)

    def _hung_up(self) -> None:
        if self._receiver is not None:
            self._receiver.hung_up()

    def _peek(self) -> None:
        """Check what has arrived while nothing may be read: the end of the stream, or bytes.

        Bytes stay in the socket. A peer that sends no more may still read its responses.
        """
        try:
            is_at_end = not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        receiver = self._receiver
        if receiver is None:
            return
        self.pause_reading()
        if is_at_end:
            receiver.hung_up()
        else:
            receiver.on_unread_input()

    @abstractmethod
    def _readable(self) -> None:
        """Something has arrived, or the stream has ended."""

    def send(self, chunks: Sequence[Chunk]) -> None:
        self._queue.extend(cast("Sequence[Piece]", chunks))

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def close(self) -> None:
        receiver, self._receiver = self._receiver, None
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)
        else:
            self._scratch.hangups.remove(self._fd)
        self._stop_writing()
        self._queue.clear()
        self._say_goodbye()
        close_for_all(self._socket)
        if receiver is not None:
            receiver.disconnected()

    def end(self) -> None:
        """Close without dropping a response: may be called only when nothing is queued."""
        self.close()

    @abstractmethod
    def _say_goodbye(self) -> None:
        """Send what the protocol has as its last words; the socket is closed next."""


class SocketTransport(OwnedSocket):
    """A `Transport` that sends and receives plain text."""

    __slots__ = ()

    def _say_goodbye(self) -> None:
        """Plain text has no last words."""

    def attach(self, receiver: Receiver) -> None:
        """Start reading for `receiver`."""
        self._receiver = receiver
        self.resume_reading()

    def read_ahead(self) -> memoryview | None:
        if self._reading or self._receiver is None:
            return None
        try:
            return self._scratch.view[: self._socket.recv_into(self._scratch.buffer)]
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return self._scratch.view[:0]

    def _readable(self) -> None:
        receiver = self._receiver
        assert receiver is not None, "A closed transport has no reader."
        readable_bytes = receiver.readable_bytes
        if not readable_bytes:
            self._peek()
            return
        space = receiver.space()
        try:
            if space is None:
                size = self._socket.recv_into(self._scratch.buffer, readable_bytes)
            else:
                size = self._socket.recv_into(space)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if size == 0:
            self.close()
        elif space is None:
            receiver.received(self._scratch.view[:size])
        else:
            # The buffer may have to grow, which it cannot while there is a view of it.
            del space
            receiver.filled(size)

    def flush(self) -> bool:
        queue = self._queue
        if self._writing:
            return not queue
        if not queue:
            return True
        try:
            done = self._send_some()
        except OSError as error:
            log_unreadable(error)
            self.close()
            return True
        if not done and self._receiver is not None:
            self._writing = True
            self._loop.add_writer(self._fd, self._writable)
        return done

    def _writable(self) -> None:
        try:
            done = self._send_some()
        except OSError as error:
            log_unreadable(error)
            self.close()
            return
        receiver = self._receiver
        if receiver is not None:
            receiver.progressed()
        if done:
            self._stop_writing()
            if receiver is not None:
                receiver.drained()

    def _send_some(self) -> bool:
        """Send until the queue is empty (True), or the socket is full or the turn over (False)."""
        queue = self._queue
        budget = _FLUSH_BYTES
        try:
            if len(queue) == 1 and type(alone := queue[0]) is bytes:
                # Nearly every response without records is sent here.
                sent = self._socket.send(alone)
                self._forget(sent) if sent < len(alone) else queue.clear()
                return not queue
            while queue and budget > 0:
                head = queue[0]
                pieces = 1
                if type(head) is bytes and (len(queue) == 1 or _is_large(queue[1])):
                    # A header before records, or a tail after them.
                    size = len(head)
                    sent = self._socket.send(head, MORE_FOLLOWS if len(queue) > 1 else 0)
                elif _is_large(head):
                    size = head.nbytes
                    sent = head.send_to(self._fd, min(size, _FLUSH_BYTES))
                else:
                    pieces, size, sent = self._send_gathered()
                if sent < size:
                    # The socket is full: another call would fail.
                    self._forget(sent)
                    return False
                if pieces == len(queue):
                    queue.clear()
                    return True
                for _ in range(pieces):
                    queue.popleft()
                budget -= sent
        except (BlockingIOError, InterruptedError):
            return False
        return not queue

    def _send_gathered(self) -> tuple[int, int, int]:
        """Send the pieces before a large region in one call; returns pieces, bytes, bytes sent."""
        buffers: list[bytes | bytearray | memoryview] = []
        size = flags = 0
        for piece in self._queue:
            if len(buffers) == _MAX_BUFFERS or size >= _FLUSH_BYTES:
                break
            if _is_large(piece):
                flags = MORE_FOLLOWS
                break
            buffers.append(piece.read_all() if isinstance(piece, FileRegion) else piece)
            size += len(buffers[-1])
        return len(buffers), size, self._socket.sendmsg(buffers, (), flags)

    def _forget(self, sent: int) -> None:
        """Remove the bytes that were sent from the front of the queue."""
        queue = self._queue
        while queue and (size := size_of(queue[0])) <= sent:
            sent -= size
            queue.popleft()
        if sent:
            head = queue[0]
            if isinstance(head, FileRegion):
                queue[0] = head.slice(sent, head.nbytes - sent)
            else:
                queue[0] = memoryview(head)[sent:]

    @property
    def unsent_bytes(self) -> int:
        return sum(map(answer_bytes, self._queue))


class AttachableTransport(Transport, Protocol):
    """A transport that has no receiver yet."""

    def attach(self, receiver: Receiver, /) -> None:
        """Start reading for `receiver`."""
        ...

    def end(self) -> None:
        """Close without dropping a response: may be called only when nothing is queued."""
        ...


OnConnected = Callable[[AttachableTransport], None]


class Securing(Protocol):
    """Makes the transports of a listener that secures its connections."""

    def accept(
        self, connected: socket.socket, host: str, scratch: SharedScratch, /
    ) -> AttachableTransport:
        """The transport of an accepted socket."""
        ...


class Listener(Protocol):
    """An open listener. `port` is the one that the system chose if 0 was requested."""

    @property
    def port(self) -> int: ...

    def pause_accepting(self) -> None:
        """Leave new connections in the backlog."""
        ...

    def resume_accepting(self) -> None: ...

    def close(self) -> None: ...


class Network(Protocol):
    """Opens listeners, on sockets or in a simulation."""

    async def listen(
        self, host: str, port: int, on_connected: OnConnected, secured: Securing | None = None
    ) -> Listener:
        """Bind an address; `resume_accepting` opens it. An empty host means every interface.

        `secured` makes the transports of its connections; None for plain ones. Raises OSError if
        the address cannot be bound.
        """
        ...
