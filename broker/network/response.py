"""What answers a request: the chunks of a response, or work that they wait for."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import NamedTuple

from ...clients.protocol.schema import Chunk

Work = asyncio.Future[object] | Coroutine[object, object, object]
"""What a response can wait for."""


class Refused(Exception):
    """The request cannot be answered: the connection is closed, and `str(error)` is the reason."""


class DeferredResponse(NamedTuple):
    """A response that `respond` makes when `work` is done.

    The chunks of `at_once` are sent first: a client above its quota gets its response, and its next
    request is not read until `work` is done. `held_bytes` of the request stay in memory until then.
    Later requests may be handled meanwhile if it `is_pipelined`: all that its request does is done,
    and `work` is a future that only says when it may be answered.
    """

    work: Work
    respond: "Callable[[asyncio.Future[object]], Response]"
    at_once: Sequence[Chunk] = ()
    held_bytes: int = 0
    is_pipelined: bool = False


Response = Sequence[Chunk] | DeferredResponse
"""The chunks of a framed response (empty if none is sent), or a deferred response."""


def is_given_up(done: asyncio.Future[object]) -> bool:
    """Whether the work was cancelled; that of `asyncio.gather` fails with its CancelledError."""
    return done.cancelled() or isinstance(done.exception(), asyncio.CancelledError)


def give_up(work: asyncio.Future[object]) -> None:
    """Cancel what nobody waits for any more: a fetch without a client need not stay in purgatory.

    A task may already have changed something, and is left to end by itself.
    """
    if not isinstance(work, asyncio.Task):
        work.cancel()


def discard(work: Work) -> None:
    """Cancel work whose connection was closed before it began."""
    if isinstance(work, asyncio.Future):
        work.cancel()
    else:
        work.close()
