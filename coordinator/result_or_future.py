"""The result of a request to a coordinator, which is often available at once.

A future is returned only when a request has to wait, so that most requests need no task.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias, TypeVar

T = TypeVar("T")
U = TypeVar("U")

ResultOrFuture: TypeAlias = T | asyncio.Future[T]
"""A result, or a future of it."""


def settled_by(
    earlier: asyncio.Future[T], result_of: Callable[[asyncio.Future[T]], U]
) -> asyncio.Future[U]:
    """A future of its own for each caller: what an earlier one, once done, means for that caller.

    It is put later than this call returns, and behind what else waits for the earlier one.
    Cancelling it cancels nobody else's.
    """
    later: asyncio.Future[U] = asyncio.get_running_loop().create_future()

    def settle(done: asyncio.Future[T]) -> None:
        if not later.done():
            later.set_result(result_of(done))

    earlier.add_done_callback(settle)
    return later
