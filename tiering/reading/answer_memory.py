"""How much of the tier stands in memory on its way to clients, and how little a read gets then.

A local answer is a region of a file and costs no memory; a remote one is bytes until its client has
taken them, and clients may be many and slow. What they hold together is counted, from the read that
asks until the last reference to its answer is gone. A read may take half of what is left of the
bound, so that the bound is approached and not passed; when next to nothing is left it takes a
little all the same, because every reader must make progress, if only batch by batch.
"""

LEAST_BYTES = 64 * 1024


class AnswerMemory:
    """The bytes of answers that clients have not taken yet, and their bound."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes promised to reads under way or standing in answers."""
        return self._held

    def reserve(self, nbytes: int) -> int:
        """How much a read may take of what it wants; to be given back or turned into an answer."""
        granted = min(nbytes, max((self._max_bytes - self._held) // 2, LEAST_BYTES))
        self._held += granted
        return granted

    def give_back(self, nbytes: int) -> None:
        """So much is not held any more."""
        self._held -= nbytes

    def answer(self, reserved: int, content: bytes | memoryview) -> bytes | memoryview:
        """A copy in place of the reservation, counted for as long as anyone holds it.

        It is the only copy between the cache and the socket: without it a small answer to a slow
        client would keep a whole chunk in memory.
        """
        self._held += len(content) - reserved
        if not content:
            return b""
        held = _HeldBytes(content)
        held.memory = self
        # As a view, since whoever sends it knows bytes by their very type.
        return memoryview(held)


class _HeldBytes(bytearray):
    """Bytes that say when they go. Of a view a subclass of `bytes` would make two copies."""

    memory: AnswerMemory

    def __del__(self) -> None:
        self.memory.give_back(len(self))
