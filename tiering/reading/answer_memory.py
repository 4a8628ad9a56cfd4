"""Bounds the memory of remote data on its way to clients, by limiting the size of each read.

A local response is a region of a file and costs no memory; a remote one is held in memory until its
client has received it, and clients may be many and slow. All remote bytes are counted, from the
start of a read until the last reference to its response is gone. A read may take half of what is
left of the bound, so that the bound is approached and not exceeded. When almost nothing is left it
still gets `LEAST_BYTES`, because every reader must make progress, if only batch by batch.
"""

LEAST_BYTES = 64 * 1024


class AnswerMemory:
    """Counts and bounds the bytes of responses that clients have not received yet."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes reserved for running reads or held by responses."""
        return self._held

    def reserve(self, nbytes: int) -> int:
        """Reserve up to `nbytes`; returns the granted size, for `give_back` or `answer`."""
        granted = min(nbytes, max((self._max_bytes - self._held) // 2, LEAST_BYTES))
        self._held += granted
        return granted

    def give_back(self, nbytes: int) -> None:
        """Release `nbytes`."""
        self._held -= nbytes

    def answer(self, reserved: int, content: bytes | memoryview) -> bytes | memoryview:
        """Replace a reservation by a copy of the content, counted while it is referenced.

        It is the only copy between the cache and the socket: without it a small response to a slow
        client would keep a whole chunk in memory.
        """
        self._held += len(content) - reserved
        if not content:
            return b""
        held = _HeldBytes(content)
        held.memory = self
        # A view, because the code that sends it checks for the exact types of bytes.
        return memoryview(held)


class _HeldBytes(bytearray):
    """Bytes that are released when they are deleted. A subclass of `bytes` would copy twice."""

    memory: AnswerMemory

    def __del__(self) -> None:
        self.memory.give_back(len(self))
