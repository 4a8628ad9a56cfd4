"""Where tiering runs what blocks: synchronous file systems, and files that must be synced.

The pool is bounded and its threads are named: this is the one door to threads in tiering. In a
simulation the loop's own executor runs the same calls in line.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class BlockingPool(Protocol):
    """Runs calls that may block, off the event loop."""

    async def run(self, call: Callable[[], T]) -> T: ...

    def resize(self, threads: int) -> None:
        """Let this many run at once from now on; what is running is not disturbed."""
        ...

    def stop(self) -> None:
        """Start nothing more. What is running is left to end by itself. Idempotent."""
        ...


class ThreadedPool:
    """At most `threads` threads, started as they are needed."""

    def __init__(self, threads: int, name: str) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def resize(self, threads: int) -> None:
        before = self._executor
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=self._name)
        # What was handed in is still done there; its threads end when it is.
        before.shutdown(wait=False)

    async def run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def stop(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
