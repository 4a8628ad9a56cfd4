"""Framing without I/O: splits a stream of bytes into whole requests or responses.

A frame in Kafka is a size (int32, big endian), followed by that many bytes. The rules:

- A frame that arrives whole is not copied: it is a slice of the caller's buffer, valid until that
  buffer is used again. Many connections can share one receive buffer.
- Only a frame that arrives in pieces gets its own buffer, which grows with the received bytes,
  never beyond a small multiple of them: for a buffer of 100 MiB a client must send 25 MiB, and who
  only announces a frame gets a page.
- The buffer of a finished frame may be reused for a later frame (`FrameBuffers`), because fresh
  memory costs the kernel as much as receiving into it. A client gets one for the whole frame as
  soon as it has sent a sixteenth of that, its frame before counted in.
- A size that is negative or above the limit raises ProtocolError at once. The reader cannot be
  used after that; the connection is closed.
"""

from collections.abc import Iterator, Sequence
from struct import Struct as Format

from ..errors import ProtocolError
from .primitives import size_of
from .schema import Chunk

_SIZE = Format(">i")
_SIZE_BYTES = 4

SMALL_BUFFER_BYTES = 65_536
"""If less than this is missing of a partial frame, it is received elsewhere and copied."""

FIRST_BUFFER_BYTES = 4096
"""The buffer of a partial frame of which hardly anything has arrived."""

GROWTH_FACTOR = 4
"""Otherwise the buffer of a partial frame is at most this many times the bytes received."""

_REUSE_FACTOR = 16
"""A reused one may be this many times the bytes received, those of the frame before included."""

JOINED_BYTES_MAX = 16_384
"""Up to this size, copying into one chunk is cheaper than sending one more chunk."""


_REUSED_BYTES_MAX = 4 << 20
_SPARE_BYTES_MAX = 16 << 20


class FrameBuffers:
    """Buffers of finished frames, to be reused for later frames of all connections.

    Keeps at most 16 MiB of them, and none larger than 4 MiB.
    """

    def __init__(self) -> None:
        self._spare: list[bytearray] = []
        self._spare_bytes = 0
        self.is_short = False
        """Whether memory is short, so that a partial frame's first buffer has no spare room."""

    def take(self, size: int, size_max: int) -> bytearray | None:
        """The smallest spare buffer of at least `size` and at most `size_max` bytes, if any."""
        fitting = [each for each in self._spare if size <= len(each) <= size_max]
        if not fitting:
            return None
        buffer = min(fitting, key=len)
        # Compare by identity: another buffer may have equal content.
        self._spare = [each for each in self._spare if each is not buffer]
        self._spare_bytes -= len(buffer)
        return buffer

    def give_back(self, buffer: bytearray) -> None:
        """Return a buffer that is no longer in use; its content may be overwritten."""
        size = len(buffer)
        if size > _REUSED_BYTES_MAX:
            return
        self._spare.append(buffer)
        self._spare_bytes += size
        while self._spare_bytes > _SPARE_BYTES_MAX:
            # The larger ones cost the kernel more.
            self.take(0, min(map(len, self._spare)))


def _other_protocol(begin: bytes) -> str:
    """A hint if the first bytes belong to another protocol, such as TLS or HTTP."""
    if begin[:2] == b"\x16\x03":
        return ". It begins like TLS: set security.protocol=PLAINTEXT on that client"
    if begin in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"):
        return ". It begins like HTTP, which this port does not support"
    return ""


def lasting(view: memoryview) -> memoryview:
    """A frame or part of one, copied so that it can be kept after the call that received it.

    A view of a buffer that is too large to be reused is returned as it is.
    """
    buffer = view.obj
    is_its_own = isinstance(buffer, bytearray) and len(buffer) > _REUSED_BYTES_MAX
    return view if is_its_own else memoryview(bytearray(view))


class FrameReader:
    """Splits one connection's incoming bytes into frames."""

    def __init__(self, max_bytes: int, buffers: FrameBuffers | None = None) -> None:
        """`max_bytes` is the largest body accepted (`socket.request.max.bytes`). With `buffers`, a
        frame that arrived in pieces is valid until `release`; without, it stays valid.
        """
        self.max_bytes = max_bytes
        """The largest body of the frames that begin from now on."""
        self.buffers = buffers
        """Where its buffers come from, and go to."""
        self._frame_buffer: bytearray | None = None
        """The buffer of the last frame that arrived in pieces, until `release`."""
        self._size_bytes = b""
        """The first bytes of a size that arrives in pieces."""
        self._buffer: bytearray | None = None
        """The buffer of a partial frame; it holds `_received` of `_size` bytes."""
        self._size = 0
        self._received = 0
        self._size_before = 0
        """The size of the frame before that arrived in pieces."""
        self.unfinished_bytes = 0
        """The size of the partial frame; 0 if there is none."""
        self.begun = 0
        """How many frames have arrived in pieces, including the partial one."""
        self.position = 0
        """Where the last frame from `feed` ended in its view."""

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream could end here without cutting off a frame."""
        return self._buffer is None and not self._size_bytes

    def feed(self, view: memoryview) -> Iterator[memoryview]:
        """All frames that `view` completes, each released when the next is requested.

        A caller that stops between two frames can continue at `position`.
        """
        position, end = 0, len(view)
        while position < end:
            if self._buffer is None and not self._size_bytes and end - position >= _SIZE_BYTES:
                # In the usual case the whole frame is in `view`, so avoid a call.
                start = position + _SIZE_BYTES
                stop = start + _SIZE.unpack_from(view, position)[0]
                if start <= stop <= end and stop - start <= self.max_bytes:
                    self.position = position = stop
                    yield view[start:stop]
                    continue
            frame, position = self.next_frame(view, position)
            if frame is None:
                return
            self.position = position
            try:
                yield frame
            finally:
                self.release()

    def only_frame(self, view: memoryview) -> memoryview | None:
        """The frame if it fills `view` exactly, as most requests do; if None, use `feed`."""
        size = len(view) - _SIZE_BYTES
        if size < 0 or size > self.max_bytes or self._buffer is not None or self._size_bytes:
            return None
        return view[_SIZE_BYTES:] if _SIZE.unpack_from(view)[0] == size else None

    def next_frame(self, view: memoryview, position: int = 0) -> tuple[memoryview | None, int]:
        """The next frame that `view` completes from `position` on, and where it ends in `view`.

        If there is none, all of `view` has been consumed and the second value is its end.
        """
        if self._buffer is not None:
            return self._continue(view, position)
        if self._size_bytes or len(view) - position < _SIZE.size:
            missing = _SIZE.size - len(self._size_bytes)
            piece = view[position : position + missing]
            self._size_bytes += bytes(piece)
            position += len(piece)
            if len(self._size_bytes) < _SIZE.size:
                return None, position
            size = self._check(_SIZE.unpack(self._size_bytes)[0])
            self._size_bytes = b""
        else:
            size = self._check(_SIZE.unpack_from(view, position)[0])
            position += _SIZE.size
        end = position + size
        if end <= len(view):
            return view[position:end], end
        self._buffer = bytearray()
        self._size_before = self._size
        self._size = self.unfinished_bytes = size
        self.begun += 1
        self._received = 0
        return self._continue(view, position)

    @property
    def arrived_bytes(self) -> int:
        """How many bytes of a partial frame have arrived."""
        return self._received

    @property
    def held_bytes(self) -> int:
        """The size of a partial frame's buffer."""
        return 0 if self._buffer is None else len(self._buffer)

    @property
    def growth_bytes(self) -> int:
        """How much its buffer grows when the next bytes arrive; 0 if there is space left."""
        if self._buffer is None or self._received < len(self._buffer):
            return 0
        return min(self._size, GROWTH_FACTOR * (self._received + 1)) - len(self._buffer)

    def space(self) -> memoryview | None:
        """Space to receive the rest of a partial frame into directly; then call `received`.

        None between frames, or if few bytes are missing: then receive into another buffer and
        `feed` it. The view is valid for one receive.
        """
        if self._buffer is None or self._size - self._received < SMALL_BUFFER_BYTES:
            return None
        self._reserve(self._received + 1)
        return memoryview(self._buffer)[self._received : self._size]

    def received(self, count: int) -> memoryview | None:
        """Accept `count` bytes received into `space()`; returns the frame if it is complete."""
        self._received += count
        return self._complete()

    def release(self) -> None:
        """Return the buffer of the last frame that arrived in pieces for reuse."""
        if self._frame_buffer is not None and self.buffers is not None:
            self.buffers.give_back(self._frame_buffer)
            self._frame_buffer = None

    def _check(self, size: int) -> int:
        if not 0 <= size <= self.max_bytes:
            message = f"A frame of {size} bytes; the limit is {self.max_bytes}"
            raise ProtocolError(message + _other_protocol(_SIZE.pack(size)))
        return size

    def _continue(self, view: memoryview, position: int) -> tuple[memoryview | None, int]:
        assert self._buffer is not None
        piece = view[position : position + self._size - self._received]
        end = self._received + len(piece)
        self._reserve(end)
        self._buffer[self._received : end] = piece
        self._received = end
        return self._complete(), position + len(piece)

    def _reserve(self, needed: int) -> None:
        """Make the buffer large enough for `needed` bytes, with room for more to come."""
        assert self._buffer is not None
        if len(self._buffer) < needed:
            grown = self._larger_buffer(needed)
            # Allocate a new buffer: the old one cannot grow while a caller holds a view of it.
            grown[: self._received] = memoryview(self._buffer)[: self._received]
            outgrown, self._buffer = self._buffer, grown
            if self.buffers is not None and outgrown:
                self.buffers.give_back(outgrown)

    def _larger_buffer(self, needed: int) -> bytearray:
        buffers = self.buffers
        if buffers is not None and buffers.is_short and not self._buffer:
            return buffers.take(needed, GROWTH_FACTOR * needed) or bytearray(needed)
        earned = max(GROWTH_FACTOR * needed, FIRST_BUFFER_BYTES)
        # A power of two: what is outgrown fits a later frame of any size.
        capacity = min(self._size, 1 << earned.bit_length() - 1)
        spare = None
        if buffers is not None:
            # A client that sends little must not keep a large spare buffer from the others.
            reused = _REUSE_FACTOR * (needed + self._size_before)
            spare = buffers.take(self._size, reused) or buffers.take(capacity, earned)
        return bytearray(capacity) if spare is None else spare

    def _complete(self) -> memoryview | None:
        if self._buffer is None or self._received < self._size:
            return None
        frame = memoryview(self._buffer)[: self._size]
        if self.buffers is not None:
            self._frame_buffer = self._buffer
        self._buffer = None
        self.unfinished_bytes = 0
        return frame


def frame(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Put the size before the chunks of one message (including its header).

    The first chunks are joined with the size if they are small.
    """
    joined: list[bytes | bytearray | memoryview] = [b""]
    joined_bytes = 0
    total = 0
    rest: list[Chunk] = []
    for chunk in chunks:
        size = size_of(chunk)
        total += size
        joins = not rest and joined_bytes + size <= JOINED_BYTES_MAX
        if joins and isinstance(chunk, bytes):
            joined.append(chunk)
            joined_bytes += size
        else:
            rest.append(chunk)
    joined[0] = _SIZE.pack(total)
    return [b"".join(joined), *rest]
