"""Runs many slow calls, such as object store requests, a few at a time.

Memory is bounded by the number of workers: each takes an item only when it is free.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def in_parallel(
    items: Iterable[T], work: Callable[[T], Awaitable[None]], workers: int
) -> None:
    """Run `work` for every item, `workers` at once. Raises the first failure and stops the rest."""
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
