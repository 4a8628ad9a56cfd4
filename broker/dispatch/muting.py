"""Muting: a response is sent at once, and the client's next request is read later."""

import asyncio
from collections.abc import Sequence

from ...clients.protocol.schema import Chunk
from ..network.connection import DeferredResponse


def muted(
    loop: asyncio.AbstractEventLoop, chunks: Sequence[Chunk], wait_s: float
) -> DeferredResponse:
    """The response, after which the client is muted for `wait_s`; Kafka's `ThrottledChannel`."""
    wake: asyncio.Future[object] = loop.create_future()
    timer = loop.call_later(wait_s, _wake, wake)
    wake.add_done_callback(lambda _: timer.cancel())
    return DeferredResponse(wake, _nothing_more, chunks)


def _wake(future: "asyncio.Future[object]") -> None:
    if not future.done():
        future.set_result(None)


def _nothing_more(_: "asyncio.Future[object]") -> Sequence[Chunk]:
    return ()
