"""Runs long work (`clients/runtime/steps.py`) on the event loop, taking turns with other tasks."""

import asyncio
from collections.abc import Generator
from typing import TypeVar, cast

T = TypeVar("T")


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Run all steps, with other tasks in between; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        await asyncio.sleep(0)
