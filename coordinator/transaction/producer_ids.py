"""Producer ids for idempotent producers, from blocks that the controller allocates (KIP-730).

Each block belongs to one broker, so ids are unique without a request per id. The unused rest of a
block is lost when the broker stops, which is harmless: there are 2^63 ids.
"""

import asyncio
from collections.abc import Awaitable, Callable

PRODUCER_ID_BLOCK_SIZE = 1_000
"""Kafka's ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE."""


class ProducerIds:
    """Hands out producer ids; `allocate(count)` returns the first id of a new block."""

    def __init__(self, allocate: Callable[[int], Awaitable[int]]) -> None:
        self._allocate = allocate
        self._block = iter(range(0))
        # Callers that arrive while a block is being fetched take ids from that block.
        self._fetching = asyncio.Lock()

    def next_if_there(self) -> int | None:
        """An unused producer id, or None if the block is used up: then `await next_id()`."""
        return next(self._block, None)

    async def next_id(self) -> int:
        """An unused producer id. Raises KafkaError if `allocate` does."""
        async with self._fetching:
            producer_id = self.next_if_there()
            if producer_id is None:
                first = await self._allocate(PRODUCER_ID_BLOCK_SIZE)
                self._block = iter(range(first, first + PRODUCER_ID_BLOCK_SIZE))
                producer_id = next(self._block)
            return producer_id
