"""The result of a request to a coordinator, which is often available at once.

A future is returned only when a request has to wait, so that most requests need no task.
"""

import asyncio
from typing import TypeAlias, TypeVar

T = TypeVar("T")

ResultOrFuture: TypeAlias = T | asyncio.Future[T]
"""A result, or a future of it."""
