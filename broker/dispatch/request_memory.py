"""Requests that a client repeats, all but a few bytes: answered without being decoded.

`ProduceMemory` and `FetchMemory` remember, for one connection, what its usual requests have in
common, and what the handler answered to them (docs/decisions/012 and 013). A remembered answer is
made of the handler's own: it is encoded with placeholders, and by them is found what belongs where.
"""

from struct import Struct
from typing import Protocol

from ...clients.protocol.schema import Chunk, Message
from ..request.context import Deferred

KNOWN_MAX = 64
"""So many requests a connection are remembered at once."""

NUMBERS = Struct(">qqq")
PLACEHOLDERS = (-0x7172737475767778, -0x6162636465666768, -0x5152535455565758)
"""Numbers that a message holds nowhere else."""


class RequestMemory(Protocol):
    """What the requests of one connection have in common, as long as their headers are the same."""

    def answer(
        self, frame: memoryview, correlation_id: int, /
    ) -> list[Chunk] | Message | Deferred[object] | None:
        """Do what a request asks that was seen before: the response's frame, or what the handler
        would have answered. None: the request must be decoded.
        """
        ...

    def learn(self, frame: memoryview, request: Message, response: Message, /) -> None:
        """Remember a request that was answered at once, where one of its kind may be repeated."""
        ...
