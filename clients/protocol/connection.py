"""Framing without I/O: a stream of bytes in, whole requests or responses out.

Kafka's frame is a size (int32, big endian) and that many bytes. The rules kept here:

- What arrives whole is not copied: the frame is a slice of the buffer that was handed in, good
  until that buffer is used again. Many connections can share one receive buffer.
- Only a frame that arrives in pieces gets a buffer, and that grows with what has arrived, never
  ahead of it by more than a small factor: announcing 100 MiB costs the announcer 25.
- A buffer that a frame has been read from may serve the next (`FrameBuffers`): fresh memory costs
  the kernel as much as receiving into it.
- A size that is negative or above the limit is a ProtocolError at once. After it the reader is
  of no more use; the connection ends.
"""

from collections.abc import Iterator, Sequence
from struct import Struct as Format

from ..errors import ProtocolError
from .primitives import size_of
from .schema import Chunk

_SIZE = Format(">i")
_SIZE_BYTES = 4

SMALL_BUFFER_BYTES = 65_536
"""A begun frame of up to this size gets its whole buffer at once."""

GROWTH_FACTOR = 4
"""A bigger one gets at most this many times what has arrived."""

JOINED_BYTES_MAX = 16_384
"""Up to here a copy into one chunk is cheaper than one more chunk to send."""


_REUSED_BYTES_MAX = 4 << 20
_SPARE_BYTES_MAX = 16 << 20


class FrameBuffers:
    """Buffers of finished frames, to be reused for later frames of all connections.

    At most 16 MiB of them wait, and none of more than 4 MiB each.
    """

    def __init__(self) -> None:
        self._spare: list[bytearray] = []
        self._spare_bytes = 0
        self.is_short = False
        """Whether a begun frame gets no more at first than what has arrived of it."""

    def take(self, size: int) -> bytearray | None:
        """A spare buffer for a frame of `size` bytes, the smallest that will do."""
        fitting = [each for each in self._spare if len(each) >= size]
        if not fitting:
            return None
        buffer = min(fitting, key=len)
        # By identity: equal ones are not the same one.
        self._spare = [each for each in self._spare if each is not buffer]
        self._spare_bytes -= len(buffer)
        return buffer

    def give_back(self, buffer: bytearray) -> None:
        """Return a buffer that is no longer in use; its content may be overwritten."""
        size = len(buffer)
        if size <= _REUSED_BYTES_MAX and self._spare_bytes + size <= _SPARE_BYTES_MAX:
            self._spare.append(buffer)
            self._spare_bytes += size


def _other_protocol(begin: bytes) -> str:
    """What else the first bytes may be: it happens to clients of TLS, and to browsers."""
    if begin[:2] == b"\x16\x03":
        return ". It begins as TLS does: state security.protocol=PLAINTEXT where it comes from"
    if begin in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"):
        return ". It begins as HTTP does, which is not spoken here"
    return ""


def lasting(view: memoryview) -> memoryview:
    """A frame, or a part of one, for who keeps it longer than the call that was given it.

    A frame so large that its buffer serves no other is not copied.
    """
    buffer = view.obj
    is_its_own = isinstance(buffer, bytearray) and len(buffer) > _REUSED_BYTES_MAX
    return view if is_its_own else memoryview(bytearray(view))


class FrameReader:
    """Cuts one connection's incoming bytes into frames."""

    def __init__(self, max_bytes: int, buffers: FrameBuffers | None = None) -> None:
        """`max_bytes` is the largest body accepted (`socket.request.max.bytes`). With `buffers` a
        frame that arrived in pieces is good until `release`; without, for as long as one likes.
        """
        self._max_bytes = max_bytes
        self._buffers = buffers
        self._frame_buffer: bytearray | None = None
        """What the last frame that arrived in pieces lies in, until `release`."""
        self._size_bytes = b""
        """The beginning of a size that arrived in pieces."""
        self._buffer: bytearray | None = None
        """The body that arrives in pieces; `_received` of `_size` bytes are in it."""
        self._size = 0
        self._received = 0
        self.unfinished_bytes = 0
        """The size of that frame; 0 where there is none."""
        self.begun = 0
        """How many have arrived in pieces, that one included."""
        self.position = 0
        """Where in the view given to `feed` its last frame ended."""

    @property
    def is_between_frames(self) -> bool:
        """Whether an end of the stream here would cut nothing in two."""
        return self._buffer is None and not self._size_bytes

    def feed(self, view: memoryview) -> Iterator[memoryview]:
        """All frames that `view` completes, each released when the next is asked for.

        Whoever stops between two goes on at `position`.
        """
        position, end = 0, len(view)
        while position < end:
            if self._buffer is None and not self._size_bytes and end - position >= _SIZE_BYTES:
                # The usual case without a call: the frame lies in `view`.
                start = position + _SIZE_BYTES
                stop = start + _SIZE.unpack_from(view, position)[0]
                if start <= stop <= end and stop - start <= self._max_bytes:
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
        """The frame that begins and ends with `view`, as most requests do; None: ask `feed`."""
        size = len(view) - _SIZE_BYTES
        if size < 0 or size > self._max_bytes or self._buffer is not None or self._size_bytes:
            return None
        return view[_SIZE_BYTES:] if _SIZE.unpack_from(view)[0] == size else None

    def next_frame(self, view: memoryview, position: int = 0) -> tuple[memoryview | None, int]:
        """The next frame that `view` completes from `position` on, and where it ends in `view`.

        Without one, everything has been taken in and the second value is the end of `view`.
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
            size = self._checked(_SIZE.unpack(self._size_bytes)[0])
            self._size_bytes = b""
        else:
            size = self._checked(_SIZE.unpack_from(view, position)[0])
            position += _SIZE.size
        end = position + size
        if end <= len(view):
            return view[position:end], end
        self._buffer = bytearray()
        self._size = self.unfinished_bytes = size
        self.begun += 1
        self._received = 0
        return self._continue(view, position)

    @property
    def arrived_bytes(self) -> int:
        """What has arrived of a begun frame."""
        return self._received

    @property
    def held_bytes(self) -> int:
        """The memory of a begun frame."""
        return 0 if self._buffer is None else len(self._buffer)

    def space(self) -> memoryview | None:
        """Where the rest of a begun frame may be received directly, before `received`.

        None between frames and where little is missing: then receive elsewhere and `feed`. The
        view is good for one receive.
        """
        if self._buffer is None or self._size - self._received < SMALL_BUFFER_BYTES:
            return None
        self._reserve(self._received + 1)
        return memoryview(self._buffer)[self._received : self._size]

    def received(self, count: int) -> memoryview | None:
        """Take in `count` bytes that were received into `space()`; the frame if it is complete."""
        self._received += count
        return self._completed()

    def release(self) -> None:
        """Return the buffer of the last frame that arrived in pieces for reuse."""
        if self._frame_buffer is not None and self._buffers is not None:
            self._buffers.give_back(self._frame_buffer)
            self._frame_buffer = None

    def _checked(self, size: int) -> int:
        if not 0 <= size <= self._max_bytes:
            sentence = f"A frame of {size} bytes; the limit is {self._max_bytes}"
            raise ProtocolError(sentence + _other_protocol(_SIZE.pack(size)))
        return size

    def _continue(self, view: memoryview, position: int) -> tuple[memoryview | None, int]:
        assert self._buffer is not None
        piece = view[position : position + self._size - self._received]
        end = self._received + len(piece)
        self._reserve(end)
        self._buffer[self._received : end] = piece
        self._received = end
        return self._completed(), position + len(piece)

    def _reserve(self, needed: int) -> None:
        """Make the buffer long enough for `needed` bytes, with room for what is likely to come."""
        assert self._buffer is not None
        if len(self._buffer) < needed:
            capacity = min(self._size, max(GROWTH_FACTOR * needed, SMALL_BUFFER_BYTES))
            if not self._buffer and self._buffers is not None:
                spare = self._buffers.take(self._size)
                if spare is not None:
                    self._buffer = spare
                    return
                if self._buffers.is_short:
                    capacity = needed
            grown = bytearray(capacity)
            # Allocate a new buffer, not a longer one: a caller may still hold a view of its space.
            grown[: self._received] = memoryview(self._buffer)[: self._received]
            self._buffer = grown

    def _completed(self) -> memoryview | None:
        if self._buffer is None or self._received < self._size:
            return None
        frame = memoryview(self._buffer)[: self._size]
        if self._buffers is not None:
            self._frame_buffer = self._buffer
        self._buffer = None
        self.unfinished_bytes = 0
        return frame


def frame(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Put the size before the chunks of one message (its header among them).

    The first chunks are joined with the size where they are small.
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
