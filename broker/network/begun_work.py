"""What a request has begun and its response waits for, and how that ends with its client."""

import asyncio
from collections.abc import Coroutine

Work = asyncio.Future[object] | Coroutine[object, object, object]
"""What a response can wait for."""


def is_given_up(done: asyncio.Future[object]) -> bool:
    """Whether the work was cancelled; that of `asyncio.gather` fails with its CancelledError."""
    return done.cancelled() or isinstance(done.exception(), asyncio.CancelledError)


def give_up(work: asyncio.Future[object] | None) -> None:
    """Cancel what nobody waits for any more: a fetch without a client need not stay in purgatory.

    A task may already have changed something, and is left to end by itself.
    """
    if work is not None and not isinstance(work, asyncio.Task):
        work.cancel()


def discard(work: Work) -> None:
    """Cancel work whose connection was closed before it began."""
    if isinstance(work, asyncio.Future):
        work.cancel()
    else:
        work.close()
