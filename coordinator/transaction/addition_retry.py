"""Adds partitions to a transaction again and again while its producer's previous one is ending.

A producer goes on as soon as EndTxn is answered, while the markers of its previous transaction are
still being written. Its next batch then meets CONCURRENT_TRANSACTIONS. The client would send the
whole batch once more, after a longer wait than markers take; so the broker tries again itself, for
a limited time (Kafka's `ReplicaManager.handleProduceAppend`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import NamedTuple, TypeAlias, TypeVar, cast

from ...clients.errors import ErrorCode

T = TypeVar("T")
Outcome: TypeAlias = T | Coroutine[object, object, T]
"""The outcome of an attempt, or what to await for it."""


class AdditionRetry(NamedTuple):
    """When to try again. Times in milliseconds."""

    backoff_ms: int
    max_ms: int
    """No attempt begins later than this and one back-off after the first."""

    def pause_ms(self, errors: Iterable[ErrorCode], elapsed_ms: float) -> int | None:
        """How long to wait before the next attempt; None to keep this outcome.

        `elapsed_ms` is the time since the first attempt.
        """
        if elapsed_ms >= self.max_ms or ErrorCode.CONCURRENT_TRANSACTIONS not in errors:
            return None
        return self.backoff_ms


def with_retries(
    attempt: Callable[[], Outcome[T]],
    errors_of: Callable[[T], Iterable[ErrorCode]],
    retry: AdditionRetry,
) -> Outcome[T]:
    """The outcome of the last attempt, without a pause behind it.

    The first attempt is made in this call.
    """
    outcome = attempt()
    if isinstance(outcome, Coroutine):
        return _retry(cast("Coroutine[object, object, T]", outcome), attempt, errors_of, retry)
    if retry.pause_ms(errors_of(outcome), 0) is None:
        return outcome
    return _retry(outcome, attempt, errors_of, retry)


async def _retry(
    outcome: Outcome[T],
    attempt: Callable[[], Outcome[T]],
    errors_of: Callable[[T], Iterable[ErrorCode]],
    retry: AdditionRetry,
) -> T:
    time_s = asyncio.get_running_loop().time
    # The first attempt was made in the same call that returned this coroutine.
    began_s = time_s()
    while True:
        settled = await _settle(outcome)
        pause_ms = retry.pause_ms(errors_of(settled), (time_s() - began_s) * 1_000)
        if pause_ms is None:
            return settled
        await asyncio.sleep(pause_ms / 1_000)
        outcome = attempt()


async def _settle(outcome: Outcome[T]) -> T:
    if isinstance(outcome, Coroutine):
        return await cast("Coroutine[object, object, T]", outcome)
    return outcome
