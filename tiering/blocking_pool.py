"""Runs the blocking calls of tiering: synchronous file systems, and files that must be synced.

The pool is bounded and its threads are named; tiering starts no other threads. In a simulation the
loop's own executor runs the same calls inline.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class BlockingPool(Protocol):
    """Runs calls that may block, off the event loop."""

    async def run(self, call: Callable[[], T]) -> T: ...

    def resize(self, threads: int) -> None:
        """Change the number of threads; running calls are not affected."""
        ...

    def stop(self) -> None:
        """Start no more calls; running ones end by themselves. Idempotent."""
        ...


class ThreadedPool:
    """At most `threads` threads, started as they are needed."""

    def __init__(self, threads: int, name: str) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def resize(self, threads: int) -> None:
        before = self._executor
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=self._name)
        # The old executor still runs the calls submitted to it; then its threads end.
        before.shutdown(wait=False)

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def stop(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def join(self, timeout_s: float) -> None:
        """After `stop`: wait until the threads have ended, or until the time is up."""
        # Only `shutdown` waits for them, and without a limit. The one thread more is a daemon.
        ending = threading.Thread(target=self._executor.shutdown, name=f"{self._name}-end")
        ending.daemon = True
        ending.start()
        ending.join(timeout_s)
