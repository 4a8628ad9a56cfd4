"""The threads that wait for the tier: they end when the pool does, or are waited for so long."""

import asyncio
import threading
from contextlib import suppress

from tierlog.tiering.blocking_pool import ThreadedPool

WAIT_S = 60.0


def pool_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("pool-test_")]


async def stopped_in_the_middle_of(call: threading.Event) -> ThreadedPool:
    """A pool that is stopped while one of its threads waits for `call`."""
    pool, has_begun = ThreadedPool(2, "pool-test"), threading.Event()

    def wait() -> None:
        has_begun.set()
        call.wait(WAIT_S)

    running = asyncio.ensure_future(pool.run(wait))
    await asyncio.to_thread(has_begun.wait, WAIT_S)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    pool.stop()
    return pool


def test_whoever_joins_a_pool_waits_for_the_calls_that_run() -> None:
    call = threading.Event()
    pool = asyncio.run(stopped_in_the_middle_of(call))
    assert pool_threads() == ["pool-test_0"]
    pool.join(0.01)
    assert pool_threads() == ["pool-test_0"]
    call.set()
    pool.join(WAIT_S)
    assert pool_threads() == []
