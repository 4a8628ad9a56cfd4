"""Repeats what a cluster refuses for a while: the clients' one loop of attempts."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from ..errors import ErrorCode, KafkaError
from ..runtime.backoff import Backoff

T = TypeVar("T")

_BACKOFF = Backoff(100, 1000)


async def retry_until(
    attempt: Callable[[], Awaitable[T]],
    deadline: float,
    random: Random,
    *,
    on_failure: Callable[[], None] | None = None,
    except_for: ErrorCode | None = None,
) -> T:
    """Repeat `attempt` until it succeeds, fails for good, or the next one would begin too late.

    `deadline` is in seconds of the loop's clock, and ends an attempt that is under way.
    `on_failure` is called after each failure that may pass, the last one too: the next request must
    not trust the same nodes again. An error of code `except_for` counts as one that does not pass.
    Raises the last `KafkaError`, or REQUEST_TIMED_OUT.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    failures = 0
    failure: KafkaError | None = None
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                return await attempt()
        except TimeoutError:
            if on_failure is not None:
                on_failure()
            raise _late(deadline - began, failure) from failure
        except KafkaError as error:
            if not error.is_retriable or error.code is except_for:
                raise
            failure = error
            if on_failure is not None:
                on_failure()
            failures += 1
            delay = _BACKOFF.delay_seconds(failures, random)
            if loop.time() + delay > deadline:
                raise
        await asyncio.sleep(delay)


def _late(seconds: float, failure: KafkaError | None) -> KafkaError:
    before = "" if failure is None else f" Before: {failure.message}"
    message = f"The cluster has not answered within {seconds:g} s.{before}"
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, message)
