"""Long work on the loop, in turns with everything else (`clients/steps.py`)."""

import asyncio
from collections.abc import Generator
from typing import TypeVar, cast

T = TypeVar("T")


async def in_turns(steps: Generator[None, None, T]) -> T:
    """The work's result; whatever else the loop has to do comes in between."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)
        await asyncio.sleep(0)
