"""The cache of requests that repeat except for a few bytes, and so need no decoding.

`ProduceRequestCache` and `FetchRequestCache` keep, for one connection, the common part of its
typical requests, and the handler's response to them (docs/decisions/012 and 013). The response is
encoded once with placeholders, which show where the numbers of the next response belong.
"""

from struct import Struct
from typing import Protocol

from ...clients.protocol.schema import Chunk, Message
from ..request.context import Deferred

NUMBERS = Struct(">qqq")
PLACEHOLDERS = (-0x7172737475767778, -0x6162636465666768, -0x5152535455565758)
"""Numbers that occur nowhere else in a message."""

SIZE = Struct(">i")
"""The length of the records in versions that are not flexible."""


def response_layout(is_flexible: bool, rest: str) -> Struct:
    """The layout of a response: its size, the correlation id, and what follows.

    In flexible versions a zero byte comes before it, for the empty tagged fields.
    """
    return Struct(f">{'iix' if is_flexible else 'ii'}{rest}")


class RequestCache(Protocol):
    """The cached requests of one connection, as long as their headers are the same."""

    def answer(
        self, frame: memoryview, correlation_id: int, /
    ) -> list[Chunk] | Message | Deferred[object] | None:
        """Serve a cached request; returns the response's frame, or the result of the handler.

        Returns None if the request must be decoded.
        """
        ...

    def put(self, frame: memoryview, request: Message, response: Message | None, /) -> None:
        """Cache a request, if it is of the cached kind and has succeeded.

        `response` is None while a Produce that has succeeded here waits for followers.
        """
        ...
