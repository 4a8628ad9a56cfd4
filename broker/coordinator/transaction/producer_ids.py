"""Producer ids for idempotent producers, from blocks that the controller hands out (KIP-730).

A block is used up by one broker alone, so ids are unique without asking for each. What a broker
has left of a block when it stops is lost, which is harmless: there are 2^63 ids.
"""

import asyncio
from collections.abc import Awaitable, Callable

PRODUCER_ID_BLOCK_SIZE = 1_000
"""Kafka's ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE."""


class ProducerIds:
    """Gives out producer ids; asks `allocate(count)` for the first id of a new block."""

    def __init__(self, allocate: Callable[[int], Awaitable[int]]) -> None:
        self._allocate = allocate
        self._block = iter(range(0))
        # Whoever comes while a block is being fetched takes from that block.
        self._fetching = asyncio.Lock()

    def next_if_there(self) -> int | None:
        """A fresh producer id, or None where the block is used up: then `await next_id()`."""
        return next(self._block, None)

    async def next_id(self) -> int:
        """A fresh producer id. Raises KafkaError where the controller does."""
        async with self._fetching:
            producer_id = self.next_if_there()
            if producer_id is None:
                first = await self._allocate(PRODUCER_ID_BLOCK_SIZE)
                self._block = iter(range(first, first + PRODUCER_ID_BLOCK_SIZE))
                producer_id = next(self._block)
            return producer_id
