"""Muting: a response is sent at once, and the client's next request is read later."""

import asyncio
from collections.abc import Sequence

from ...clients.protocol.schema import Chunk
from ..network.response import DeferredResponse, Response


def muted(
    loop: asyncio.AbstractEventLoop, chunks: Sequence[Chunk], wait_s: float
) -> DeferredResponse:
    """The response, after which the client is muted for `wait_s`; Kafka's `ThrottledChannel`."""
    wake: asyncio.Future[object] = loop.create_future()
    timer = loop.call_later(wait_s, _wake, wake)
    wake.add_done_callback(lambda _: timer.cancel())
    return DeferredResponse(wake, _nothing_more, chunks)


def mute_after(loop: asyncio.AbstractEventLoop, response: Response, wait_s: float) -> Response:
    """The response, deferred or not, after which the client is muted for `wait_s`."""
    if not wait_s:
        return response
    if not isinstance(response, DeferredResponse):
        return muted(loop, response, wait_s)
    respond = response.respond

    def respond_and_mute(done: asyncio.Future[object]) -> Response:
        return mute_after(loop, respond(done), wait_s)

    return response._replace(respond=respond_and_mute)


def _wake(future: "asyncio.Future[object]") -> None:
    if not future.done():
        future.set_result(None)


def _nothing_more(_: "asyncio.Future[object]") -> Sequence[Chunk]:
    return ()
