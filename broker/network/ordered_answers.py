"""The responses that a connection still owes, in the order of their requests.

A Produce that waits for followers is in the log already, so those behind it can be handled
meanwhile: followers fetch what several of them have appended at once. The order of appends and of
responses is that of the requests, as in Kafka, where the connection is muted instead. A request of
another kind is handled only once nothing is owed: it may ask for what was produced before it, and
its response may be too large to be kept.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Generic, NamedTuple, TypeVar

from ...clients.protocol.schema import Chunk

OWED_MAX = 5
"""The most responses owed before no more requests are handled: what an idempotent producer has in
flight (max.in.flight.requests.per.connection)."""

_SIZE = Struct(">i")
_PRODUCE = b"\0\0"
"""How a Produce request begins: its ApiKey is 0."""

ResponseT = TypeVar("ResponseT")


def may_go_ahead(frame: memoryview) -> bool:
    """Whether a request can be handled while responses to others are owed."""
    return frame[: len(_PRODUCE)].tobytes() == _PRODUCE


def put_back(frame: memoryview, rest: memoryview | bytes = b"") -> memoryview:
    """A copy of a request with its size before it, and of the bytes behind it.

    It can be written into: a Produce among those bytes is stamped where it is.
    """
    return memoryview(bytearray().join((_SIZE.pack(len(frame)), frame, rest)))


class Answered(NamedTuple, Generic[ResponseT]):
    """Work that is done, and how its response is made."""

    done: asyncio.Future[object]
    respond: Callable[[asyncio.Future[object]], ResponseT]


class Owed(NamedTuple, Generic[ResponseT]):
    """A response: what it waits for and how it is made then, or its chunks."""

    work: asyncio.Future[object] | None
    respond: Callable[[asyncio.Future[object]], ResponseT] | None
    chunks: Sequence[Chunk] = ()


class OrderedAnswers(Generic[ResponseT]):
    """Empty while no request waits for followers."""

    __slots__ = ("_owed",)

    def __init__(self) -> None:
        self._owed: list[Owed[ResponseT]] = []

    def __len__(self) -> int:
        return len(self._owed)

    @property
    def is_full(self) -> bool:
        """Whether no more requests are to be handled now."""
        return len(self._owed) >= OWED_MAX

    def add_later(
        self,
        work: asyncio.Future[object],
        respond: Callable[[asyncio.Future[object]], ResponseT],
    ) -> None:
        """Owe a response that can be made when `work` is done."""
        self._owed.append(Owed(work, respond))

    def owe_first(
        self,
        work: asyncio.Future[object],
        respond: Callable[[asyncio.Future[object]], ResponseT],
    ) -> None:
        """Owe the response that was removed last again: it waits for more work."""
        self._owed.insert(0, Owed(work, respond))

    def add_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Owe a response that is ready, but for those before it."""
        self._owed.append(Owed(None, None, chunks))

    def take_ready(self) -> Iterator[Owed[ResponseT]]:
        """Remove and return those at the front that can be sent now."""
        while self._owed and ((work := self._owed[0].work) is None or work.done()):
            yield self._owed.pop(0)

    def give_up(self) -> None:
        """Owe nothing any more, and cancel what the responses wait for."""
        owed, self._owed = self._owed, []
        for each in owed:
            if each.work is not None:
                each.work.cancel()
