"""Repeats what a cluster refuses for a while: the clients' one loop of attempts."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from ..errors import ErrorCode, KafkaError
from .backoff import Backoff

T = TypeVar("T")

_BACKOFF = Backoff(100, 1000)


async def retried(
    attempt: Callable[[], Awaitable[T]],
    deadline: float,
    random: Random,
    *,
    on_failure: Callable[[], None] | None = None,
    except_for: ErrorCode | None = None,
) -> T:
    """Repeat `attempt` until it succeeds, fails for good, or the next one would begin too late.

    `deadline` is in seconds of the loop's clock. `on_failure` is called after each failure that may
    pass, the last one too: whoever asks next must not trust the same nodes again. An error of code
    `except_for` counts as one that does not pass. Raises the last `KafkaError`.
    """
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        try:
            return await attempt()
        except KafkaError as error:
            if not error.is_retriable or error.code is except_for:
                raise
            if on_failure is not None:
                on_failure()
            failures += 1
            delay = _BACKOFF.delay_seconds(failures, random)
            if loop.time() + delay > deadline:
                raise
        await asyncio.sleep(delay)
