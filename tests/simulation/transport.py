"""One end of a simulated connection: an asyncio transport over nothing but the loop's timers.

As on TCP, bytes arrive in order and in pieces of any size; a reader that pauses fills the window,
then the writer's buffer, then the writing protocol is paused; a closed end that still gets bytes
answers with a reset. All callbacks run in the context of the process that owns this end.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

WRITE_HIGH_BYTES = 64 * 1024
WRITE_LOW_BYTES = 16 * 1024


class Address(NamedTuple):
    """A host's name and a port on it."""

    host: str
    port: int


class Carrier(Protocol):
    """The network, as a transport sees it."""

    @property
    def window_bytes(self) -> int:
        """Bytes that may be on their way or unread in one direction."""
        ...

    def piece_bytes(self, available: int) -> int:
        """How many of the available bytes travel together."""
        ...

    def carry(self, source: "SimulatedTransport", arrive: Callable[[], None]) -> None:
        """Call `arrive` at the other end, after everything that `source` sent before."""
        ...

    def forget(self, transport: "SimulatedTransport") -> None:
        """This end is closed."""
        ...


@dataclass(frozen=True, slots=True)
class End:
    """Where a transport stands, and the context its callbacks run in."""

    local: Address
    remote: Address
    context: contextvars.Context


class SimulatedTransport(asyncio.Transport):
    """See the module. Made in pairs by `SimulatedNetwork`, which sets `peer`."""

    peer: "SimulatedTransport"

    def __init__(self, carrier: Carrier, end: End, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.end = end
        self.last_arrival_s = 0.0
        self.on_the_way: deque[Callable[[], None]] = deque()
        """What a carrier that holds things up still has to deliver, in its order."""
        self._carrier = carrier
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._outbox = bytearray()
        self._unread_bytes = 0
        # None stands for the end of the stream.
        self._inbox: deque[bytes | None] = deque()
        self._high_bytes = WRITE_HIGH_BYTES
        self._low_bytes = WRITE_LOW_BYTES
        self._is_reading = True
        self._is_closing = False
        self._is_lost = False
        self._eof_is_due = False
        self._eof_is_sent = False
        self._writer_is_paused = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"sockname": self.end.local, "peername": self.end.remote}.get(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call back the owner of this end, soon and in its context."""
        self._loop.call_soon(function, *arguments, context=self.end.context)

    # Writing.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._eof_is_due, "Written after the end of the stream."
        if self._is_closing or self._is_lost:
            return
        self._outbox += data
        self._pump()
        if len(self._outbox) > self._high_bytes and not self._writer_is_paused:
            self._writer_is_paused = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        if not self._eof_is_due:
            self._eof_is_due = True
            self._pump()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return len(self._outbox)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = WRITE_HIGH_BYTES if low is None else 4 * low
        self._high_bytes = high
        self._low_bytes = high // 4 if low is None else low
        assert self._high_bytes >= self._low_bytes >= 0

    def _pump(self) -> None:
        """Send what the window allows; when all is sent, what was due after it."""
        window = self._carrier.window_bytes
        while self._outbox:
            room = window - self._unread_bytes
            # As TCP does against silly windows: filling each small gap at once would make the
            # pieces smaller and smaller.
            if room < min(len(self._outbox), window // 4):
                break
            size = self._carrier.piece_bytes(min(room, len(self._outbox)))
            piece = bytes(self._outbox[:size])
            del self._outbox[:size]
            self._unread_bytes += size
            self._carrier.carry(self, partial(self.peer.receive, piece))
        if self._writer_is_paused and len(self._outbox) <= self._low_bytes:
            self._writer_is_paused = False
            self.call(self._protocol.resume_writing)
        if not self._outbox:
            self._end_what_is_due()

    def _end_what_is_due(self) -> None:
        if (self._eof_is_due or self._is_closing) and not self._eof_is_sent:
            self._eof_is_sent = True
            self._carrier.carry(self, partial(self.peer.receive, None))
        if self._is_closing:
            self.lose(None)

    def acknowledge(self, size: int) -> None:
        """The peer's owner has read `size` bytes."""
        self._unread_bytes -= size
        if not self._is_lost:
            self._pump()

    # Reading.

    def receive(self, piece: bytes | None) -> None:
        """A piece, or the end of the stream, has arrived here."""
        if self._is_lost:
            if piece is not None:
                self._carrier.carry(self, lambda: self.peer.lose(ConnectionResetError("reset")))
            return
        self._inbox.append(piece)
        self._hand_over()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self.call(self._hand_over)

    def _hand_over(self) -> None:
        while self._inbox and self._is_reading and not self._is_lost:
            piece = self._inbox.popleft()
            if self._is_closing:
                continue
            if piece is None:
                self._hand_over_eof()
            else:
                self._hand_over_piece(piece)
                self._loop.call_soon(self.peer.acknowledge, len(piece))

    def _hand_over_eof(self) -> None:
        protocol = self._protocol
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        if not protocol.eof_received():
            self.close()

    def _hand_over_piece(self, piece: bytes) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.Protocol):
            protocol.data_received(piece)
            return
        assert isinstance(protocol, asyncio.BufferedProtocol)
        position = 0
        while position < len(piece):
            buffer = memoryview(protocol.get_buffer(len(piece) - position))
            size = min(len(buffer), len(piece) - position)
            assert size, "get_buffer returned no room."
            buffer[:size] = piece[position : position + size]
            protocol.buffer_updated(size)
            position += size

    # Ending.

    def is_closing(self) -> bool:
        return self._is_closing or self._is_lost

    def close(self) -> None:
        if not self._is_closing and not self._is_lost:
            self._is_closing = True
            self._pump()

    def abort(self) -> None:
        if not self._is_lost:
            self._carrier.carry(self, lambda: self.peer.lose(ConnectionResetError("aborted")))
            self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """The connection is over at this end; its owner is told once."""
        if not self._is_lost:
            self.vanish()
            self.call(self._protocol.connection_lost, error)

    def vanish(self) -> None:
        """The process that owned this end is gone: nobody is left to be told."""
        self._is_lost = True
        self._outbox.clear()
        self._inbox.clear()
        self._carrier.forget(self)
